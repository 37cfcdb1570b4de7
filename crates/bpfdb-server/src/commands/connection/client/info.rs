//! CLIENT INFO.

use super::super::super::prelude::*;
use super::list::{describe, look_at_own};

pub(crate) static COMMAND: Command = Command {
    name: "client|info",
    summary: "What is known about this connection",
    since: "6.2.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    tips: &["nondeterministic_output"],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    look_at_own(context);
    let line = describe(context.connection, context.replies.protocol());
    context.replies.verbatim("txt", format!("{line}\n"));
    Ok(())
}
