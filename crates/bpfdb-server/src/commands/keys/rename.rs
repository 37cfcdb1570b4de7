//! RENAME; and RENAMENX, which does not overwrite.

use bpfdb::Change;

use super::super::atomic::{Kind, atomically};
use super::super::collection::moved;
use super::super::prelude::*;
use super::super::update::give;
use crate::settings::EventClass;

pub(crate) static COMMAND: Command = Command {
    name: "rename",
    summary: "Moves a value to another key, over what is there",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: 3,
    arguments: "key:key, newkey:key",
    flags: &[Flag::Write],
    categories: &[Category::Keyspace],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]),
        Keys::at(2, &[KeyFlag::Overwrite, KeyFlag::Update]),
    ],
    batching: Batching::Reads,
    events: Events::By(tell),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    rename(context, arguments, true)?;
    context.replies.ok();
    Ok(())
}

/// Moves a value with the time at which it expires; false if there is one
/// already that must stay.
pub(super) fn rename(
    context: &mut Context<'_>,
    names: &[Vec<u8>],
    overwrite: bool,
) -> Result<bool, Failure> {
    let (from, to) = (&names[0], &names[1]);
    atomically(context.session, Kind::Write, |session| {
        let head = session.head_for_update(from)?.ok_or("ERR no such key")?;
        if from == to {
            return Ok(overwrite);
        }
        if !overwrite && session.head_for_update(to)?.is_some() {
            return Ok(false);
        }
        give(session, from, to, &head)?;
        moved(session, to, &head)?;
        session.delete(from)?;
        Ok(true)
    })
}

pub(super) fn tell(told: &mut Told<'_>) {
    for change in told.changes {
        match change {
            // What was there is deleted before, so the key is new.
            Change::Set { key, .. } => told.tell_of(EventClass::New, "new", key),
            Change::Deleted { key } => {
                told.tell("rename_from", key);
                let to = told.stored(1);
                told.tell("rename_to", &to);
            }
            other => told.tell_other(other),
        }
    }
}
