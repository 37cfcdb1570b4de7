//! PERSIST.

use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "persist",
    summary: "Remove the expiration from a key",
    since: "2.2.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[Keys::at(1, &["RW", "update"])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    let done = atomically(context.session, Kind::Write, |session| {
        let old = session.entry_for_update(key)?;
        let Some(old) = old.filter(|old| old.expires_at.is_some()) else {
            return Ok(false);
        };
        session.set(key, &old.value)?;
        Ok(true)
    })?;
    context.replies.integer(done.into());
    Ok(())
}
