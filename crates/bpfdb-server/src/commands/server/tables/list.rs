//! TABLE LIST.

use super::*;
use crate::protocol::reply::Replies;
use crate::tables::{Facts, Phase};

pub(crate) static COMMAND: Command = Command {
    name: "table|list",
    summary: "Lists the tables that are open",
    complexity: "O(tables)",
    arity: 2,
    flags: &[Flag::NoScript],
    differences: "Redis has no such command. A map for each table: table, state (open or opening); if it is open id (another one in each file), entries, bytes, time (when it was made, milliseconds of UNIX time), by (kernel or process), why (the kernel does not read it).",
    run,
    ..ASKS
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let all = context.instance.tables.shown();
    context.replies.array(all.len());
    for (name, phase) in all {
        let facts = match phase {
            Phase::Open(facts) => Some(facts),
            Phase::Opening | Phase::Ended => None,
        };
        let replies = &mut *context.replies;
        replies.map(if facts.is_some() { 8 } else { 2 });
        replies.bulk("table");
        replies.bulk(name.as_str());
        replies.bulk("state");
        replies.bulk(if facts.is_some() { "open" } else { "opening" });
        if let Some(facts) = facts {
            show(replies, &facts);
        }
    }
    Ok(())
}

fn show(replies: &mut Replies, facts: &Facts) {
    replies.bulk("id");
    replies.bulk(format!("{:016x}", facts.id));
    for (field, number) in [
        ("entries", facts.entries),
        ("bytes", facts.bytes),
        ("time", facts.time),
    ] {
        replies.bulk(field);
        replies.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }
    replies.bulk("by");
    replies.bulk(if facts.is_kernel { "kernel" } else { "process" });
    replies.bulk("why");
    replies.bulk(facts.why.as_deref().unwrap_or_default());
}
