//! CLIENT UNPAUSE.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|unpause",
    summary: "Ends CLIENT PAUSE: what waited is executed",
    since: "6.2.0",
    group: Group::Connection,
    complexity: "O(paused requests)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    never_paused: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.instance.unpause();
    context.replies.ok();
    Ok(())
}
