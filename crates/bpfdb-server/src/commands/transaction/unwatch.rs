//! UNWATCH.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "unwatch",
    summary: "Forgets the keys that WATCH noted",
    since: "2.2.0",
    group: Group::Transactions,
    complexity: "O(1)",
    arity: 1,
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::AllowBusy,
    ],
    categories: &[Category::Transaction],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.multi.watched.clear();
    context.replies.ok();
    Ok(())
}
