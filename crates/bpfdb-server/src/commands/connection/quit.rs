//! QUIT.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "quit",
    summary: "Closes the connection after the reply",
    since: "1.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -1,
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::NoAuth,
        Flag::AllowBusy,
    ],
    categories: &[Category::Connection],
    queued: false,
    for_subscribers: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.connection.close = true;
    context.replies.ok();
    Ok(())
}
