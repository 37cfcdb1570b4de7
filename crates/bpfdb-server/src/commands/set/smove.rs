//! SMOVE.

use bpfdb::{Change, Session, ValueType};
use bpfdb_values::Set;
use bpfdb_values::run::Run;

use super::super::atomic::{Kind, atomically};
use super::super::collection::{Stored, stored_for_update};
use super::super::prelude::*;
use super::{Members, store};

pub(crate) static COMMAND: Command = Command {
    name: "smove",
    summary: "Moves a member from a set to another one",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(1)",
    arity: 4,
    arguments: "source:key, destination:key, member",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Set],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]),
        Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Insert]),
    ],
    differences: "A set takes at most 512 MiB.",
    events: Events::By(tell),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (from, to, member) = (&arguments[0], &arguments[1], &arguments[2]);
    let moved = atomically(context.session, Kind::Write, |session| {
        let source = stored_for_update(session, from, ValueType::SET)?;
        if matches!(source, Stored::Small(None)) {
            return Ok(false);
        }
        if from == to {
            return has(session, &source, member);
        }
        let target = stored_for_update(session, to, ValueType::SET)?;
        if !has(session, &source, member)? {
            return Ok(false);
        }
        // First what may be refused.
        add(session, to, target, member)?;
        remove(session, from, source, member)?;
        Ok(true)
    })?;
    context.replies.integer(moved.into());
    Ok(())
}

fn has(session: &mut Session, stored: &Stored, member: &[u8]) -> Result<bool, Failure> {
    match stored {
        Stored::Small(None) => Ok(false),
        Stored::Small(Some(set)) => Ok(Run::parse(&set.value)?.find(member)?.is_some()),
        Stored::Large(stored) => stored.look(session, |large| large.contains(member)),
    }
}

fn add(session: &mut Session, key: &[u8], stored: Stored, member: &[u8]) -> Outcome {
    match stored {
        Stored::Large(stored) => stored.change(session, key, |large| {
            Members::Large(large).add(member).map(drop)
        }),
        Stored::Small(old) => {
            let bytes = old.as_ref().map(|old| &old.value[..]);
            let mut set = bytes.map_or(Ok(Set::default()), Set::read)?;
            if !set.add(member) {
                return Ok(());
            }
            let expires_at = old.as_ref().and_then(|old| old.expires_at);
            store(session, key, &set, expires_at)
        }
    }
}

fn remove(session: &mut Session, key: &[u8], stored: Stored, member: &[u8]) -> Outcome {
    match stored {
        Stored::Large(stored) => {
            stored.change(session, key, |large| large.remove(member).map(drop))
        }
        Stored::Small(None) => Ok(()),
        Stored::Small(Some(old)) => {
            let mut set = Set::read(&old.value)?;
            set.remove(member);
            store(session, key, &set, old.expires_at)
        }
    }
}

/// The member leaves its set before it enters the other one.
fn tell(told: &mut Told<'_>) {
    let source = told.stored(0);
    let is_source = |change: &&Change| match change {
        Change::Set { key, .. } | Change::Deleted { key } => *key == source,
        _ => false,
    };
    let (left, entered): (Vec<_>, Vec<_>) = told.changes.iter().partition(is_source);
    for change in left {
        told.tell_change(change, "srem");
    }
    for change in entered {
        told.tell_change(change, "sadd");
    }
}
