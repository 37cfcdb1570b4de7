//! COPY.

use bpfdb::{Change, Database};

use super::super::arguments::{is, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::collection::copy_large;
use super::super::connection::database;
use super::super::prelude::*;
use super::super::update::give;
use super::r#move::copy_to;
use crate::settings::EventClass;

pub(crate) static COMMAND: Command = Command {
    name: "copy",
    summary: "Gives another key the same value, with the time at which it expires",
    since: "6.2.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: -3,
    arguments: "source:key, destination:key, [DB destination-db:integer], [REPLACE]",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Keyspace],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access]),
        Keys::at(2, &[KeyFlag::Overwrite, KeyFlag::Update]),
    ],
    batching: Batching::Reads,
    events: Events::By(tell),
    run,
    ..Command::BASE
};

/// REPLACE, and the database of DB.
fn parse(context: &Context<'_>, mut options: &[Vec<u8>]) -> Result<(bool, Database), Failure> {
    let (mut replace, mut to) = (false, context.session.database());
    while let Some((option, behind)) = options.split_first() {
        options = match behind {
            behind if is(option, "replace") => {
                replace = true;
                behind
            }
            [number, behind @ ..] if is(option, "db") => {
                (_, to) = database(context, number)?;
                behind
            }
            _ => return Err(syntax_error()),
        };
    }
    Ok((replace, to))
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (from, to) = (&arguments[0], &arguments[1]);
    let (replace, database) = parse(context, &arguments[2..])?;
    let is_here = database == context.session.database();
    if is_here && from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let done = atomically(context.session, Kind::Write, |session| {
        if !is_here {
            return copy_to(session, from, database, to, replace);
        }
        let Some(head) = session.head(from)? else {
            return Ok(false);
        };
        if !replace && session.head_for_update(to)?.is_some() {
            return Ok(false);
        }
        if !copy_large(session, to, &head)? {
            give(session, from, to, &head)?;
        }
        Ok(true)
    })?;
    context.replies.integer(done.into());
    Ok(())
}

fn tell(told: &mut Told<'_>) {
    for change in told.changes {
        match change {
            // What was there is deleted before, so the key is new.
            Change::Set { key, .. } => {
                told.tell_of(EventClass::New, "new", key);
                told.tell("copy_to", key);
            }
            other => told.tell_other(other),
        }
    }
}
