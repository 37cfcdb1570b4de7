//! HDEL.

use super::super::prelude::*;
use super::{Changed, change};

pub(crate) static COMMAND: Command = Command {
    name: "hdel",
    summary: "Removes fields from a hash",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(fields)",
    arity: -3,
    arguments: "key:key, field...",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    batching: Batching::Changes,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let removed = change(context.session, arguments, |hash, fields| {
        let mut removed = 0;
        for field in fields {
            removed += i64::from(hash.remove(field)?);
        }
        let changed = if removed > 0 {
            Changed::Yes
        } else {
            Changed::No
        };
        Ok((changed, removed))
    })?;
    context.replies.integer(removed);
    Ok(())
}
