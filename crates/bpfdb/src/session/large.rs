//! Values longer than a slot, in parts (docs/decisions/0007-large-values.md).

use std::ops::Range;
use std::ptr;

use super::operation::{Operation, Place};
use super::{Entry, HEADER, Head, LOG_TRIES, PENDING_TRIES, Session};
use crate::cold::ColdPlace;
use crate::{Status, ValueType, abi};

const VALUE_MAX: u64 = abi::BPFDB_VALUE_MAX as u64;
const PART: usize = abi::BPFDB_LARGE_PART as usize;
/// Where a part may begin that is read.
const GRAIN: u64 = 8;
/// Values that may take each other's place while one of them is read. Then, without a
/// transaction, it is read by a snapshot.
const TRIES: u32 = abi::BPFDB_COPY_TRIES;

/// A step of a large value, in the io buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) operation: u32,
    pub(super) key: &'a [u8],
    pub(super) bytes: &'a [u8],
    pub(super) room: usize,
    pub(super) large: u64,
    pub(super) offset: u64,
}

/// What was found of a large value, or of a cold one of any length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) kind: ValueType,
    pub(super) id: u64,
    pub(super) len: u64,
    expires: u64,
    /// Of a cold value.
    pub(super) cold: Option<ColdPlace>,
}

/// A part of a value.
#[derive(Debug)]
pub(super) struct PartRead {
    pub(super) entry: Entry,
    pub(super) kind: ValueType,
}

/// What came of reading a part of a value.
#[derive(Debug)]
enum Part {
    /// `None`: there is no value.
    Read(Option<PartRead>),
    /// The key has another value by now.
    Replaced,
}

impl Session {
    /// Type, length and expiry of the value of `key`, of any type, without reading a large one. (One that is
    /// cold and not large is read.)
    pub fn head(&mut self, key: &[u8]) -> Result<Option<Head>, Status> {
        self.read_head(&Operation::GetAny(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn head_for_update(&mut self, key: &[u8]) -> Result<Option<Head>, Status> {
        self.read_head(&Operation::GetAnyForUpdate(key))
    }

    fn read_head(&mut self, operation: &Operation<'_>) -> Result<Option<Head>, Status> {
        if let Some(known) = self.read_kept(operation)? {
            return Ok(known.map(Head::from));
        }
        if let Some(known) = self.read_cache.find(operation) {
            return Ok(known.map(Head::from));
        }
        self.read_head_in_engine(operation)
    }

    pub(super) fn read_head_in_engine(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<Option<Head>, Status> {
        for _ in 0..TRIES {
            if let Some(head) = self.read_head_once(operation)? {
                return Ok(head);
            }
        }
        Err(Status::Exhausted)
    }

    /// `None`: the value is cold, and was replaced or moved before it was read.
    fn read_head_once(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<Option<Option<Head>>, Status> {
        let (status, place) = self.single_at(operation)?;
        let head = match status {
            Status::Found => Some(Head {
                value_type: self.type_at(place),
                ..self.entry_at(place).into()
            }),
            Status::FoundLarge => {
                let found = self.found(place);
                // A short one is read: callers take what has no value for a large one.
                let value = match found.cold.filter(|_| found.len <= VALUE_MAX) {
                    None => None,
                    Some(place) => {
                        let all = 0..found.len;
                        match self.read_cold(operation.key(), &found, place, all)? {
                            None => return Ok(None),
                            value => value,
                        }
                    }
                };
                Some(Head {
                    len: found.len,
                    value_type: found.kind,
                    expires_at: (found.expires != 0).then_some(found.expires),
                    value,
                })
            }
            _ => {
                self.note_miss(operation.key());
                None
            }
        };
        Ok(Some(head))
    }

    /// Length of the string of `key`, bytes.
    pub fn value_len(&mut self, key: &[u8]) -> Result<Option<u64>, Status> {
        let head = self.read_head(&Operation::Get(key))?;
        Ok(head.map(|head| head.len))
    }

    /// Those bytes of the value of `key` that `range` asks for when it is told the
    /// length; it must keep within. Of a large value only these are read.
    pub fn get_range(
        &mut self,
        key: &[u8],
        range: impl FnMut(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let found = self.read_part(&Operation::Get(key), range)?;
        Ok(found.map(|part| part.entry.value))
    }

    /// Shows the value of `key` where it is, without a copy if it is not a large one.
    pub fn get_with<T>(
        &mut self,
        key: &[u8],
        show: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Result<T, Status> {
        let operation = Operation::Get(key);
        if self.kept.is_on() {
            return Ok(show(self.get(key)?.as_deref()));
        }
        if let Some(known) = self.read_cache.find_bytes(&operation) {
            return Ok(show(known.map(|(value, _)| value)));
        }
        let (status, place) = self.single_at(&operation)?;
        match status {
            Status::Found => Ok(show(Some(self.value_at(place)))),
            Status::FoundLarge => {
                let found = self.found(place);
                let value = match self.read_large(key, found, 0..found.len)? {
                    Some(value) => Some(value),
                    None => self.get(key)?,
                };
                Ok(show(value.as_deref()))
            }
            _ => {
                self.note_miss(key);
                Ok(show(None))
            }
        }
    }

    /// Gives `to` the value of `from`, of whatever type, and this time to expire, without copying,
    /// if it is a large one; both may be the same key. False: it is not, or absent, and
    /// nothing was done but that `from` is locked. In a read-write transaction only.
    pub fn share_large(
        &mut self,
        from: &[u8],
        to: &[u8],
        expires_at: Option<u64>,
    ) -> Result<bool, Status> {
        if from.len() > abi::BPFDB_KEY_MAX as usize {
            return Err(Status::KeyTooLarge);
        }
        let is_new = self.is_about_to_be_new(to)?;
        self.note(to);
        let step = Step::new(abi::BPFDB_OP_LARGE_SHARE, from);
        let (status, place) = self.step(step)?;
        if status != Status::FoundLarge {
            return match status == Status::Found && self.is_form_large(place) {
                true => self.copy_cold(from, to, expires_at),
                false => Ok(false),
            };
        }
        let found = self.found_in_memory(place);
        match self.take_large(to, found.kind, found.len, expires_at) {
            Ok(()) => {
                self.note_set(to, expires_at, is_new);
                Ok(true)
            }
            // Not taken, perhaps: no other session would give it back.
            Err(status) => {
                self.step(Step::new(abi::BPFDB_OP_LARGE_WRITE, &[]))?;
                Err(status)
            }
        }
    }

    /// [`Session::share_large`] of a cold value: it is read and copied.
    fn copy_cold(
        &mut self,
        from: &[u8],
        to: &[u8],
        expires_at: Option<u64>,
    ) -> Result<bool, Status> {
        let found = self.read_part(&Operation::GetAnyForUpdate(from), |len| 0..len)?;
        let Some(PartRead { entry, kind }) = found else {
            return Ok(false);
        };
        self.set_typed(to, kind, &entry.value, expires_at)?;
        Ok(true)
    }

    /// Has what was found the form of a large value, be it cold or not?
    fn is_form_large(&self, place: Place) -> bool {
        // SAFETY: as in put().
        let form = unsafe { (&raw const (*self.request(place)).value_len).read_unaligned() };
        u64::from(form) & 1 << abi::BPFDB_FORM_LARGE_BIT != 0
    }

    /// The large value of `key`, of any type, with this id and length; `None` if the key has
    /// another one by now, or none. It does not count as a GET. Outside of transactions only.
    ///
    /// # Errors
    /// Also [`Status::Exhausted`], if a snapshot ended before the value was read: then nothing is
    /// known of it.
    pub(crate) fn large_value(
        &mut self,
        key: &[u8],
        id: u64,
        len: u64,
    ) -> Result<Option<Vec<u8>>, Status> {
        match self.copy_large(key, id, 0..len) {
            // The record is locked and released all the time. A snapshot's versions stay what they
            // are, whichever session locks.
            Err(Status::Exhausted) => {
                self.begin_read_only()?;
                let value = self.copy_large(key, id, 0..len);
                self.commit()?;
                value
            }
            value => value,
        }
    }

    /// Has the engine refuse a value beyond the limit, as any SET of one: that counts,
    /// and fails a transaction.
    pub fn refuse_value(&mut self) -> Status {
        let len = u64::from(abi::BPFDB_LARGE_MAX) + 1;
        match self.take_large(b"any", ValueType::STRING, len, None) {
            Err(status) => status,
            Ok(()) => Status::Corrupt,
        }
    }

    /// The value that `operation` finds: its part that `range` asks for when it is told how long
    /// all of it is.
    pub(super) fn read_part(
        &mut self,
        operation: &Operation<'_>,
        mut range: impl FnMut(u64) -> Range<u64>,
    ) -> Result<Option<PartRead>, Status> {
        if let Some(known) = self.read_kept(operation)? {
            return Ok(known.map(|known| part_of(known.entry, known.kind, &mut range)));
        }
        if let Some(known) = self.read_cache.find(operation) {
            // It keeps strings alone.
            return Ok(known.map(|entry| part_of(entry, ValueType::STRING, &mut range)));
        }
        for _ in 0..TRIES {
            if let Part::Read(found) = self.read_part_once(operation, &mut range)? {
                return Ok(found);
            }
        }
        self.read_part_by_snapshot(operation, &mut range)
    }

    /// The same once, in a snapshot, where the value stays what it is. Within a
    /// transaction, which has one or a lock, there is nothing more to try.
    fn read_part_by_snapshot(
        &mut self,
        operation: &Operation<'_>,
        range: &mut impl FnMut(u64) -> Range<u64>,
    ) -> Result<Option<PartRead>, Status> {
        if self.in_transaction() {
            return Err(Status::Exhausted);
        }
        self.begin_read_only()?;
        let mut part = self.read_part_once(operation, range);
        // It is the same version, but its value may become cold, or move to another file.
        for _ in 1..TRIES {
            if !matches!(part, Ok(Part::Replaced)) {
                break;
            }
            part = self.read_part_once(operation, range);
        }
        self.commit()?;
        match part? {
            Part::Read(found) => Ok(found),
            Part::Replaced => Err(Status::Exhausted),
        }
    }

    fn read_part_once(
        &mut self,
        operation: &Operation<'_>,
        range: &mut impl FnMut(u64) -> Range<u64>,
    ) -> Result<Part, Status> {
        let (status, place) = self.single_at(operation)?;
        let found = match status {
            Status::Found => {
                let part = part_of(self.entry_at(place), self.type_at(place), range);
                return Ok(Part::Read(Some(part)));
            }
            Status::FoundLarge => self.found(place),
            _ => {
                self.note_miss(operation.key());
                return Ok(Part::Read(None));
            }
        };
        let part = self.read_large(operation.key(), found, range(found.len))?;
        Ok(part.map_or(Part::Replaced, |value| {
            let expires_at = (found.expires != 0).then_some(found.expires);
            Part::Read(Some(PartRead {
                entry: Entry { value, expires_at },
                kind: found.kind,
            }))
        }))
    }

    /// Part of a large value; `None` if the key has another value by now, or if its record was
    /// written or locked during every attempt to copy it.
    fn read_large(
        &mut self,
        key: &[u8],
        found: Found,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Status> {
        if let Some(place) = found.cold {
            return self.read_cold(key, &found, place, range);
        }
        match self.copy_large(key, found.id, range.start..range.end.min(found.len)) {
            Err(Status::Exhausted) => Ok(None),
            part => part,
        }
    }

    /// The same, which tells the two cases apart: [`Status::Exhausted`] is the second one.
    fn copy_large(
        &mut self,
        key: &[u8],
        id: u64,
        Range { start: mut at, end }: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut value = Vec::with_capacity(end.saturating_sub(at) as usize);
        while at < end {
            let start = at & !(GRAIN - 1);
            // As many pieces as the buffer has places for: the first one may be begun in
            // the middle.
            let whole = PART as u64 - start % u64::from(abi::BPFDB_PIECE_SIZE);
            let room = (end - start).min(whole) as usize;
            let step = Step {
                room,
                large: id,
                offset: start,
                ..Step::new(abi::BPFDB_OP_LARGE_READ, key)
            };
            let (status, place) = self.step(step)?;
            if status != Status::Found {
                return Ok(None);
            }
            let skipped = (at - start) as usize;
            // SAFETY: the program wrote `room` bytes behind the key, all inside the
            // buffer: checked by put_step().
            let part = unsafe {
                let bytes = self.buffer.0.add(place.value());
                std::slice::from_raw_parts(bytes.add(skipped), room - skipped)
            };
            value.extend_from_slice(part);
            at = start + room as u64;
        }
        Ok(Some(value))
    }

    pub(super) fn set_large(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Status> {
        if value.len() > abi::BPFDB_LARGE_MAX as usize || key.len() > self.database().key_max() {
            // The operator says what is wrong with it.
            return self.take_large(key, kind, value.len() as u64, expires_at);
        }
        self.make_room_for(value.len() as u64)?;
        self.flush()?;
        let patient = !self.in_transaction();
        for attempt in 0.. {
            let built = self.build(value);
            let outcome = match built {
                Ok(()) => self.take_large(key, kind, value.len() as u64, expires_at),
                Err(status) => Err(status),
            };
            // What SET did not take is gone, or gives way to the next.
            match outcome {
                Err(Status::MemoryPending)
                    if patient && attempt < PENDING_TRIES && self.await_memory() => {}
                Err(Status::LogFull)
                    if patient && attempt < LOG_TRIES && self.await_room(Status::LogFull) => {}
                // Recovery's, as in load.rs.
                Err(Status::IndexCrowded)
                    if self.is_unlogged() && attempt < PENDING_TRIES && self.split_anyway() => {}
                Err(status) => {
                    self.step(Step::new(abi::BPFDB_OP_LARGE_WRITE, &[]))?;
                    return Err(status);
                }
                Ok(()) => return Ok(()),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// What a value takes that needs whole pages. A caller that never waits gets an Error and comes again,
    /// before anything was done.
    fn make_room_for(&mut self, bytes: u64) -> Result<(), Status> {
        if bytes < u64::from(abi::BPFDB_PAGE_SIZE) {
            return Ok(());
        }
        match &mut self.room_requests {
            // The owner does it by itself when memory is short.
            Some(_) if !self.engine.is_owned() => {}
            Some(requests) => {
                return requests.make_room_for(&self.engine.inner.memory, self.index, bytes);
            }
            None => self.engine.make_room_for(bytes),
        }
        Ok(())
    }

    /// For tests: begins a value of `len` bytes by its first part, and goes no further.
    #[doc(hidden)]
    pub fn begin_large(&mut self, part: &[u8], len: u64) {
        let step = Step {
            bytes: part,
            large: len,
            ..Step::new(abi::BPFDB_OP_LARGE_WRITE, &[])
        };
        self.step(step).expect("there is memory");
    }

    fn build(&mut self, value: &[u8]) -> Result<(), Status> {
        for (number, part) in value.chunks(PART).enumerate() {
            self.step(Step {
                bytes: part,
                large: value.len() as u64,
                offset: (number * PART) as u64,
                ..Step::new(abi::BPFDB_OP_LARGE_WRITE, &[])
            })?;
        }
        Ok(())
    }

    /// SET of the value that was built, or shared, of this length.
    fn take_large(
        &mut self,
        key: &[u8],
        kind: ValueType,
        len: u64,
        expires_at: Option<u64>,
    ) -> Result<(), Status> {
        self.kept.forget(key);
        self.flush()?;
        self.read_cache.forget(key);
        // Not patient: after an Error the value is gone.
        self.patiently(false, |session| {
            let operation = Operation::SetTyped(key, kind, &[], expires_at);
            let place = session.put(0, &operation, 0, 0)?;
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            // SAFETY: the request was written by put().
            unsafe { (&raw mut (*session.request(place)).value_len).write_unaligned(len) };
            Ok(place)
        })?;
        self.writes += 1;
        Ok(())
    }

    /// Executes one step. It may wait for memory in a transaction too: nothing has
    /// failed by then.
    pub(super) fn step(&mut self, step: Step<'_>) -> Result<(Status, Place), Status> {
        self.flush()?;
        self.patiently(true, |session| Ok(session.put_step(&step)))
    }

    pub(super) fn put_step(&mut self, step: &Step<'_>) -> Place {
        self.put_step_at(0, step)
    }

    /// The same from byte `at` of the buffer on.
    pub(super) fn put_step_at(&mut self, at: usize, step: &Step<'_>) -> Place {
        let (prefix, prefix_len) = self.key_prefix(step.key);
        let prefix = &prefix[..prefix_len];
        let key_len = prefix.len() + step.key.len();
        let place = Place {
            at,
            key: key_len,
            room: step.room.max(step.bytes.len()),
            reads: step.room > 0,
        };
        assert!(
            place.end() <= crate::engine::IO_STRIDE,
            "a step fits the buffer"
        );
        let request = abi::bpfdb_request {
            operation: step.operation,
            status: Status::BadRequest.code(),
            key_len: key_len as u32,
            value_len: step.bytes.len() as u32,
            next: 0,
            value_room: step.room as u32,
            expires: 0,
            large: step.large,
            offset: step.offset,
        };
        // SAFETY: all of it is inside the buffer and its pad: checked above.
        unsafe {
            let start = self.buffer.0.add(at);
            start.cast::<abi::bpfdb_request>().write_unaligned(request);
            ptr::copy_nonoverlapping(prefix.as_ptr(), start.add(HEADER), prefix.len());
            let key_at = start.add(HEADER + prefix.len());
            ptr::copy_nonoverlapping(step.key.as_ptr(), key_at, step.key.len());
            ptr::copy_nonoverlapping(
                step.bytes.as_ptr(),
                self.buffer.0.add(place.value()),
                step.bytes.len(),
            );
        }
        place
    }

    pub(super) fn found(&self, place: Place) -> Found {
        // SAFETY: the program wrote it where the value would be, for which there is room.
        let cold = unsafe {
            let start = self.buffer.0.add(place.value());
            start.cast::<abi::bpfdb_place>().read_unaligned()
        };
        Found {
            cold: ColdPlace::of(cold),
            ..self.found_in_memory(place)
        }
    }

    fn found_in_memory(&self, place: Place) -> Found {
        // SAFETY: as in put().
        let request = unsafe { self.request(place).read_unaligned() };
        Found {
            cold: None,
            kind: ValueType::of_form(request.value_len.into()),
            id: request.large,
            len: request.offset,
            expires: request.expires,
        }
    }
}

impl From<Entry> for Head {
    fn from(entry: Entry) -> Self {
        Self {
            len: entry.value.len() as u64,
            value_type: ValueType::STRING,
            expires_at: entry.expires_at,
            value: Some(entry.value),
        }
    }
}

impl<'a> Step<'a> {
    pub(super) fn new(operation: u32, key: &'a [u8]) -> Self {
        Self {
            operation,
            key,
            bytes: &[],
            room: 0,
            large: 0,
            offset: 0,
        }
    }
}

/// The part of a value that is asked for.
fn part_of(
    mut entry: Entry,
    kind: ValueType,
    range: &mut impl FnMut(u64) -> Range<u64>,
) -> PartRead {
    let len = entry.value.len() as u64;
    cut(&mut entry.value, range(len));
    PartRead { entry, kind }
}

/// What of `value` is in the range.
pub(super) fn cut(value: &mut Vec<u8>, range: Range<u64>) {
    value.truncate((range.end.min(value.len() as u64)) as usize);
    value.drain(..(range.start.min(value.len() as u64)) as usize);
}
