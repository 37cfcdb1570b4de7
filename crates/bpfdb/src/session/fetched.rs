//! What several commands read, in one call.
//!
//! ```text
//!  fetch            BEGIN read-only, GET, GET, …, COMMIT      one call
//!  begin_fetching   BEGIN, GET for update, GET, …             one call
//!                     commands: reads are answered from here,
//!                     SETs wait                               no call
//!                   SET, SET, …, COMMIT                       one call
//! ```
//!
//! Invariants
//!  1. What is kept of a key was read at one moment with the others (`fetch`), or
//!     under a lock that the open transaction holds, and is what it wrote last
//!     (`begin_fetching`). What is not known is read as if there were nothing here.
//!  2. A read finds only what was [offered](Session::offer) last: keys that were
//!     fetched for the command that is executed now. All of them are known, or none is
//!     offered: a command does not read half of its keys at another moment.
//!  3. Nothing outlives the transaction, or the session's next one.

use std::ops::Range;

use super::operation::{Operation, Place};
use super::{Entry, Session, VALUE_MAX};
use crate::{Status, abi};

/// Room for a value at first, bytes, and what it is rounded to.
const ROOM_LEAST: usize = 256;
/// Longer values are copied more often than once if they are fetched, which takes longer
/// than the call that it saves.
const ROOM_MOST: usize = 4096;
/// Reads of one call: with them comes what waits, and COMMIT.
const READS_MAX: usize = abi::BPFDB_BATCH_MAX as usize / 2;

/// GETs that the engine has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub found: u64,
    pub missed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Keys and values.
    bytes: Vec<u8>,
    entries: Vec<Found>,
    offered: Range<usize>,
    /// Bytes of the longest value that fetches bring.
    room: usize,
    places: Vec<Place>,
    counted: Reads,
    counted_for_nothing: Reads,
}

#[derive(Debug)]
struct Found {
    key: Range<usize>,
    /// Under an exclusive lock.
    for_update: bool,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// Too long, large, or not read.
    Unknown,
    Absent,
    Value(Range<usize>, Option<u64>),
}

impl Fetched {
    fn push(&mut self, key: &[u8], for_update: bool, what: What) {
        let key = self.keep(key);
        self.entries.push(Found {
            key,
            for_update,
            what,
        });
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.offered = 0..0;
    }

    /// What `operation`, a GET, would find; `None` if that is not known.
    pub(super) fn find(&self, operation: &Operation<'_>) -> Option<Option<Entry>> {
        let known = self.find_bytes(operation)?;
        Some(known.map(|(value, expires_at)| Entry {
            value: value.to_vec(),
            expires_at,
        }))
    }

    /// The same without a copy.
    pub(super) fn find_bytes(
        &self,
        operation: &Operation<'_>,
    ) -> Option<Option<(&[u8], Option<u64>)>> {
        let locks = matches!(operation, Operation::GetForUpdate(_));
        let is_it = |found: &&Found| {
            self.bytes[found.key.clone()] == *operation.key() && (found.for_update || !locks)
        };
        let found = self.entries[self.offered.clone()].iter().find(is_it)?;
        match &found.what {
            What::Unknown => None,
            What::Absent => Some(None),
            What::Value(value, expires_at) => Some(Some((&self.bytes[value.clone()], *expires_at))),
        }
    }

    /// Is there a value? Known only under an exclusive lock.
    pub(super) fn presence(&self, key: &[u8]) -> Option<bool> {
        let is_it = |found: &&Found| found.for_update && self.bytes[found.key.clone()] == *key;
        let found = self.entries[self.offered.clone()].iter().find(is_it)?;
        match found.what {
            What::Unknown => None,
            What::Absent => Some(false),
            What::Value(..) => Some(true),
        }
    }

    /// The transaction sets or deletes a key.
    pub(super) fn wrote(&mut self, key: &[u8], new: Option<(&[u8], Option<u64>)>) {
        if self.entries.is_empty() {
            return;
        }
        let what = match new {
            None => What::Absent,
            Some((value, None)) if self.is_wanted_later(key) => What::Value(self.keep(value), None),
            // With a time it may be over: the engine knows.
            Some(_) => What::Unknown,
        };
        self.replace(key, &what);
    }

    fn is_wanted_later(&self, key: &[u8]) -> bool {
        let behind = &self.entries[self.offered.end..];
        (behind.iter()).any(|found| self.bytes[found.key.clone()] == *key)
    }

    /// What has become of a key is not known here.
    pub(super) fn forget(&mut self, key: &[u8]) {
        self.replace(key, &What::Unknown);
    }

    /// For this command and those behind it.
    fn replace(&mut self, key: &[u8], what: &What) {
        let Self { bytes, entries, .. } = self;
        for found in &mut entries[self.offered.start..] {
            if bytes[found.key.clone()] == *key {
                found.what = what.clone();
            }
        }
    }

    fn count(&mut self, read: &What) {
        self.counted.missed += u64::from(matches!(read, What::Absent));
        self.counted.found += u64::from(!matches!(read, What::Absent));
        self.counted_for_nothing.found += u64::from(matches!(read, What::Unknown));
    }

    fn take_in(
        &mut self,
        session: &Session,
        reads: &[Operation<'_>],
        places: &[Place],
    ) -> Result<(), Status> {
        let mut longest = 0;
        for (number, read) in reads.iter().enumerate() {
            let for_update = matches!(read, Operation::GetForUpdate(_));
            let what = match places.get(number) {
                None => What::Unknown,
                Some(&place) => {
                    let (what, len) = self.what_was_found(session, place)?;
                    longest = longest.max(len);
                    if !for_update {
                        self.count(&what);
                    }
                    what
                }
            };
            self.push(read.key(), for_update, what);
        }
        self.adapt(longest);
        Ok(())
    }

    /// With the length of the value, bytes.
    fn what_was_found(
        &mut self,
        session: &Session,
        place: Place,
    ) -> Result<(What, usize), Status> {
        let (len, expires_at) = session.found_at(place);
        match session.status(place) {
            Status::Found => {
                let value = self.keep(session.value_at(place));
                Ok((What::Value(value, expires_at), len))
            }
            Status::NotFound => Ok((What::Absent, 0)),
            // Found, but with no room for it. Nothing has failed.
            Status::BadRequest if len > place.room && len <= VALUE_MAX => Ok((What::Unknown, len)),
            Status::FoundLarge => Ok((What::Unknown, 0)),
            status => Err(status),
        }
    }

    /// Values are about as long as they were.
    fn adapt(&mut self, longest: usize) {
        let less = self.room - self.room / 8;
        let room = longest.max(less).max(ROOM_LEAST);
        self.room = room.next_multiple_of(ROOM_LEAST).min(ROOM_MOST);
    }
}

impl Session {
    /// Reads the keys of `reads`, each of them [`Operation::Get`], at one moment and in
    /// one call. Until [`Session::forget_fetched`] or the next transaction, reads of
    /// these keys are answered from it as soon as they are [offered](Session::offer).
    /// Not in a transaction. Values that are too long to be read with others are left
    /// to be read by whoever wants them.
    pub fn fetch(&mut self, reads: &[Operation<'_>]) -> Result<(), Status> {
        debug_assert!(!self.waiting.is_open() && !self.in_transaction());
        self.read_ahead(Some(&Operation::BeginReadOnly), reads, true)
    }

    /// Begins a transaction as [`Session::begin_later`] does, and reads keys by
    /// [`Operation::Get`] or [`Operation::GetForUpdate`], as [`Session::fetch`]. An
    /// Error is that of the first of them; the transaction must be ended then too.
    pub fn begin_fetching(&mut self, reads: &[Operation<'_>]) -> Result<(), Status> {
        self.begin_later()?;
        self.read_ahead(None, reads, false)
    }

    /// From now on, reads may be answered from what those of `reads` brought that have
    /// these numbers; if one of them brought nothing, from none.
    pub fn offer(&mut self, numbers: Range<usize>) {
        let fetched = &mut self.fetched;
        let (start, entries) = (numbers.start, fetched.entries.get(numbers.clone()));
        let all_known = entries.is_some_and(|entries| {
            !(entries.iter()).any(|found| matches!(found.what, What::Unknown))
        });
        fetched.offered = if all_known {
            numbers
        } else {
            let start = start.min(fetched.entries.len());
            start..start
        };
    }

    /// Reads go to the engine again.
    pub fn forget_fetched(&mut self) {
        self.fetched.clear();
    }

    /// How many GETs of the last fetch the engine has counted: all, and those that
    /// brought nothing, so that they will be done again.
    pub fn counted_reads(&self) -> (Reads, Reads) {
        (self.fetched.counted, self.fetched.counted_for_nothing)
    }

    fn read_ahead(
        &mut self,
        begin: Option<&Operation<'_>>,
        reads: &[Operation<'_>],
        commit: bool,
    ) -> Result<(), Status> {
        self.fetched.clear();
        self.fetched.counted = Reads::default();
        self.fetched.counted_for_nothing = Reads::default();
        if reads.is_empty() {
            return Ok(());
        }
        let mut places = std::mem::take(&mut self.fetched.places);
        places.clear();
        let written = self.put_reads(begin, reads, commit, &mut places);
        let outcome = written.and_then(|first| {
            self.submit().map_err(|_| Status::BadRequest)?;
            self.waited()?;
            let (begun, places) = places.split_at(first);
            let begun = begun.iter().map(|&place| self.status(place));
            begun.filter(|status| status.is_error()).try_for_each(Err)?;
            self.take_in(reads, places)
        });
        self.fetched.places = places;
        if outcome.is_err() {
            self.fetched.clear();
        }
        outcome
    }

    /// Writes the batch behind what waits; the number of the first read's place.
    /// Reads that find no room are left out.
    fn put_reads(
        &mut self,
        begin: Option<&Operation<'_>>,
        reads: &[Operation<'_>],
        commit: bool,
        places: &mut Vec<Place>,
    ) -> Result<usize, Status> {
        self.waiting.refused()?;
        let room = self.fetched.room.max(ROOM_LEAST);
        let mut last = self.waiting.last();
        let mut at = self.waiting.end();
        let first = usize::from(begin.is_some());
        let commit = commit.then_some(&Operation::Commit);
        let end = super::ROOM - super::HEADER;
        for operation in begin.into_iter().chain(reads) {
            let flags = if operation.reads() {
                0
            } else {
                abi::BPFDB_OR_STOP
            };
            let fits = |place: &Place| place.end() <= end && places.len() < READS_MAX;
            match self.put(at, operation, operation.room(room), flags) {
                Ok(place) if fits(&place) => {
                    if let Some(last) = last {
                        self.link(last, at as u32);
                    }
                    at = place.end();
                    last = Some(place);
                    places.push(place);
                }
                _ => break,
            }
        }
        if let (Some(commit), Some(last)) = (commit, last) {
            self.put(at, commit, 0, 0)?;
            self.link(last, at as u32);
        }
        Ok(first)
    }

    fn take_in(&mut self, reads: &[Operation<'_>], places: &[Place]) -> Result<(), Status> {
        let mut fetched = std::mem::take(&mut self.fetched);
        let outcome = fetched.take_in(self, reads, places);
        self.fetched = fetched;
        outcome
    }
}
