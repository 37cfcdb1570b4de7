//! LATENCY LATEST.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "latency|latest",
    summary: "The newest of each kind of event",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let events = context.instance.latency.events();
    context.replies.array(events.len());
    for (name, event) in events {
        let latest = event.latest();
        context.replies.array(4);
        context.replies.bulk(name);
        context.replies.integer(latest.time as i64);
        context.replies.integer(latest.milliseconds as i64);
        context.replies.integer(event.longest as i64);
    }
    Ok(())
}
