//! DISCARD.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "discard",
    summary: "Forgets the commands queued since MULTI",
    since: "2.0.0",
    group: Group::Transactions,
    complexity: "O(commands queued)",
    arity: 1,
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::AllowBusy,
    ],
    categories: &[Category::Transaction],
    queued: false,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    if context.multi.queue.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    context.multi.watched.clear();
    context.replies.ok();
    Ok(())
}
