//! PERSIST.

use super::super::prelude::*;
use super::super::update::{Write, update};

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
    keys: &[Keys::at(1, &["RW", "update"])],
    path: Path::Kernel,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    let done = update(context.session, key, |old| match old {
        Some(old) if old.expires_at.is_some() => Ok((Write::Set(old.value.into(), None), true)),
        _ => Ok((Write::Nothing, false)),
    })?;
    context.replies.integer(done.into());
    Ok(())
}
