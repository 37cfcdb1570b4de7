//! HSETNX.

use super::super::prelude::*;
use super::{Changed, change};

pub(crate) static COMMAND: Command = Command {
    name: "hsetnx",
    summary: "Gives a field of a hash a value if the hash has no such field",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(1)",
    arity: 4,
    arguments: "key:key, field, value",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    batching: Batching::Changes,
    differences: "A hash takes at most 512 MiB.",
    events: Events::Named("hset"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let is_set = change(context.session, arguments, |hash, words| {
        if hash.contains(&words[0])? {
            return Ok((Changed::No, false));
        }
        hash.set(&words[0], &words[1][..])?;
        Ok((Changed::Yes, true))
    })?;
    context.replies.integer(is_set.into());
    Ok(())
}
