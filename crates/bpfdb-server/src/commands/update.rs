//! One key that is read, changed and written back.

use std::borrow::Cow;

use bpfdb::{Entry, Operation, Session, Status, abi};

use super::atomic::{TRIES, is_open};
use super::{Failure, Outcome};

const VALUE_MAX: usize = abi::BPFDB_VALUE_MAX as usize;
/// Redis's limit for a value, bytes; its texts speak of it.
pub(super) const REDIS_VALUE_MAX: u64 = 512 << 20;

/// What becomes of a key.
#[derive(Debug)]
pub(super) enum Write<'a> {
    Nothing,
    Delete,
    /// A value, and when it expires.
    Set(Cow<'a, [u8]>, Option<u64>),
}

/// Reads a key under an exclusive lock and does to it what `work` says: in the
/// client's transaction or in one of its own, which takes two system calls and is
/// tried again after a conflict.
pub(super) fn update<'a, T>(
    session: &mut Session,
    key: &[u8],
    mut work: impl FnMut(Option<Entry>) -> Result<(Write<'a>, T), Failure>,
) -> Result<T, Failure> {
    if is_open(session) {
        let (write, result) = work(session.entry_for_update(key)?)?;
        match write {
            Write::Nothing => {}
            Write::Delete => drop(session.delete(key)?),
            Write::Set(value, expires_at) => session.set_entry(key, &value, expires_at)?,
        }
        return Ok(result);
    }
    for _ in 0..TRIES {
        match update_alone(session, key, &mut work) {
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
    work: impl FnOnce(Option<Entry>) -> Result<(Write<'a>, T), Failure>,
) -> Result<T, Failure> {
    match work(begin(session, key)?) {
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

fn begin(session: &mut Session, key: &[u8]) -> Result<Option<Entry>, Failure> {
    let operations = [Operation::Begin, Operation::GetForUpdate(key)];
    let batch = session.prepare(&operations, VALUE_MAX)?;
    session.run(&batch)?;
    session.outcome(&batch, 0)?;
    let read = session.entry_of(&batch, 1);
    if read.is_err() {
        session.rollback()?;
    }
    Ok(read?)
}

/// A write that fails has failed the transaction, and COMMIT rolls it back.
fn commit(session: &mut Session, key: &[u8], write: &Write<'_>) -> Outcome {
    let operation = match write {
        Write::Nothing => return Ok(session.commit()?),
        Write::Delete => Operation::Delete(key),
        Write::Set(value, expires_at) => Operation::SetEntry(key, value, *expires_at),
    };
    let batch = session.prepare(&[operation, Operation::Commit], 0)?;
    session.run(&batch)?;
    session.outcome(&batch, 0)?;
    session.outcome(&batch, 1)?;
    Ok(())
}

/// May a value be so long? Asked before memory is taken for it.
pub(super) fn check_len(len: u64) -> Result<(), Failure> {
    if len > REDIS_VALUE_MAX {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    if len > VALUE_MAX as u64 {
        return Err(Failure::TooLong);
    }
    Ok(())
}
