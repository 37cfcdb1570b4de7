//! Collections as commands read and write them: whole, as the bytes of a packed run.

use bpfdb::{Entry, Head, Session, ValueType};
use bpfdb_values::run::Run;

use super::atomic::{Kind, atomically};
use super::update::VALUE_MAX;
use super::{Failure, Outcome};
use crate::protocol::reply::{self, Replies};
use crate::settings::limits::MESSAGE_MAX;

/// What becomes of a collection.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// It has no element any more.
    Delete,
    /// Its bytes; when the key expires stays.
    Set(Vec<u8>),
}

impl From<Option<Vec<u8>>> for Change {
    /// `None`: it has no element any more.
    fn from(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Delete, Self::Set)
    }
}

/// The bytes of a collection of this type and when it expires; `None` if the key is absent.
///
/// # Errors
/// WRONGTYPE for a value of another type.
pub(super) fn load(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
) -> Result<Option<Entry>, Failure> {
    let Some(head) = session.head(key)? else {
        return Ok(None);
    };
    if let Some(entry) = entry(head, kind)? {
        return Ok(Some(entry));
    }
    // Without a lock it may have another value by now.
    match session.typed_entry(key)? {
        Some((found, _)) if found != kind => Err(Failure::Text(reply::wrong_type().to_vec())),
        found => Ok(found.map(|(_, entry)| entry)),
    }
}

/// Shows the run of a collection of this type to `work`; `None`: the key is absent.
///
/// # Errors
/// WRONGTYPE for a value of another type.
pub(super) fn look<T>(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    work: impl FnOnce(Run<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Some(entry) = load(session, key, kind)? else {
        return Ok(None);
    };
    work(Run::parse(&entry.value)?).map(Some)
}

/// The same for a collection of one of these types; with its type.
pub(super) fn load_any(
    session: &mut Session,
    key: &[u8],
    kinds: &[ValueType],
) -> Result<Option<(ValueType, Entry)>, Failure> {
    let Some(head) = session.head(key)? else {
        return Ok(None);
    };
    let kind = head.value_type;
    if kinds.contains(&kind)
        && let Some(value) = head.value
    {
        let expires_at = head.expires_at;
        return Ok(Some((kind, Entry { value, expires_at })));
    }
    // A large one: without a lock it may have another value by now.
    match session.typed_entry(key)? {
        Some((found, _)) if !kinds.contains(&found) => {
            Err(Failure::Text(reply::wrong_type().to_vec()))
        }
        found => Ok(found),
    }
}

/// [`load`] under an exclusive lock, in a read-write transaction.
pub(super) fn load_for_update(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
) -> Result<Option<Entry>, Failure> {
    let Some(head) = session.head_for_update(key)? else {
        return Ok(None);
    };
    match entry(head, kind)? {
        Some(entry) => Ok(Some(entry)),
        None => Ok(session.entry_of_any_type_for_update(key)?),
    }
}

/// `None`: a large value, which is not read yet.
fn entry(head: Head, kind: ValueType) -> Result<Option<Entry>, Failure> {
    if head.value_type != kind {
        return Err(Failure::Text(reply::wrong_type().to_vec()));
    }
    let expires_at = head.expires_at;
    Ok(head.value.map(|value| Entry { value, expires_at }))
}

/// Gives a key a collection of these bytes; `None`: it has no element any more.
///
/// # Errors
/// A collection that is too long, of which nothing is written.
pub(super) fn put(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    bytes: Option<&[u8]>,
    expires_at: Option<u64>,
) -> Result<(), Failure> {
    let Some(bytes) = bytes else {
        session.delete(key)?;
        return Ok(());
    };
    if bytes.len() as u64 > VALUE_MAX {
        return Err("ERR collection exceeds maximum allowed size (512 MiB)".into());
    }
    Ok(session.set_typed(key, kind, bytes, expires_at)?)
}

/// Reads a collection under an exclusive lock and does to it what `work` says: in the client's
/// transaction, or in one of its own, which is tried again after a conflict.
pub(super) fn change<T>(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    mut work: impl FnMut(Option<Vec<u8>>) -> Result<(Change, T), Failure>,
) -> Result<T, Failure> {
    atomically(session, Kind::Write, |session| {
        let old = load_for_update(session, key, kind)?;
        let expires_at = old.as_ref().and_then(|old| old.expires_at);
        let (change, result) = work(old.map(|old| old.value))?;
        match change {
            Change::Nothing => {}
            Change::Delete => put(session, key, kind, None, None)?,
            Change::Set(value) => put(session, key, kind, Some(&value), expires_at)?,
        }
        Ok(result)
    })
}

/// May a collection be so long, bytes of its run? Asked before it is written.
pub(super) fn check_len(len: usize) -> Outcome {
    if len as u64 > VALUE_MAX {
        return Err("ERR collection exceeds maximum allowed size (512 MiB)".into());
    }
    Ok(())
}

pub(super) const REPLY_TOO_LONG: &str = "ERR reply is longer than 640 MiB; ask for fewer elements";

/// May a reply be so long that began behind `start` bytes? Asked after each of its elements.
pub(super) fn check_reply(replies: &Replies, start: usize) -> Outcome {
    if replies.len() - start > MESSAGE_MAX {
        return Err(REPLY_TOO_LONG.into());
    }
    Ok(())
}
