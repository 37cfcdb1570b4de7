//! One key that is read, changed and written back.

use std::borrow::Cow;

use bpfdb::{Entry, Head, Operation, Session, Status, abi};

use super::atomic::{Kind, atomically, is_open};
use super::attempts;
use super::{Failure, Outcome};

const SLOT_MAX: usize = abi::BPFDB_VALUE_MAX as usize;
/// The limit for a value, bytes, as in Redis.
pub(super) const VALUE_MAX: u64 = abi::BPFDB_LARGE_MAX as u64;

/// What becomes of a key.
#[derive(Debug)]
pub(super) enum Write<'a> {
    Nothing,
    Delete,
    /// A value, and when it expires.
    Set(Cow<'a, [u8]>, Option<u64>),
}

/// Reads a string under an exclusive lock and does to the key what `work` says: in the
/// client's transaction or in one of its own, which takes two system calls and is
/// tried again after a conflict.
pub(super) fn update<'a, T>(
    session: &mut Session,
    key: &[u8],
    work: impl FnMut(Option<Entry>) -> Result<(Write<'a>, T), Failure>,
) -> Result<T, Failure> {
    update_of(session, key, Accepts::Strings, work)
}

/// The values that [`update_of`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepts {
    Strings,
    AnyType,
}

/// [`update`] that reads a string, or a value of any type.
pub(super) fn update_of<'a, T>(
    session: &mut Session,
    key: &[u8],
    accepts: Accepts,
    mut work: impl FnMut(Option<Entry>) -> Result<(Write<'a>, T), Failure>,
) -> Result<T, Failure> {
    if is_open(session) {
        let (write, result) = work(read_for_update(session, key, accepts)?)?;
        match write {
            Write::Nothing => {}
            Write::Delete => drop(session.delete(key)?),
            Write::Set(value, expires_at) => session.set_entry(key, &value, expires_at)?,
        }
        return Ok(result);
    }
    for _ in 0..attempts::STATEMENT {
        match update_alone(session, key, accepts, &mut work) {
            Err(Failure::Engine(Status::Conflict)) => {}
            outcome => return outcome,
        }
    }
    Err(Status::Conflict.into())
}

/// The same for a value that is only replaced: when it expires stays. `None`:
/// the value stays too.
pub(super) fn change<T>(
    session: &mut Session,
    key: &[u8],
    mut work: impl FnMut(Option<Vec<u8>>) -> Result<(Option<Vec<u8>>, T), Failure>,
) -> Result<T, Failure> {
    update(session, key, |old| {
        let expires_at = old.as_ref().and_then(|old| old.expires_at);
        let (new, result) = work(old.map(|old| old.value))?;
        let write = new.map_or(Write::Nothing, |new| Write::Set(new.into(), expires_at));
        Ok((write, result))
    })
}

fn update_alone<'a, T>(
    session: &mut Session,
    key: &[u8],
    accepts: Accepts,
    work: impl FnOnce(Option<Entry>) -> Result<(Write<'a>, T), Failure>,
) -> Result<T, Failure> {
    match work(begin(session, key, accepts)?) {
        Ok((write, result)) => {
            commit(session, key, &write)?;
            Ok(result)
        }
        Err(failure) => {
            session.rollback()?;
            Err(failure)
        }
    }
}

fn read_for_update(
    session: &mut Session,
    key: &[u8],
    accepts: Accepts,
) -> Result<Option<Entry>, Status> {
    match accepts {
        Accepts::Strings => session.entry_for_update(key),
        Accepts::AnyType => session.entry_of_any_type_for_update(key),
    }
}

fn begin(session: &mut Session, key: &[u8], accepts: Accepts) -> Result<Option<Entry>, Failure> {
    let get = match accepts {
        Accepts::Strings => Operation::GetForUpdate(key),
        Accepts::AnyType => Operation::GetAnyForUpdate(key),
    };
    let operations = [Operation::Begin, get];
    let batch = session.prepare(&operations, SLOT_MAX)?;
    session.run(&batch)?;
    session.outcome(&batch, 0)?;
    let mut read = session.entry_of(&batch, 1);
    if read == Err(Status::FoundLarge) {
        read = read_for_update(session, key, accepts);
    }
    if read.is_err() {
        session.rollback()?;
    }
    let read = read?;
    if read.is_none() {
        session.note_miss(key);
    }
    Ok(read)
}

/// A write that fails has failed the transaction, and COMMIT rolls it back.
fn commit(session: &mut Session, key: &[u8], write: &Write<'_>) -> Outcome {
    // A batch is not noted.
    if session.change_notes().writes {
        return commit_noted(session, key, write);
    }
    let operation = match write {
        Write::Nothing => return Ok(session.commit()?),
        Write::Delete => Operation::Delete(key),
        Write::Set(value, expires_at) if value.len() > SLOT_MAX => {
            if let Err(status) = session.set_entry(key, value, *expires_at) {
                session.rollback()?;
                return Err(status.into());
            }
            return Ok(session.commit()?);
        }
        Write::Set(value, expires_at) => Operation::SetEntry(key, value, *expires_at),
    };
    let batch = session.prepare(&[operation, Operation::Commit], 0)?;
    session.run(&batch)?;
    if let Err(status) = session.outcome(&batch, 0) {
        // The COMMIT behind it was not executed.
        if status == Status::SessionBusy {
            session.rollback()?;
        }
        return Err(status.into());
    }
    let ended = session.outcome(&batch, 1);
    if matches!(ended, Err(status) if status.is_refused_by_log()) {
        session.rollback()?;
    }
    Ok(ended.map(drop)?)
}

fn commit_noted(session: &mut Session, key: &[u8], write: &Write<'_>) -> Outcome {
    let written = match write {
        Write::Nothing => Ok(()),
        Write::Delete => session.delete(key).map(drop),
        Write::Set(value, expires_at) => session.set_entry(key, value, *expires_at),
    };
    if let Err(status) = written {
        session.rollback()?;
        return Err(status.into());
    }
    Ok(session.commit()?)
}

/// The value stays, and the time at which it expires becomes what `work` says when
/// it gets the time of before: that of a value there is, no time at all included.
/// A large value is not copied.
pub(super) fn retime<T>(
    session: &mut Session,
    key: &[u8],
    mut work: impl FnMut(Option<Head>) -> Result<(Time, T), Failure>,
) -> Result<T, Failure> {
    atomically(session, Kind::Write, |session| {
        let head = session.head_for_update(key)?;
        let kind = head
            .as_ref()
            .map(|head| head.value_type)
            .unwrap_or_default();
        let value = head.as_ref().and_then(|head| head.value.clone());
        let (time, result) = work(head)?;
        match (time, value) {
            (Time::Stays, _) => {}
            (Time::Over, _) => drop(session.delete(key)?),
            (Time::Becomes(expires_at), Some(value)) => {
                session.set_typed(key, kind, &value, expires_at)?;
            }
            (Time::Becomes(expires_at), None) => {
                session.share_large(key, key, expires_at)?;
            }
        }
        Ok(result)
    })
}

/// Gives another key a value of which this is known, in a transaction.
pub(super) fn give(
    session: &mut Session,
    from: &[u8],
    to: &[u8],
    head: &Head,
) -> Result<(), Status> {
    match &head.value {
        Some(value) => session.set_typed(to, head.value_type, value, head.expires_at),
        None => session.share_large(from, to, head.expires_at).map(drop),
    }
}

/// What becomes of the time at which a value expires.
#[derive(Clone, Copy, Debug)]
pub(super) enum Time {
    Stays,
    Becomes(Option<u64>),
    /// Long over: the key is deleted.
    Over,
}

/// May a value be so long? Asked before memory is taken for it.
pub(super) fn check_len(len: u64) -> Result<(), Failure> {
    if len > VALUE_MAX {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    Ok(())
}
