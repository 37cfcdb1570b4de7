//! SADD.

use super::super::prelude::*;
use super::{Changed, change};

pub(crate) static COMMAND: Command = Command {
    name: "sadd",
    summary: "Adds members to a set, and makes it",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(members that are added)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Set],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    batching: Batching::Changes,
    differences: "A set takes at most 512 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let added = change(context.session, arguments, |set, members| {
        let mut added = 0;
        for member in members {
            added += i64::from(set.add(member)?);
        }
        let changed = if added > 0 { Changed::Yes } else { Changed::No };
        Ok((changed, added))
    })?;
    context.replies.integer(added);
    Ok(())
}
