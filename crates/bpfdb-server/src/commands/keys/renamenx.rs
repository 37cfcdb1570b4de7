//! RENAMENX.

use super::super::prelude::*;
use super::rename::{rename, tell};

pub(crate) static COMMAND: Command = Command {
    name: "renamenx",
    summary: "Moves a value to another key, if that has none",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: 3,
    arguments: "key:key, newkey:key",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]),
        Keys::at(2, &[KeyFlag::Overwrite, KeyFlag::Insert]),
    ],
    batching: Batching::Reads,
    events: Events::By(tell),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let done = rename(context, arguments, false)?;
    context.replies.integer(done.into());
    Ok(())
}
