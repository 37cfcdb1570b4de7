//! TTL; and what it has in common with PTTL, EXPIRETIME and PEXPIRETIME.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "ttl",
    summary: "Returns how many seconds a value has left",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let now = context.engine.now_ms();
    tell(context, &arguments[0], |at| seconds(at.saturating_sub(now)))
}

/// Rounded, as Redis does.
pub(super) fn seconds(milliseconds: u64) -> u64 {
    milliseconds.saturating_add(500) / 1000
}

/// Replies with the time at which a value expires, in the command's form.
pub(super) fn tell(
    context: &mut Context<'_>,
    key: &[u8],
    told: impl FnOnce(u64) -> u64,
) -> Outcome {
    let reply = match context
        .session
        .tracked(false, |session| session.head(key))?
    {
        None => -2,
        Some(head) => head.expires_at.map_or(-1, |at| told(at) as i64),
    };
    context.replies.integer(reply);
    Ok(())
}
