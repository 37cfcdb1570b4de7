//! RENAMENX.

use super::super::prelude::*;
use super::rename::rename;

pub(crate) static COMMAND: Command = Command {
    name: "renamenx",
    summary: "Rename a key, only if the new key does not exist",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[
        Keys::at(1, &["RW", "access", "delete"]),
        Keys::at(2, &["OW", "insert"]),
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let done = rename(context, arguments, false)?;
    context.replies.integer(done.into());
    Ok(())
}
