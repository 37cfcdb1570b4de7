//! CLIENT ID.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|id",
    summary: "The connection's number",
    since: "5.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.integer(context.connection.id as i64);
    Ok(())
}
