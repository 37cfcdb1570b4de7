//! ECHO.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "echo",
    summary: "Replies with its argument",
    since: "1.0.0",
    group: Group::Connection,
    complexity: "O(length of the message)",
    arity: 2,
    arguments: "message",
    flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    context.replies.bulk(&arguments[0]);
    Ok(())
}
