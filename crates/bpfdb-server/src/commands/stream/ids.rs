//! Identifiers in arguments.

use std::time::{SystemTime, UNIX_EPOCH};

use bpfdb_values::stream::Id;
use bpfdb_values::stream::id::Written;

use super::super::Failure;

fn invalid() -> Failure {
    "ERR Invalid stream ID specified as stream command argument".into()
}

/// An identifier that is whole, or milliseconds, which this number completes.
pub(super) fn id(text: &[u8], seq: u64) -> Result<Id, Failure> {
    match Id::read(text) {
        Some(Written::Whole(id)) => Ok(id),
        Some(Written::Milliseconds(ms)) => Ok(Id::new(ms, seq)),
        _ => Err(invalid()),
    }
}

/// The same, or `-` for the smallest one, and `+` for the greatest.
pub(super) fn id_or_end(text: &[u8], seq: u64) -> Result<Id, Failure> {
    match text {
        [b'-'] | [b'-', 0, ..] => Ok(Id::MIN),
        [b'+'] | [b'+', 0, ..] => Ok(Id::MAX),
        text => id(text, seq),
    }
}

/// The first identifier of a range; `(` before it: the one behind it.
pub(super) fn start(text: &[u8]) -> Result<Id, Failure> {
    match text {
        [b'(', text @ ..] if !text.is_empty() => id(text, 0)?
            .next()
            .ok_or_else(|| "ERR invalid start ID for the interval".into()),
        text => id_or_end(text, 0),
    }
}

/// The last identifier of a range; `(` before it: the one before it.
pub(super) fn end(text: &[u8]) -> Result<Id, Failure> {
    match text {
        [b'(', text @ ..] if !text.is_empty() => id(text, u64::MAX)?
            .previous()
            .ok_or_else(|| "ERR invalid end ID for the interval".into()),
        text => id_or_end(text, u64::MAX),
    }
}

/// What XADD says that the identifier of its entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// By the clock.
    Now,
    /// The next one of these milliseconds.
    NextOf(u64),
    This(Id),
}

impl NewId {
    pub(super) fn read(text: &[u8]) -> Result<Self, Failure> {
        match Id::read(text) {
            Some(Written::Whole(id)) => Ok(Self::This(id)),
            Some(Written::Milliseconds(ms)) => Ok(Self::This(Id::new(ms, 0))),
            Some(Written::NextOf(ms)) => Ok(Self::NextOf(ms)),
            None => Err(invalid()),
        }
    }

    /// The identifier behind `last`; `None`: it would not be behind it.
    pub(super) fn after(self, last: Id) -> Option<Id> {
        let id = match self {
            Self::This(id) => id,
            Self::NextOf(ms) if ms == last.ms => Id::new(ms, last.seq.checked_add(1)?),
            Self::NextOf(ms) => Id::new(ms, 0),
            Self::Now => {
                let now = Id::new(now() as u64, 0);
                if now.ms > last.ms { now } else { last.next()? }
            }
        };
        (id > last).then_some(id)
    }
}

/// Milliseconds of the Unix clock.
pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as i64)
}

/// A name in an error: as a C string.
pub(super) fn shown(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == 0);
    &name[..end.unwrap_or(name.len())]
}

/// An error that names a key and a group, or the other way round.
pub(super) fn no_group(parts: [&str; 3], names: [&[u8]; 2]) -> Failure {
    let [start, between, end] = parts.map(str::as_bytes);
    let [first, second] = names.map(shown);
    Failure::Text([b"NOGROUP ", start, first, between, second, end].concat())
}

/// There is no such key, or it has no such group.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> Failure {
    no_group(
        ["No such key '", "' or consumer group '", "'"],
        [key, group],
    )
}

/// The key has no such group.
pub(super) fn no_group_of_key(key: &[u8], group: &[u8]) -> Failure {
    no_group(
        ["No such consumer group '", "' for key name '", "'"],
        [group, key],
    )
}
