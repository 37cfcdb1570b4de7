//! HINCRBY.

use super::super::arguments::number;
use super::super::prelude::*;
use super::{Changed, change};
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "hincrby",
    summary: "Adds an integer to the value of a field of a hash; an absent one counts as 0",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(1)",
    arity: 4,
    arguments: "key:key, field, increment:integer",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    batching: Batching::Changes,
    differences: "A hash takes at most 512 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let increment = number(&arguments[2])?;
    let value = change(context.session, arguments, |hash, words| {
        let field = &words[0];
        let old = hash.get(field)?.map_or(Some(0), |old| integer::parse(&old));
        let old = old.ok_or("ERR hash value is not an integer")?;
        let new = old
            .checked_add(increment)
            .ok_or("ERR increment or decrement would overflow")?;
        hash.set(field, new.to_string().into_bytes())?;
        Ok((Changed::Yes, new))
    })?;
    context.replies.integer(value);
    Ok(())
}
