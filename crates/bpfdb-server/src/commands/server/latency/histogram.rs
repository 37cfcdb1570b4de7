//! LATENCY HISTOGRAM.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "latency|histogram",
    summary: "How long commands take, as a distribution",
    since: "7.0.0",
    group: Group::Server,
    complexity: "O(commands named)",
    arity: -2,
    arguments: "[command]...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    differences: "Of commands that the daemon executed.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, names: &[Vec<u8>]) -> Outcome {
    let asked = |name: &str| {
        let is = |word: &Vec<u8>| {
            let name = name.as_bytes();
            name.eq_ignore_ascii_case(word)
                || (name.get(word.len()) == Some(&b'|')
                    && name[..word.len()].eq_ignore_ascii_case(word))
        };
        names.is_empty() || names.iter().any(is)
    };
    let statistics = &context.instance.statistics;
    let used: Vec<_> = statistics
        .used_commands()
        .filter(|(name, of)| of.calls.get() > 0 && asked(name))
        .collect();
    context.replies.map(used.len());
    for (name, of) in used {
        let steps = of.times.cumulative();
        context.replies.bulk(name);
        context.replies.map(2);
        context.replies.bulk("calls");
        context.replies.integer(of.calls.get() as i64);
        context.replies.bulk("histogram_usec");
        context.replies.map(steps.len());
        for (time, count) in steps {
            context.replies.integer(time.as_micros() as i64);
            context.replies.integer(count as i64);
        }
    }
    Ok(())
}
