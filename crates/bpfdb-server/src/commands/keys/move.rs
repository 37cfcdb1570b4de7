//! MOVE.

use bpfdb::{Database, Session};

use super::super::atomic::{Kind, atomically};
use super::super::connection::database;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "move",
    summary: "Moves a key to another database, unless it is there",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: 3,
    arguments: "key:key, db:integer",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    let (_, to) = database(context, &arguments[1])?;
    if to == context.session.database() {
        return Err("ERR source and destination objects are the same".into());
    }
    let done = atomically(context.session, Kind::Write, |session| {
        if session.head_for_update(key)?.is_none() || !give_to(session, key, to, key, false)? {
            return Ok(false);
        }
        session.delete(key)?;
        Ok(true)
    })?;
    context.replies.integer(done.into());
    Ok(())
}

/// Gives a key of another database the value of `from`, in a transaction; false if there is none, or
/// one is there already that must stay.
pub(super) fn give_to(
    session: &mut Session,
    from: &[u8],
    database: Database,
    to: &[u8],
    replace: bool,
) -> Result<bool, Failure> {
    let Some((kind, entry)) = session.typed_entry(from)? else {
        return Ok(false);
    };
    let own = session.database();
    session.set_database(database);
    let outcome = match session.head_for_update(to) {
        Ok(Some(_)) if !replace => Ok(false),
        Ok(_) => session
            .set_typed(to, kind, &entry.value, entry.expires_at)
            .map(|()| true),
        Err(status) => Err(status),
    };
    session.set_database(own);
    Ok(outcome?)
}
