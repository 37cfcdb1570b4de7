//! Cold values: read by the crate that knows the files, and given back their places in memory.

use std::mem;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::large::{Found, Step, cut};
use super::operation::{Operation, Place};
use super::{HEADER, ROOM, Session, VALUE_MAX};
use crate::cold::{ColdPlace, ColdRead, ColdValues, Demotion};
use crate::{Status, abi};

impl Session {
    /// Part of a cold value; `None` if the key has another value by now, or this one is elsewhere.
    /// All of it is read, because its checksum is that of all.
    pub(super) fn read_cold(
        &mut self,
        key: &[u8],
        found: &Found,
        place: ColdPlace,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let Some(values) = self.engine.inner.cold.get().cloned() else {
            return Err(Status::TierUnavailable);
        };
        let stored = self.stored(key);
        let mut value = match self.fetch(&*values, &stored, found.len, place) {
            Ok(value) => value,
            Err(Status::FoundLarge) => return Err(Status::FoundLarge),
            // A file goes when no version names it any more: this one may have been replaced or moved.
            Err(status) => {
                return match self.is_large(key, found.id) {
                    Ok(true) => Err(status),
                    // The record is locked and released all the time.
                    Ok(false) | Err(Status::Exhausted) => Ok(None),
                    Err(other) => Err(other),
                };
            }
        };
        let may_come = !self.keeps_cold && value.len() <= VALUE_MAX;
        if may_come && values.admits(&stored, found.len) {
            if self.in_transaction() || self.deferred.is_open() {
                values.wanted(&stored);
            } else if self.promote(key, found, &value) {
                values.promoted();
            }
        }
        cut(&mut value, range);
        Ok(Some(value))
    }

    /// Whether operations leave cold values alone that they would have to wait for; at first they wait. The read of such a
    /// value begins ([`Self::take_cold_reads`]), and the operation ends in [`Status::FoundLarge`] as an Error. It has done
    /// nothing, and has failed no transaction: the caller does what it has done in a transaction of its own again from
    /// its beginning when the reads have ended.
    pub fn leave_cold(&mut self, leaves: bool) {
        self.leaves_cold = leaves;
        self.has_left_cold = false;
    }

    /// From now on operations wait, until it is said otherwise.
    pub fn wait_for_cold(&mut self) {
        self.leaves_cold = false;
    }

    /// Has an operation ended for a cold value since [`Self::leave_cold`]?
    pub fn has_left_cold(&self) -> bool {
        self.has_left_cold
    }

    /// The reads that have begun since this was asked last.
    pub fn take_cold_reads(&mut self) -> Vec<Arc<dyn ColdRead>> {
        mem::take(&mut self.cold_reads)
    }

    /// Begins the reads of those of these keys' values that are cold, or joins them, as their operations will come:
    /// until so many are under way.
    pub fn begin_cold_reads<'a>(&mut self, keys: impl IntoIterator<Item = &'a [u8]>, most: usize) {
        let mut under_way = 0;
        for key in keys {
            if under_way == most {
                return;
            }
            // What is said about this key its own operation says.
            let operation = Operation::GetAny(key);
            if let Ok((Status::FoundLarge, place)) =
                self.tracked(false, |session| session.single_at(&operation))
            {
                under_way += usize::from(self.begin_cold_read(key, place));
            }
        }
    }

    /// Begins the read of what an operation has found at this place of the buffer, if it is cold. Is it under way then?
    pub(super) fn begin_cold_read(&mut self, key: &[u8], place: Place) -> bool {
        let found = self.found(place);
        let values = self.engine.inner.cold.get().cloned();
        let (Some(values), Some(place)) = (values, found.cold) else {
            return false;
        };
        let stored = self.stored(key);
        let Some(read) = values.begin(&stored, found.len, place, self.index) else {
            return false;
        };
        let is_under_way = !read.is_over();
        // Whoever meets an error reads once more.
        if !matches!(read.outcome(), Some(Err(_))) {
            self.cold_reads.push(read);
        }
        is_under_way
    }

    fn stored(&self, key: &[u8]) -> Vec<u8> {
        let (prefix, prefix_len) = self.key_prefix(key);
        [&prefix[..prefix_len], key].concat()
    }

    fn fetch(
        &mut self,
        values: &dyn ColdValues,
        stored: &[u8],
        len: u64,
        place: ColdPlace,
    ) -> Result<Vec<u8>, Status> {
        let begin = || values.begin(stored, len, place, self.index);
        let Some(read) = self.leaves_cold.then(begin).flatten() else {
            return values.fetch(stored, len, place);
        };
        if let Some(outcome) = read.outcome() {
            return outcome.clone();
        }
        self.cold_reads.push(read);
        self.has_left_cold = true;
        Err(Status::FoundLarge)
    }

    /// From now on what this session reads says nothing about what is asked for: cold values that it reads
    /// stay cold.
    pub(crate) fn keep_cold(&mut self) {
        self.keeps_cold = true;
    }

    /// Whether the key still has the large or cold value with this id.
    fn is_large(&mut self, key: &[u8], id: u64) -> Result<bool, Status> {
        let step = Step {
            large: id,
            ..Step::new(abi::BPFDB_OP_LARGE_READ, key)
        };
        let (status, _) = self.step(step)?;
        Ok(status == Status::Found)
    }

    /// Whether it is in memory now. It stays cold if another session has the record locked, or if memory is
    /// short: that is no error of the read.
    fn promote(&mut self, key: &[u8], found: &Found, value: &[u8]) -> bool {
        let step = Step {
            bytes: value,
            large: found.id,
            ..Step::new(abi::BPFDB_OP_PROMOTE | found.kind.of_operation(), key)
        };
        let promoted = self.patiently(false, |session| Ok(session.put_step(&step)));
        matches!(promoted, Ok((Status::Ok, _)))
    }

    /// See [`crate::Demoter::promote`].
    pub(crate) fn promote_key(&mut self, key: &[u8]) -> Result<(), Status> {
        self.typed_entry(key).map(drop)
    }

    /// See [`crate::Demoter::demote`].
    pub(crate) fn demote(&mut self, demotion: &Demotion<'_>) -> Result<bool, Status> {
        let what = in_engine(demotion);
        self.flush()?;
        match self.patiently(false, |session| {
            Ok(session.put_step(&demote_step(demotion, &what)))
        }) {
            Ok((status, _)) => Ok(status == Status::Ok),
            Err(Status::Conflict) => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// See [`crate::Demoter::demote_all`].
    pub(crate) fn demote_all(
        &mut self,
        demotions: &[Demotion<'_>],
        swapped: &mut Vec<bool>,
    ) -> Result<(), Status> {
        self.flush()?;
        let mut rest = demotions;
        while !rest.is_empty() {
            let places = self.put_demotions(rest);
            rest = &rest[places.len()..];
            let executed = self.submit().map_err(|_| Status::BadRequest)?;
            for &place in &places[..executed.min(places.len())] {
                match self.status(place) {
                    Status::Conflict => swapped.push(false),
                    status if status.is_error() => return Err(status),
                    status => swapped.push(status == Status::Ok),
                }
            }
            if executed < places.len() {
                return Err(Status::SessionBusy);
            }
        }
        Ok(())
    }

    /// Puts as many into the buffer as have room there, one behind the other.
    fn put_demotions(&mut self, demotions: &[Demotion<'_>]) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for demotion in demotions.iter().take(abi::BPFDB_BATCH_MAX as usize) {
            let at = places.last().map_or(0, Place::end);
            if at + DEMOTION_ROOM > ROOM {
                break;
            }
            let what = in_engine(demotion);
            let place = self.put_step_at(at, &demote_step(demotion, &what));
            if let Some(&last) = places.last() {
                self.link(last, at as u32);
            }
            places.push(place);
        }
        places
    }
}

/// What a request to demote takes of the buffer, at most.
const DEMOTION_ROOM: usize =
    HEADER + abi::BPFDB_KEY_MAX as usize + 8 + size_of::<abi::bpfdb_demotion>() + 16;

fn in_engine(demotion: &Demotion<'_>) -> abi::bpfdb_demotion {
    abi::bpfdb_demotion {
        id: demotion.id,
        epoch: demotion.epoch,
        len: demotion.len,
        place: demotion.to.in_engine(),
    }
}

fn demote_step<'a>(demotion: &Demotion<'a>, what: &'a abi::bpfdb_demotion) -> Step<'a> {
    // SAFETY: plain data without padding.
    let bytes =
        unsafe { std::slice::from_raw_parts(ptr::from_ref(what).cast::<u8>(), size_of_val(what)) };
    Step {
        bytes,
        ..Step::new(abi::BPFDB_OP_DEMOTE, demotion.key)
    }
}
