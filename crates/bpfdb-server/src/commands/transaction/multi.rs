//! MULTI.

use super::super::atomic::is_open;
use super::super::prelude::*;
use super::queue::Queue;

pub(crate) static COMMAND: Command = Command {
    name: "multi",
    summary: "Begins to queue commands for EXEC",
    since: "1.2.0",
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
    differences: "Refused inside BEGIN. The memory of queued commands is bounded.",
    queued: false,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    if context.multi.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    if is_open(context.session) {
        return Err("ERR MULTI inside BEGIN is not allowed; COMMIT or ROLLBACK first".into());
    }
    context.multi.queue = Some(Queue::new(context.connection.receipts));
    context.replies.ok();
    Ok(())
}
