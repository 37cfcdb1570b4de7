//! MEMORY PURGE: what snapshots no longer need, and empty pages.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "memory|purge",
    summary: "Collects what nobody needs any more",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(pages)",
    arity: 2,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    differences: "The memory is used again; it does not go back to the machine.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.engine.sweep()?;
    context.replies.ok();
    Ok(())
}
