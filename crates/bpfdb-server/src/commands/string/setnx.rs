//! SETNX.

use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "setnx",
    summary: "Set the value of a key, only if the key does not exist",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(1, &["OW", "insert"])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, value) = (&arguments[0], &arguments[1]);
    let done = atomically(context.session, Kind::Write, |session| {
        let absent = session.get_for_update(key)?.is_none();
        if absent {
            session.set(key, value)?;
        }
        Ok(absent)
    })?;
    context.replies.integer(done.into());
    Ok(())
}
