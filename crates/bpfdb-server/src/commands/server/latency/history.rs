//! LATENCY HISTORY.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "latency|history",
    summary: "When and how slow one kind of event was",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(1)",
    arity: 3,
    arguments: "event",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let Some(event) = context.instance.latency.event(&arguments[0]) else {
        context.replies.array(0);
        return Ok(());
    };
    let samples = event.samples();
    context.replies.array(samples.len());
    for sample in samples {
        context.replies.array(2);
        context.replies.integer(sample.time as i64);
        context.replies.integer(sample.milliseconds as i64);
    }
    Ok(())
}
