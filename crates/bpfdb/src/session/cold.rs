//! Cold values: read by the crate that knows the files, and given back their places in memory.

use std::ops::Range;

use super::large::{Found, Step, cut};
use super::{Session, VALUE_MAX};
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
        let what = abi::bpfdb_demotion {
            id: demotion.id,
            epoch: demotion.epoch,
            len: demotion.len,
            place: demotion.to.in_engine(),
        };
        // SAFETY: plain data without padding.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const what).cast::<u8>(), size_of_val(&what))
        };
        let step = Step {
            bytes,
            ..Step::new(abi::BPFDB_OP_DEMOTE, demotion.key)
        };
        self.flush()?;
        match self.patiently(false, |session| Ok(session.put_step(&step))) {
            Ok((status, _)) => Ok(status == Status::Ok),
            Err(Status::Conflict) => Ok(false),
            Err(status) => Err(status),
        }
    }
}
