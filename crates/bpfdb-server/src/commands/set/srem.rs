//! SREM.

use super::super::prelude::*;
use super::{Changed, change};

pub(crate) static COMMAND: Command = Command {
    name: "srem",
    summary: "Removes members from a set",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(members)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Set],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    batching: Batching::Changes,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let removed = change(context.session, arguments, |set, members| {
        let mut removed = 0;
        for member in members {
            removed += i64::from(set.remove(member)?);
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
