//! COMMAND COUNT.

use super::super::super::prelude::*;
use super::super::super::table::COMMANDS;

pub(crate) static COMMAND: Command = Command {
    name: "command|count",
    summary: "Counts the commands",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.integer(COMMANDS.len() as i64);
    Ok(())
}
