//! SETNX.

use super::super::prelude::*;
use super::super::update::{Accepts, Write, update_of};

pub(crate) static COMMAND: Command = Command {
    name: "setnx",
    summary: "Sets a value if the key has none",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 3,
    arguments: "key:key, value",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Insert])],
    batching: Batching::Reads,
    events: Events::Named("set"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, value) = (&arguments[0], &arguments[1]);
    let done = update_of(context.session, key, Accepts::AnyType, |old| match old {
        Some(_) => Ok((Write::Nothing, false)),
        None => Ok((Write::Set(value.into(), None), true)),
    })?;
    context.replies.integer(done.into());
    Ok(())
}
