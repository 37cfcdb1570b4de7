//! MOVE.

use bpfdb::{Change, Database, Head, Session, Status};

use super::super::atomic::{Kind, atomically};
use super::super::collection::{load_elements, moved, put};
use super::super::connection::database;
use super::super::prelude::*;
use crate::settings::EventClass;

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
    events: Events::By(tell),
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
        let Some(head) = session.head_for_update(key)? else {
            return Ok(false);
        };
        // Of a large collection the head alone: its pages are in no database.
        let value = load_any_bytes(session, key, &head)?;
        let is_new = in_database(session, to, |session| {
            if session.head_for_update(key)?.is_some() {
                return Ok(false);
            }
            session.set_typed(key, head.value_type, &value, head.expires_at)?;
            moved(session, key, &head)?;
            Ok(true)
        })?;
        if is_new {
            session.delete(key)?;
        }
        Ok(is_new)
    })?;
    context.replies.integer(done.into());
    Ok(())
}

/// The bytes that are stored at a key of which this is known, in a transaction.
fn load_any_bytes(session: &mut Session, key: &[u8], head: &Head) -> Result<Vec<u8>, Failure> {
    if let Some(value) = &head.value {
        return Ok(value.clone());
    }
    let found = session.typed_entry(key)?;
    Ok(found.ok_or(Status::Conflict)?.1.value)
}

/// Does `work` with the keys of another database.
fn in_database<T>(
    session: &mut Session,
    database: Database,
    work: impl FnOnce(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let own = session.database();
    session.set_database(database);
    let outcome = work(session);
    session.set_database(own);
    outcome
}

/// Gives a key of another database a copy of the value of `from`, in a transaction; false if there is none,
/// or one is there already that must stay.
pub(super) fn copy_to(
    session: &mut Session,
    from: &[u8],
    database: Database,
    to: &[u8],
    replace: bool,
) -> Result<bool, Failure> {
    let Some(head) = session.head(from)? else {
        return Ok(false);
    };
    let (value, is_large) = match load_elements(session, &head)? {
        Some(elements) => (elements, true),
        None => (load_any_bytes(session, from, &head)?, false),
    };
    in_database(session, database, |session| {
        if session.head_for_update(to)?.is_some() && !replace {
            return Ok(false);
        }
        match is_large {
            true => put(session, to, head.value_type, Some(&value), head.expires_at)?,
            false => session.set_typed(to, head.value_type, &value, head.expires_at)?,
        }
        Ok(true)
    })
}

fn tell(told: &mut Told<'_>) {
    let mut moved_to: &[u8] = b"";
    for change in told.changes {
        match change {
            Change::Set { key, .. } => {
                moved_to = key;
                told.tell_of(EventClass::New, "new", key);
            }
            Change::Deleted { key } => {
                told.tell("move_from", key);
                told.tell("move_to", moved_to);
            }
            other => told.tell_other(other),
        }
    }
}
