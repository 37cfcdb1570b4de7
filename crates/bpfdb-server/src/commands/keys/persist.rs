//! PERSIST.

use super::super::prelude::*;
use super::super::update::{Time, retime};

pub(crate) static COMMAND: Command = Command {
    name: "persist",
    summary: "Lets a value that would expire stay for ever",
    since: "2.2.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    let done = retime(context.session, key, |old| {
        Ok(match old.and_then(|old| old.expires_at) {
            Some(_) => (Time::Becomes(None), true),
            None => (Time::Stays, false),
        })
    })?;
    context.replies.integer(done.into());
    Ok(())
}
