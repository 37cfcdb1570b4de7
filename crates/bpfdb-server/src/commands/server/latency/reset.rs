//! LATENCY RESET.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "latency|reset",
    summary: "Forgets what was slow",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(1)",
    arity: -2,
    arguments: "[event]...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, events: &[Vec<u8>]) -> Outcome {
    let forgotten = context.instance.latency.reset(events);
    context.replies.integer(forgotten as i64);
    Ok(())
}
