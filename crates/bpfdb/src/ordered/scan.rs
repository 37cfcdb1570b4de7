//! Scans of a range: keys from the leaves, then their values.

use std::ops::{Bound, RangeBounds};

use super::{OrderedTable, has_transaction};
use crate::session::{Operation, Session};
use crate::{Status, abi};

/// Bytes of values for which room is made at first, and at most, in a call that reads many.
const ROOM_LEAST: usize = 256;
const ROOM_MOST: usize = 4096;
/// Values of one call: those fit the session's buffer, with their keys.
const READS_MAX: usize = 256;
/// Bytes of the buffer for one of them, besides the value.
const READ_SIZE: usize = size_of::<abi::bpfdb_request>() + abi::BPFDB_KEY_MAX as usize + 16;

/// What a scan has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Keys and values, in the order of the keys.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where to go on, as the beginning of the next range; `None`: there is nothing behind them in this one.
    pub next: Option<Vec<u8>>,
}

/// The range of the keys that begin so.
pub fn prefix_range(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    // The least key behind them has the last byte that can be greater.
    let end = prefix.iter().rposition(|&byte| byte != u8::MAX);
    let end = end.map_or(Bound::Unbounded, |last| {
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        Bound::Excluded(end)
    });
    (Bound::Included(prefix.to_vec()), end)
}

/// The first key that is not before a range.
fn start_of<K: AsRef<[u8]>>(bound: Bound<&K>) -> Vec<u8> {
    match bound {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.as_ref().to_vec(),
        Bound::Excluded(key) => after(key.as_ref()),
    }
}

/// The least key that is greater.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

fn is_behind<K: AsRef<[u8]>>(key: &[u8], end: Bound<&K>) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => key > end.as_ref(),
        Bound::Excluded(end) => key >= end.as_ref(),
    }
}

/// Why a row of a batch was not read, unless it is too long for its room, or large.
fn failure_of(outcome: &Result<Option<Vec<u8>>, Status>) -> Option<Status> {
    let is_long = |status: &Status| matches!(status, Status::BadRequest | Status::FoundLarge);
    outcome
        .as_ref()
        .err()
        .copied()
        .filter(|status| !is_long(status))
}

/// The keys of a range, up to a limit.
struct Keys {
    keys: Vec<Vec<u8>>,
    is_all: bool,
}

impl OrderedTable {
    /// The first `limit` rows of `range`, in the order of their keys, which is that of their bytes.
    ///
    /// In a read-write transaction it sees what that has written, and locks what it sees until that ends: the
    /// rows, and the part of the table that it has looked at, with keys that are not there. Others that make a
    /// row come or go there, or change one, get [`Status::Conflict`]; and so does this, where they
    /// were first. In a read-only transaction it sees the snapshot. Without one it is one of its own.
    ///
    /// # Errors
    /// [`Status::WrongType`] if a program has given a row a value that is no string; those of [`Session::get`].
    pub fn scan<K: AsRef<[u8]>>(
        &self,
        session: &mut Session,
        range: impl RangeBounds<K>,
        limit: usize,
    ) -> Result<Rows, Status> {
        if has_transaction(session)? {
            return self.scan_in_transaction(session, &range, limit);
        }
        session.begin_read_only()?;
        let outcome = match self.scan_in_transaction(session, &range, limit) {
            Ok(rows) => session.commit().map(|()| rows),
            Err(status) => session.rollback().and(Err(status)),
        };
        session.leave_no_transaction();
        outcome
    }

    fn scan_in_transaction<K: AsRef<[u8]>>(
        &self,
        session: &mut Session,
        range: &impl RangeBounds<K>,
        limit: usize,
    ) -> Result<Rows, Status> {
        let found = self.keys(session, range, limit)?;
        let values = self.values(session, &found.keys)?;
        let next = match found.keys.last() {
            _ if found.is_all => None,
            Some(last) => Some(after(last)),
            None => Some(start_of(range.start_bound())),
        };
        let rows = found.keys.into_iter().zip(values).collect();
        Ok(Rows { rows, next })
    }

    /// The keys, from leaves that stay locked.
    fn keys<K: AsRef<[u8]>>(
        &self,
        session: &mut Session,
        range: &impl RangeBounds<K>,
        limit: usize,
    ) -> Result<Keys, Status> {
        let start = start_of(range.start_bound());
        self.with_index(session, |index| {
            let (mut keys, mut is_all) = (Vec::new(), limit > 0);
            if limit == 0 {
                return Ok(Keys { keys, is_all });
            }
            let mut leaf = index.leaf(&start)?;
            let mut place = leaf.before(|key| *key < *start);
            loop {
                for place in place..leaf.len() {
                    let key = leaf.key(place);
                    if is_behind(key, range.end_bound()) {
                        return Ok(Keys { keys, is_all });
                    }
                    if keys.len() == limit {
                        is_all = false;
                        return Ok(Keys { keys, is_all });
                    }
                    keys.push(key.to_vec());
                }
                // The fence of a leaf is not before its keys.
                let next = match leaf.next() {
                    Some(next) if !is_behind(next, range.end_bound()) => next.to_vec(),
                    _ => return Ok(Keys { keys, is_all }),
                };
                if keys.len() == limit {
                    is_all = false;
                    return Ok(Keys { keys, is_all });
                }
                leaf = index.next_leaf(&next)?;
                place = 0;
            }
        })
    }

    /// The values of rows that are there, as the leaves say.
    fn values(&self, session: &mut Session, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Status> {
        let mut values = Vec::with_capacity(keys.len());
        let mut room = ROOM_LEAST;
        while values.len() < keys.len() {
            let count = READS_MAX.min(abi::BPFDB_IO_SIZE as usize / (READ_SIZE + room));
            let keys = keys[values.len()..].iter().take(count);
            let stored: Vec<Vec<u8>> = keys.map(|key| self.stored(key)).collect();
            let reads: Vec<Operation<'_>> = stored.iter().map(|key| Operation::Get(key)).collect();
            let outcomes = session
                .batch(&reads, room)
                .map_err(|_| Status::BadRequest)?;
            // It may have failed the transaction: nothing more is read then. WRONG_TYPE has not.
            let mut failures = outcomes.iter().filter_map(failure_of);
            let other = |status: &Status| *status != Status::WrongType;
            let failed = failures.clone().find(other).or_else(|| failures.next());
            if let Some(status) = failed {
                return Err(status);
            }
            for (key, outcome) in stored.iter().zip(outcomes) {
                // Longer than the room, or large.
                let value = outcome.or_else(|_| session.get(key))?;
                let value = value.ok_or(Status::Corrupt)?;
                room = room.max(value.len().next_power_of_two().min(ROOM_MOST));
                values.push(value);
            }
        }
        Ok(values)
    }
}
