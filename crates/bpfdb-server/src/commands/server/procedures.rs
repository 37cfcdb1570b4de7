//! PROCEDURES, of bpfdb.

use super::super::arguments::is;
use super::super::prelude::*;
use crate::scripting::procedures::Shown;

pub(crate) static COMMAND: Command = Command {
    name: "procedures",
    summary: "Shows functions and scripts: where they run, how often, and why not in the kernel",
    since: "0.1.0",
    group: Group::Scripting,
    complexity: "O(procedures)",
    arity: -1,
    arguments: "[LISTING name]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Scripting],
    differences: "Redis has no such command. A list of procedures, each as fields and values; with LISTING the operations of one, and the program beside its lines of Lua. See procedures.md.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    // Which functions there are is data.
    context.tells_of_all();
    match arguments {
        [] => list(context),
        [word, name] if is(word, "listing") => listing(context, name)?,
        _ => return Err("ERR syntax error".into()),
    }
    Ok(())
}

fn listing(context: &mut Context<'_>, name: &[u8]) -> Outcome {
    let text = context.instance.procedures.listing(name);
    let text = text.ok_or("ERR no procedure of this name has a program")?;
    context.replies.bulk(text.as_bytes());
    Ok(())
}

fn list(context: &mut Context<'_>) {
    let all = context.instance.procedures.shown();
    context.replies.array(all.len());
    for one in all {
        show(context, &one);
    }
}

fn show(context: &mut Context<'_>, one: &Shown) {
    let counters = &one.counters;
    let mean = counters.time.checked_div(counters.measured).unwrap_or(0);
    let numbers = [
        ("calls", counters.calls),
        ("calls_by_daemon", one.called),
        ("conflicts", counters.conflicts),
        ("errors", counters.errors),
        ("interpreted", one.interpreted),
        ("mean_nanoseconds", mean),
        ("longest_nanoseconds", counters.longest),
        ("verified_instructions", one.verified.into()),
        ("generated_instructions", one.generated.into()),
        ("machine_code_bytes", one.machine_code.into()),
        ("compile_microseconds", one.compile_time),
    ];
    let replies = &mut *context.replies;
    replies.map(3 + numbers.len() + 2);
    for (field, value) in [
        ("name", one.name.as_str()),
        ("kind", one.kind),
        ("path", one.path.name()),
    ] {
        replies.bulk(field.as_bytes());
        replies.bulk(value.as_bytes());
    }
    for (field, value) in numbers {
        replies.bulk(field.as_bytes());
        replies.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }
    let given_up: Vec<_> = one.deoptimisations().collect();
    replies.bulk(b"deoptimisations");
    replies.map(given_up.len());
    for (reason, count) in given_up {
        replies.bulk(reason.as_bytes());
        replies.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }
    replies.bulk(b"reasons");
    replies.array(one.reasons.len());
    for reason in &one.reasons {
        replies.bulk(reason.as_bytes());
    }
}
