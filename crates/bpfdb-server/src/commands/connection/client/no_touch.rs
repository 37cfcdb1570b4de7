//! CLIENT NO-TOUCH.

use super::super::super::arguments::on_or_off;
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|no-touch",
    summary: "Accepted for clients that ask for it",
    since: "7.2.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "Keys have no time of access: nothing to keep.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    context.connection.no_touch = on_or_off(&arguments[0])?;
    context.replies.ok();
    Ok(())
}
