//! COPY.

use super::super::arguments::{is, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::connection::check_database;
use super::super::prelude::*;
use super::super::update::give;

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
    differences: "There is one database, 0.",
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

/// REPLACE, DB 0: is the first among them?
fn parse(mut options: &[Vec<u8>]) -> Result<bool, Failure> {
    let mut replace = false;
    while let Some((option, behind)) = options.split_first() {
        options = match behind {
            behind if is(option, "replace") => {
                replace = true;
                behind
            }
            [database, behind @ ..] if is(option, "db") => {
                check_database(database)?;
                behind
            }
            _ => return Err(syntax_error()),
        };
    }
    Ok(replace)
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (from, to) = (&arguments[0], &arguments[1]);
    let replace = parse(&arguments[2..])?;
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let done = atomically(context.session, Kind::Write, |session| {
        let Some(head) = session.head(from)? else {
            return Ok(false);
        };
        if !replace && session.head_for_update(to)?.is_some() {
            return Ok(false);
        }
        give(session, from, to, &head)?;
        Ok(true)
    })?;
    context.replies.integer(done.into());
    Ok(())
}
