//! SLOWLOG GET.

use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "slowlog|get",
    summary: "The newest commands that took long",
    since: "2.2.12",
    group: Group::Server,
    complexity: "O(entries returned)",
    arity: -2,
    arguments: "[count:integer]",
    flags: &[Flag::Admin, Flag::Loading, Flag::Stale],
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    differences: "Commands that the daemon executed.",
    run,
    ..Command::BASE
};

const COUNT: i64 = 10;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let count = match arguments {
        [] => COUNT,
        [count] => parse(count)?,
        _ => return Err(wrong_subcommand_arity(context, "SLOWLOG")),
    };
    // It has words of others' commands.
    context.tells_of_all();
    let log = &context.instance.slowlog;
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(log.len());
    context.replies.array(count);
    for entry in log.newest().take(count) {
        context.replies.array(6);
        context.replies.integer(entry.id as i64);
        context.replies.integer(entry.time as i64);
        context.replies.integer(entry.duration.as_micros() as i64);
        context.replies.array(entry.words.len());
        for word in &entry.words {
            context.replies.bulk(word);
        }
        context.replies.bulk(&entry.peer);
        context.replies.bulk(&entry.name);
    }
    Ok(())
}

/// -1: all.
fn parse(text: &[u8]) -> Result<i64, Failure> {
    let count = integer::parse(text).filter(|&count| count >= -1);
    count.ok_or_else(|| "ERR count should be greater than or equal to -1".into())
}
