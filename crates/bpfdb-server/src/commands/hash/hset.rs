//! HSET; and what it has in common with HMSET.

use super::super::prelude::*;
use super::super::table::wrong_arity;
use super::{Changed, change};

pub(crate) static COMMAND: Command = Command {
    name: "hset",
    summary: "Gives fields of a hash values, and makes the hash",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(fields that are set)",
    arity: -4,
    arguments: "key:key, field_value{field, value}...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    batching: Batching::Changes,
    differences: "A hash takes at most 512 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let added = set_fields(context, arguments, COMMAND.name)?;
    context.replies.integer(added);
    Ok(())
}

/// Key, fields and values: how many fields are new. `name` is the command's.
pub(super) fn set_fields(
    context: &mut Context<'_>,
    words: &[Vec<u8>],
    name: &str,
) -> Result<i64, Failure> {
    if words.len().is_multiple_of(2) {
        return Err(wrong_arity(name));
    }
    change(context.session, words, |hash, pairs| {
        let mut added = 0;
        for pair in pairs.chunks(2) {
            added += i64::from(hash.set(&pair[0], &pair[1][..])?);
        }
        Ok((Changed::Yes, added))
    })
}
