//! SADD.

use super::super::prelude::*;
use super::{Changed, change};

pub(crate) static COMMAND: Command = Command {
    name: "sadd",
    summary: "Adds members to a set, and makes it",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of the set and of what is added)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Set],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    differences: "A set takes at most 512 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let added = change(context.session, arguments, |set, members| {
        let added = members.iter().filter(|member| set.add(member)).count();
        let changed = if added > 0 { Changed::Yes } else { Changed::No };
        Ok((changed, added))
    })?;
    context.replies.integer(added as i64);
    Ok(())
}
