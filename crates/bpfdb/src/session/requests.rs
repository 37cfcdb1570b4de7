//! Requests in the session's buffer: an operation is written there, executed by `BPF_PROG_RUN`, and
//! its result read.

use std::{ptr, thread};

use super::operation::{Operation, Place};
use super::{
    Entry, HEADER, LENGTH_MASK, LOG_TRIES, PENDING_TRIES, ROOM, Reads, Session, VALUE_MAX,
    WatchToken,
};
use crate::engine::LOG_PAUSE;
use crate::{Status, ValueType, abi};

impl Session {
    /// Executes one operation that fails no transaction.
    pub(crate) fn run_one(&mut self, operation: &Operation<'_>) -> Result<Status, Status> {
        self.single(operation)
    }

    /// Executes one operation; its outcome, an Error as `Err`. When memory is
    /// still being added, adds it and tries again.
    pub(super) fn single(&mut self, operation: &Operation<'_>) -> Result<Status, Status> {
        self.single_at(operation).map(|(status, _)| status)
    }

    pub(super) fn single_at(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<(Status, Place), Status> {
        // Inside a transaction the Error has failed it: no use to try again.
        let patient = !self.in_transaction() && !self.deferred.is_open();
        let outcome = self.patiently(patient, |session| {
            session.append(operation, operation.room(VALUE_MAX), 0)
        });
        if operation.is_counted() {
            let found = matches!(outcome, Ok((Status::Found | Status::FoundLarge, _)));
            self.reads.found += u64::from(found);
            self.reads.missed += u64::from(matches!(outcome, Ok((Status::NotFound, _))));
        }
        outcome
    }

    /// GETs that the engine has counted of this session since it was asked last, but those of batches.
    pub fn take_reads(&mut self) -> Reads {
        std::mem::take(&mut self.reads)
    }

    /// Executes what `put` writes into the buffer, and again while memory is being
    /// added.
    pub(super) fn patiently(
        &mut self,
        patient: bool,
        mut put: impl FnMut(&mut Self) -> Result<Place, Status>,
    ) -> Result<(Status, Place), Status> {
        for attempt in 0.. {
            let place = put(self)?;
            self.submit().map_err(|_| Status::BadRequest)?;
            self.waited()?;
            let status = self.status(place);
            let tries = if status == Status::LogFull {
                LOG_TRIES
            } else {
                PENDING_TRIES
            };
            if attempt < tries && patient && self.await_room(status) {
                continue;
            }
            return if status.is_error() {
                Err(status)
            } else {
                Ok((status, place))
            };
        }
        unreachable!("the last attempt returns")
    }

    /// Waits for what an operator lacked, if that may come; true: try again.
    pub(super) fn await_room(&self, status: Status) -> bool {
        match status {
            Status::MemoryPending => self.await_memory(),
            Status::LogFull if self.may_wait() => {
                thread::sleep(LOG_PAUSE);
                true
            }
            _ => false,
        }
    }

    /// Waits while memory is being added; or asks for it, and says false.
    pub(super) fn await_memory(&self) -> bool {
        if !self.may_wait() {
            self.engine.ask_for_memory();
            return false;
        }
        self.engine.await_memory();
        true
    }

    /// Leaves an operation to be executed with the next one.
    pub(super) fn later(&mut self, operation: &Operation<'_>) -> Result<(), Status> {
        let place = self.append(operation, 0, abi::BPFDB_OR_STOP)?;
        self.deferred.push(place);
        Ok(())
    }

    /// Puts a request behind what waits; if there is no room, that is executed first.
    pub(super) fn append(
        &mut self,
        operation: &Operation<'_>,
        room: usize,
        flags: u32,
    ) -> Result<Place, Status> {
        self.catch_up()?;
        if self.kept.is_ahead(operation) {
            self.send_kept()?;
        }
        self.deferred.refused()?;
        // The last one of a batch is to be the one with a result.
        if self.deferred.len() + 1 >= abi::BPFDB_BATCH_MAX as usize {
            self.flush_waiting()?;
        }
        let end = self.deferred.end();
        let place = match self.put(end, operation, room, flags) {
            Err(_) if end != 0 => {
                self.flush_waiting()?;
                self.put(0, operation, room, flags)?
            }
            place => place?,
        };
        if let Some(last) = self.deferred.last() {
            self.link(last, place.at as u32);
        }
        Ok(place)
    }

    /// What waited was sent: its first Error.
    pub(super) fn waited(&mut self) -> Result<(), Status> {
        let mut waiting = std::mem::take(&mut self.deferred);
        let outcome = waiting.sent(|place| self.status(place));
        self.deferred = waiting;
        outcome
    }

    /// Writes a request, the last one of its batch as yet.
    pub(super) fn put(
        &mut self,
        at: usize,
        operation: &Operation<'_>,
        room: usize,
        flags: u32,
    ) -> Result<Place, Status> {
        let (key, value) = (operation.key(), operation.value());
        let (prefix, prefix_len) = self.key_prefix(key);
        let key_len = prefix_len + key.len();
        // Lengths beyond the limits are sent without the bytes: the operator
        // refuses them, which fails a transaction.
        let (prefix, key_bytes): (_, &[u8]) = if key_len > abi::BPFDB_KEY_MAX as usize {
            (&prefix[..0], &[])
        } else {
            (&prefix[..prefix_len], key)
        };
        let value_bytes = if value.len() > VALUE_MAX { &[] } else { value };
        let place = Place {
            at,
            key: prefix.len() + key_bytes.len(),
            room: room.max(value_bytes.len().next_multiple_of(16)),
            reads: operation.reads(),
        };
        if at != 0 && place.end() > ROOM {
            return Err(Status::BadRequest);
        }
        let request = abi::bpfdb_request {
            operation: operation.code() | flags,
            // Overwritten by the program; this if it never ran.
            status: Status::BadRequest.code(),
            key_len: u32::try_from(key_len).unwrap_or(u32::MAX),
            value_len: u32::try_from(value.len()).unwrap_or(u32::MAX),
            next: 0,
            value_room: place.room as u32,
            expires: operation.expires(),
            large: operation.words().0,
            offset: operation.words().1,
        };
        // SAFETY: `end` is inside the buffer and its pad: checked above; at
        // offset 0 a header, the longest key and the longest value fit.
        unsafe {
            let start = self.buffer.0.add(at);
            start.cast::<abi::bpfdb_request>().write_unaligned(request);
            ptr::copy_nonoverlapping(prefix.as_ptr(), start.add(HEADER), prefix.len());
            let key_at = start.add(HEADER + prefix.len());
            ptr::copy_nonoverlapping(key_bytes.as_ptr(), key_at, key_bytes.len());
            ptr::copy_nonoverlapping(
                value_bytes.as_ptr(),
                self.buffer.0.add(place.value()),
                value_bytes.len(),
            );
        }
        Ok(place)
    }

    /// Makes the request at `next` follow that at `place`.
    pub(super) fn link(&mut self, place: Place, next: u32) {
        // SAFETY: `place` was written by put().
        unsafe { (&raw mut (*self.request(place)).next).write_unaligned(next) };
    }

    pub(super) fn request(&self, place: Place) -> *mut abi::bpfdb_request {
        // SAFETY: `place` was checked by put().
        unsafe { self.buffer.0.add(place.at).cast() }
    }

    pub(super) fn status(&self, place: Place) -> Status {
        // SAFETY: as in link().
        let code = unsafe { (&raw const (*self.request(place)).status).read_unaligned() };
        Status::from_code(code).unwrap_or(Status::Corrupt)
    }

    pub(super) fn set_status(&mut self, place: Place, status: Status) {
        let request = self.request(place);
        // SAFETY: as in link().
        unsafe { (&raw mut (*request).status).write_unaligned(status.code()) };
    }

    pub(super) fn entry_at(&self, place: Place) -> Entry {
        Entry {
            value: self.value_of(place),
            expires_at: self.found_at(place).1,
        }
    }

    /// The length of a value that was found, be there room for it or not, bytes, and
    /// when it expires.
    pub(super) fn found_at(&self, place: Place) -> (usize, Option<u64>) {
        // SAFETY: as in link().
        let request = unsafe { self.request(place).read_unaligned() };
        let expires = request.expires;
        (
            request.value_len as usize & LENGTH_MASK,
            (expires != 0).then_some(expires),
        )
    }

    pub(super) fn token_at(&self, place: Place) -> WatchToken {
        // SAFETY: the program wrote the token where the value would be.
        let token = unsafe {
            let start = self.buffer.0.add(place.value());
            start.cast::<abi::bpfdb_watch>().read_unaligned()
        };
        WatchToken {
            snapshot: token.snapshot,
            changed: token.changed,
            present: token.present != 0,
        }
    }

    pub(super) fn value_of(&self, place: Place) -> Vec<u8> {
        self.value_at(place).to_vec()
    }

    /// A value in the buffer: there until the next operation.
    pub(super) fn value_at(&self, place: Place) -> &[u8] {
        // SAFETY: the program wrote at most `room` bytes behind the key.
        unsafe {
            let len = (&raw const (*self.request(place)).value_len).read_unaligned() as usize;
            let start = self.buffer.0.add(place.value());
            std::slice::from_raw_parts(start, (len & LENGTH_MASK).min(place.room))
        }
    }

    /// The type of a value that was found.
    pub(super) fn type_at(&self, place: Place) -> ValueType {
        // SAFETY: as in link().
        let form = unsafe { (&raw const (*self.request(place)).value_len).read_unaligned() };
        ValueType::of_form(form.into())
    }
}
