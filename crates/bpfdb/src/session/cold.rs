//! Cold values: read by the crate that knows the files, and given back their places in memory.

use std::ops::Range;
use std::ptr;

use super::large::{Found, Step, cut};
use super::operation::Place;
use super::{HEADER, ROOM, Session, VALUE_MAX};
use crate::cold::{ColdPlace, Demotion};
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
        let (prefix, prefix_len) = self.key_prefix(key);
        let stored = [&prefix[..prefix_len], key].concat();
        let mut value = match values.fetch(&stored, found.len, place) {
            Ok(value) => value,
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
