//! Reads of several commands, in one call.
//!
//! ```text
//!  prefetch           BEGIN read-only, GET, GET, …, COMMIT      one call
//!  begin_prefetching  BEGIN, GET for update, GET, …             one call
//!                     commands: reads are answered from here,
//!                     SETs wait                               no call
//!                   SET, SET, …, COMMIT                       one call
//! ```
//!
//! Invariants
//!  1. What is kept of a key was read at one moment with the others (`prefetch`), or
//!     under a lock that the open transaction holds, and is what it wrote last
//!     (`begin_prefetching`). What is not known is read as if there were nothing here.
//!  2. A read finds only what was [exposed](Session::expose) last: keys that were
//!     fetched for the command that is executed now.
//!  3. Nothing outlives the transaction, or the session's next one.

use std::cell::Cell;
use std::ops::Range;

use super::operation::{Operation, Place};
use super::{Entry, HEADER, Session, VALUE_MAX};
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
pub(super) struct ReadCache {
    /// Keys and values.
    bytes: Vec<u8>,
    entries: Vec<Found>,
    exposed: Range<usize>,
    /// Bytes of the longest value that fetches bring.
    room: usize,
    places: Vec<Place>,
}

#[derive(Debug)]
struct Found {
    key: Range<usize>,
    /// Under an exclusive lock.
    for_update: bool,
    what: What,
    /// The engine has counted it as a GET that found a value, or none.
    counted: Option<bool>,
    used: Cell<bool>,
}

#[derive(Clone, Debug)]
enum What {
    /// Too long, large, not read, or written since.
    Unknown,
    Absent,
    Value(Range<usize>, Option<u64>),
}

impl ReadCache {
    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.exposed = 0..0;
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
        let locks = operation.locks();
        let is_it = |found: &&Found| {
            self.bytes[found.key.clone()] == *operation.key() && (found.for_update || !locks)
        };
        // A key that a command names twice was read twice.
        let mut named = self.entries[self.exposed.clone()].iter().filter(is_it);
        let first = named.next()?;
        let found = [first]
            .into_iter()
            .chain(named)
            .find(|found| !found.used.get());
        let found = found.unwrap_or(first);
        found.used.set(true);
        match &found.what {
            What::Unknown => None,
            What::Absent => Some(None),
            What::Value(value, expires_at) => Some(Some((&self.bytes[value.clone()], *expires_at))),
        }
    }

    /// Is there a value? Known only under an exclusive lock.
    pub(super) fn presence(&self, key: &[u8]) -> Option<bool> {
        let is_it = |found: &&Found| found.for_update && self.bytes[found.key.clone()] == *key;
        let found = self.entries[self.exposed.clone()].iter().find(is_it)?;
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
        let behind = &self.entries[self.exposed.end..];
        (behind.iter()).any(|found| self.bytes[found.key.clone()] == *key)
    }

    /// What has become of a key is not known here.
    pub(super) fn forget(&mut self, key: &[u8]) {
        self.replace(key, &What::Unknown);
    }

    /// For this command and those behind it.
    fn replace(&mut self, key: &[u8], what: &What) {
        let Self { bytes, entries, .. } = self;
        for found in &mut entries[self.exposed.start..] {
            if bytes[found.key.clone()] == *key {
                found.what = what.clone();
            }
        }
    }

    /// What the places tell of the reads; the first Error among them.
    fn take_in(
        &mut self,
        session: &Session,
        reads: &[Operation<'_>],
        places: &[Place],
    ) -> Result<(), Status> {
        let mut outcome = Ok(());
        let mut longest = 0;
        for (number, read) in reads.iter().enumerate() {
            let for_update = read.locks();
            let place = places.get(number);
            let found = place.map_or(Ok((What::Unknown, 0)), |&place| {
                self.what_was_found(session, place)
            });
            let is_counted = place.is_some() && found.is_ok() && !for_update;
            let (what, len) = found.unwrap_or_else(|status| {
                // Of one key, and of a command that may take values of that type.
                if status != Status::WrongType {
                    outcome = outcome.and(Err(status));
                }
                (What::Unknown, 0)
            });
            longest = longest.max(len);
            let key = self.keep(read.key());
            self.entries.push(Found {
                key,
                for_update,
                counted: is_counted.then_some(!matches!(what, What::Absent)),
                what,
                used: Cell::new(false),
            });
        }
        self.adapt(longest);
        outcome
    }

    /// With the length of the value, bytes.
    fn what_was_found(&mut self, session: &Session, place: Place) -> Result<(What, usize), Status> {
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

    /// Values are about as long as they were; those beyond the limit find no room anyway.
    fn adapt(&mut self, longest: usize) {
        let less = self.room - self.room / 8;
        let longest = if longest > ROOM_MOST { 0 } else { longest };
        self.room = longest
            .max(less)
            .max(ROOM_LEAST)
            .next_multiple_of(ROOM_LEAST)
            .min(ROOM_MOST);
    }

    /// GETs that the engine has counted.
    fn counted(&self, which: impl Fn(&Found) -> bool) -> Reads {
        let mut reads = Reads::default();
        for found in self.entries.iter().filter(|found| which(found)) {
            reads.found += u64::from(found.counted == Some(true));
            reads.missed += u64::from(found.counted == Some(false));
        }
        reads
    }
}

impl Session {
    /// Reads the keys of `reads`, each of them [`Operation::Get`], at one moment and in
    /// one call. Until [`Session::clear_read_cache`] or the next transaction, reads of
    /// these keys are answered from it as soon as they are [exposed](Session::expose).
    /// Not in a transaction. Values that are too long to be read with others are left
    /// to be read by later operations.
    pub fn prefetch(&mut self, reads: &[Operation<'_>]) -> Result<(), Status> {
        self.catch_up()?;
        debug_assert!(!self.deferred.is_open() && !self.in_transaction());
        let outcome = self.read_ahead(reads, true);
        // A read that the session was too busy for is the last of its batch: the COMMIT behind it
        // was not executed.
        if outcome.is_err() {
            self.end_for_certain()?;
        }
        outcome
    }

    /// Begins a transaction as [`Session::begin_deferred`] does, and reads keys by
    /// [`Operation::Get`] or [`Operation::GetForUpdate`], as [`Session::prefetch`]. An
    /// Error is that of the first of them; the transaction must be ended then too.
    pub fn begin_prefetching(&mut self, reads: &[Operation<'_>]) -> Result<(), Status> {
        self.begin_deferred()?;
        self.read_ahead(reads, false)
    }

    /// From now on, reads may be answered from what those of `reads` brought that have
    /// these numbers. False if it is not known of all of them what they would find.
    pub fn expose(&mut self, numbers: Range<usize>) -> bool {
        let cache = &mut self.read_cache;
        let Some(entries) = cache.entries.get(numbers.clone()) else {
            return false;
        };
        let mut unknown = entries
            .iter()
            .map(|found| matches!(found.what, What::Unknown));
        cache.exposed = numbers;
        !unknown.any(|is| is)
    }

    /// Reads go to the engine again.
    pub fn clear_read_cache(&mut self) {
        self.read_cache.clear();
    }

    /// GETs of the last fetch that the engine has counted, as long as it is not
    /// forgotten: those that answered no read, and all of them.
    pub fn prefetched_reads(&self) -> (Reads, Reads) {
        let unused = self.read_cache.counted(|found| !found.used.get());
        (unused, self.read_cache.counted(|_| true))
    }

    /// What was counted is known after an Error too.
    fn read_ahead(&mut self, reads: &[Operation<'_>], read_only: bool) -> Result<(), Status> {
        self.read_cache.clear();
        if reads.is_empty() {
            return Ok(());
        }
        let mut places = std::mem::take(&mut self.read_cache.places);
        places.clear();
        let written = self.put_reads(reads, read_only, &mut places);
        let outcome = written.and_then(|ends| {
            self.submit().map_err(|_| Status::BadRequest)?;
            self.waited()?;
            let mut statuses = ends.into_iter().flatten().map(|place| self.status(place));
            let ended = statuses
                .find(|status| status.is_error())
                .map_or(Ok(()), Err);
            self.take_in(reads, &places).and(ended)
        });
        self.read_cache.places = places;
        outcome
    }

    /// Writes the batch behind what waits, between BEGIN and COMMIT if `read_only`: the
    /// places of these. Reads that find no room are left out.
    fn put_reads(
        &mut self,
        reads: &[Operation<'_>],
        read_only: bool,
        places: &mut Vec<Place>,
    ) -> Result<Option<[Place; 2]>, Status> {
        self.deferred.refused()?;
        let room = self.read_cache.room.max(ROOM_LEAST);
        let mut last = self.deferred.last();
        let begin = read_only
            .then(|| self.put_behind(&mut last, &Operation::BeginReadOnly, 0))
            .transpose()?;
        for read in reads.iter().take(READS_MAX) {
            let end = last.map_or(0, |place| place.end());
            let len = HEADER + super::KEY_PREFIX + read.key().len() + 8 + read.room(room);
            if end + len + HEADER > super::ROOM {
                break;
            }
            places.push(self.put_behind(&mut last, read, read.room(room))?);
        }
        let commit = begin.map(|begin| {
            let commit = self.put_behind(&mut last, &Operation::Commit, 0)?;
            Ok([begin, commit])
        });
        commit.transpose()
    }

    /// Writes a request behind another one. If it is no read, an Error stops the batch.
    pub(super) fn put_behind(
        &mut self,
        last: &mut Option<Place>,
        operation: &Operation<'_>,
        room: usize,
    ) -> Result<Place, Status> {
        let at = last.map_or(0, |place| place.end());
        let flags = if operation.reads() {
            0
        } else {
            abi::BPFDB_OR_STOP
        };
        let place = self.put(at, operation, room, flags)?;
        if let Some(last) = *last {
            self.link(last, at as u32);
        }
        *last = Some(place);
        Ok(place)
    }

    fn take_in(&mut self, reads: &[Operation<'_>], places: &[Place]) -> Result<(), Status> {
        let mut cache = std::mem::take(&mut self.read_cache);
        let outcome = cache.take_in(self, reads, places);
        self.read_cache = cache;
        if self.leaves_cold {
            for (read, &place) in reads.iter().zip(places) {
                if self.status(place) == Status::FoundLarge {
                    self.begin_cold_read(read.key(), place);
                }
            }
        }
        outcome
    }
}
