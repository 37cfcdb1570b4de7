//! A session of user space: operators through `BPF_PROG_RUN`, one by one or
//! in batches.

mod batch;
mod changes;
mod deferred;
mod foreign;
mod large;
mod load;
mod operation;
mod read_cache;
mod room_requests;
mod settle;
mod submit;
mod walk;
mod written;

use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::thread;

use crate::engine::{Engine, LOG_PAUSE};
use crate::error::{Error, Result};
use crate::{Database, Status, ValueType, abi};

pub use batch::Batch;
pub use changes::{Change, ChangeNotes};
use deferred::Deferred;
pub use operation::Operation;
use operation::Place;
use read_cache::ReadCache;
pub use read_cache::Reads;
use room_requests::RoomRequests;
pub use written::WrittenKeys;

const KEY_PREFIX: usize = abi::BPFDB_KEYSPACE_PREFIX as usize;
const HEADER: usize = size_of::<abi::bpfdb_request>();
const ROOM: usize = abi::BPFDB_IO_SIZE as usize;
/// Attempts of an operation while memory is being added.
const PENDING_TRIES: u32 = abi::BPFDB_MEMORY_TRIES;
/// The same while the log has no room.
const LOG_TRIES: u32 = abi::BPFDB_LOG_TRIES;
const VALUE_MAX: usize = abi::BPFDB_VALUE_MAX as usize;
/// The bits of a length that GET tells which are no type.
const LENGTH_MASK: usize = abi::BPFDB_FORM_LENGTH_MASK as usize;

impl Engine {
    /// Opens a session of user space.
    pub fn session(&self) -> Result<Session> {
        Session::open(self)
    }

    /// Executes operators in the session `index`, which somebody else opened:
    /// the connections that a daemon serves. Close it where it was opened.
    pub fn borrow_session(&self, index: u32) -> Result<Session> {
        Session::borrow(self, index)
    }
}

/// One client of the engine: at most one transaction at a time. A transaction
/// that is open when the session is dropped is rolled back.
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    index: u32,
    io: u32,
    owned: bool,
    buffer: Buffer,
    deferred: Deferred,
    read_cache: ReadCache,
    room_requests: Option<RoomRequests>,
    database: Database,
    /// See [`Session::allow_empty_keys`].
    has_empty_keys: bool,
    writes: u64,
    notes_written: bool,
    written: WrittenKeys,
    change_notes: ChangeNotes,
    changes: Vec<Change>,
}

/// The session's io buffer, mapped from the kernel.
#[derive(Debug)]
struct Buffer(*mut u8);

// SAFETY: the buffer belongs to one session and outlives it (the session holds
// the engine, which holds the mapping).
unsafe impl Send for Buffer {}

/// A value and when it expires: UNIX time, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: Vec<u8>,
    pub expires_at: Option<u64>,
}

/// A value as far as it can be told without reading much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes.
    pub len: u64,
    pub value_type: ValueType,
    /// UNIX time, milliseconds.
    pub expires_at: Option<u64>,
    /// The value itself; `None` if it is a large one (more than `BPFDB_VALUE_MAX`).
    pub value: Option<Vec<u8>>,
}

/// Tells whether a key was written. See [`Session::watch`].
#[derive(Clone, Copy, Debug)]
pub struct WatchToken {
    snapshot: u64,
    changed: u64,
    present: bool,
}

impl WatchToken {
    /// Is the key, of which `now` was taken in a transaction that holds a lock on
    /// it, as it was when this token was taken? False if it was written, be it
    /// with the same value, or has expired.
    pub fn still_holds(&self, now: &Self) -> bool {
        now.changed <= self.snapshot && now.present == self.present
    }

    /// Had the key a value?
    pub fn is_present(&self) -> bool {
        self.present
    }
}

impl Session {
    pub(crate) fn open(engine: &Engine) -> Result<Self> {
        let mut session = Self::borrow(engine, 0)?;
        session.index = engine
            .open_session()?
            .ok_or(Error::Engine(Status::NoSession))?;
        session.owned = true;
        Ok(session)
    }

    pub(crate) fn borrow(engine: &Engine, index: u32) -> Result<Self> {
        let io = engine.take_io().ok_or(Error::Engine(Status::NoSession))?;
        let buffer = Buffer(engine.inner.io.at(io as usize).cast());
        Ok(Self {
            engine: engine.clone(),
            index,
            io,
            owned: false,
            buffer,
            deferred: Deferred::default(),
            read_cache: ReadCache::default(),
            room_requests: None,
            database: Database::default(),
            has_empty_keys: false,
            writes: 0,
            notes_written: false,
            written: WrittenKeys::default(),
            change_notes: ChangeNotes::default(),
            changes: Vec::new(),
        })
    }

    /// The Redis database whose keys operations name; at first 0. Operations also take stored keys of
    /// any other keyspace ([`Keyspace::key`](crate::Keyspace::key)), and scans find stored keys.
    pub fn database(&self) -> Database {
        self.database
    }

    /// Goes over to another database, also within a transaction.
    pub fn set_database(&mut self, database: Database) {
        if self.database != database {
            // It knows keys by their names in the database before.
            self.read_cache.clear();
            self.database = database;
        }
    }

    /// What stands in front of this key in the engine.
    fn key_prefix(&self, key: &[u8]) -> ([u8; KEY_PREFIX], usize) {
        let keyspace = self.database.keyspace_of(key);
        match keyspace.filter(|_| self.has_empty_keys || !key.is_empty()) {
            Some(keyspace) => (keyspace.prefix(), KEY_PREFIX),
            None => ([0; KEY_PREFIX], 0),
        }
    }

    /// From now on the empty key is a key of each database, as in Redis. For embedded programs, and for
    /// sessions without this call, it is [`Status::KeyTooLarge`].
    pub fn allow_empty_keys(&mut self) {
        self.has_empty_keys = true;
    }

    /// From now on operators never wait for memory, neither by sleeping nor for a grace
    /// period: they ask the memory thread for what is missing, and return
    /// [`Status::MemoryPending`]. The caller serves others and tries again, a millisecond
    /// later for instance; inside a transaction, unless that failed. For threads that
    /// must not wait, as the loop of a server.
    pub fn never_wait(&mut self) {
        self.room_requests = Some(RoomRequests::default());
    }

    fn may_wait(&self) -> bool {
        self.room_requests.is_none()
    }

    /// What this session writes from now on leaves nothing in the log, since it was read
    /// from there: for recovery, before anybody else uses the engine.
    pub fn write_unlogged(&mut self) {
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        unsafe { (&raw mut (*self.own_state()).unlogged).write_volatile(1) };
    }

    fn is_unlogged(&self) -> bool {
        // SAFETY: as above.
        unsafe { (&raw const (*self.own_state()).unlogged).read_volatile() != 0 }
    }

    /// Whether [`Session::depends`] is kept up to date, which takes another look-up for each
    /// operation. Not in an engine without a log.
    pub fn keep_depends(&mut self, keep: bool) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.own_state()).keeps_depends).write_volatile(keep.into()) };
    }

    /// The latest commit that operations of this session have told of since it keeps that:
    /// its timestamp. They told of nothing that is not durable if [`Log`](crate::Log) says
    /// that an epoch is which is not earlier. What [`crate::Scan`] and figures of the engine
    /// tell does not count: for these there is [`Engine::now`].
    pub fn depends(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.own_state()).depends).read_volatile() }
    }

    /// Writes that succeeded through this handle, in whatever session, those that wait included; but none
    /// of a [`Batch`]. So one sees whether what has failed had written before.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The `meta` of the record that an ACCESS has found.
    pub(crate) fn read_access(&mut self, operation: &Operation<'_>) -> Result<Option<u64>, Status> {
        let (status, place) = self.single_at(operation)?;
        // SAFETY: as in link().
        let meta = unsafe { (&raw const (*self.request(place)).offset).read_unaligned() };
        Ok((status == Status::Found).then_some(meta))
    }

    /// Whether its look-ups count as accesses ([`crate::Tracking`]); at first they do.
    pub fn set_untracked(&mut self, untracked: bool) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.own_state()).untracked).write_volatile(untracked.into()) };
    }

    /// Does `work` with look-ups that count as accesses, or do not, whatever they do else.
    pub fn tracked<T>(&mut self, tracked: bool, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.is_untracked();
        self.set_untracked(!tracked);
        let result = work(self);
        self.set_untracked(before);
        result
    }

    pub fn is_untracked(&self) -> bool {
        // SAFETY: as above.
        unsafe { (&raw const (*self.own_state()).untracked).read_volatile() != 0 }
    }

    /// [`Status::MemoryPending`] does not fail the transaction that was just begun: the caller tries
    /// each operation again, or ends the transaction.
    pub fn be_patient(&mut self) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.own_state()).patient).write_volatile(1) };
    }

    /// Number of the session in the engine.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Directs a borrowed session's operators at another session.
    pub fn redirect(&mut self, index: u32) {
        debug_assert!(!self.owned, "an owned session stays what it is");
        debug_assert!(!self.deferred.is_open(), "a transaction is ended first");
        // Whatever went wrong: it is not this session's.
        self.deferred.forget();
        self.read_cache.clear();
        self.index = index;
    }

    /// What transaction the session has now: a `BPFDB_TXN_` constant.
    pub fn state(&self) -> u32 {
        self.deferred
            .begins()
            .unwrap_or_else(|| self.state_in_engine())
    }

    /// The same, but for a BEGIN that waits. Asked before every operation, so not with
    /// a copy of the session.
    fn state_in_engine(&self) -> u32 {
        // First who is inside: when he leaves, the state is what it will be.
        if self.is_undone_by_reaper() {
            return abi::BPFDB_TXN_NONE;
        }
        fence(Ordering::Acquire);
        let session = self.own_state();
        // SAFETY: points into the mapping of the sessions.
        u32::from(unsafe { (&raw const (*session).state).read_volatile() })
    }

    /// A procedure could not end its transaction, because the reaper was in the session and had
    /// no processor. He rolls it back; until then every operator says `SESSION_BUSY`.
    fn is_undone_by_reaper(&self) -> bool {
        let session = self.own_state();
        // SAFETY: points into the mapping of the sessions.
        let busy = unsafe { (&raw const (*session).busy).read_volatile() };
        busy == abi::BPFDB_BUSY_UNDO
    }

    /// Timestamp of the read-only transaction that is open, or was last: it sees the commits
    /// up to that.
    pub fn snapshot(&self) -> u64 {
        let session = self.own_state();
        // SAFETY: points into the mapping of the sessions.
        unsafe { (&raw const (*session).snapshot).read_volatile() }
    }

    pub fn begin(&mut self) -> Result<(), Status> {
        self.single(&Operation::Begin).map(drop)
    }

    pub fn begin_read_only(&mut self) -> Result<(), Status> {
        self.single(&Operation::BeginReadOnly).map(drop)
    }

    /// Begins a transaction with the next operation that has a result. Until
    /// [`Session::commit`] or [`Session::rollback`], one of which must follow,
    /// [`Session::set`] and [`Session::set_entry`] wait as well: they succeed, and
    /// their Error is that of the operation that is executed next. After an Error
    /// of `commit` the transaction is rolled back.
    pub fn begin_deferred(&mut self) -> Result<(), Status> {
        self.deferred.open(abi::BPFDB_TXN_WRITE);
        self.later(&Operation::Begin)
    }

    /// The same for a read-only transaction.
    pub fn begin_read_only_deferred(&mut self) -> Result<(), Status> {
        self.deferred.open(abi::BPFDB_TXN_READ);
        self.later(&Operation::BeginReadOnly)
    }

    /// The value of `key`, or `None`.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.read(&Operation::Get(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.read(&Operation::GetForUpdate(key))
    }

    /// The value of `key` and when it expires, or `None`.
    pub fn entry(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::Get(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn entry_for_update(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::GetForUpdate(key))
    }

    /// Sets a value that never expires.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Status> {
        self.set_entry(key, value, None)
    }

    /// Sets a value that is there until `expires_at` (milliseconds of UNIX
    /// time), or for ever. A time that is over deletes the key.
    pub fn set_entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Status> {
        let is_new = self.is_about_to_be_new(key)?;
        self.note(key);
        if value.len() > VALUE_MAX {
            self.set_large(key, ValueType::STRING, value, expires_at)?;
        } else {
            let operation = Operation::SetEntry(key, value, expires_at);
            self.read_cache.wrote(key, Some((value, expires_at)));
            self.write(&operation)?;
        }
        self.note_set(key, expires_at, is_new);
        Ok(())
    }

    fn write(&mut self, operation: &Operation<'_>) -> Result<(), Status> {
        if self.deferred.is_open() {
            self.later(operation)?;
        } else {
            self.single(operation)?;
        }
        self.writes += 1;
        Ok(())
    }

    /// The value of `key`, of any type, and when it expires, or `None`.
    pub fn entry_of_any_type(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::GetAny(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn entry_of_any_type_for_update(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::GetAnyForUpdate(key))
    }

    /// The value of `key`, of any type, with its type.
    pub fn typed_entry(&mut self, key: &[u8]) -> Result<Option<(ValueType, Entry)>, Status> {
        let found = self.read_part(&Operation::GetAny(key), |len| 0..len)?;
        Ok(found.map(|part| (part.kind, part.entry)))
    }

    /// Sets a value of a type, as [`Session::set_entry`]. One that is no string has bytes: else
    /// [`Status::BadRequest`].
    pub fn set_typed(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Status> {
        if kind == ValueType::STRING {
            return self.set_entry(key, value, expires_at);
        }
        if value.is_empty() {
            return Err(Status::BadRequest);
        }
        let is_new = self.is_about_to_be_new(key)?;
        self.note(key);
        if value.len() > VALUE_MAX {
            self.set_large(key, kind, value, expires_at)?;
        } else {
            self.read_cache.forget(key);
            self.write(&Operation::SetTyped(key, kind, value, expires_at))?;
        }
        self.note_set(key, expires_at, is_new);
        Ok(())
    }

    /// Whether there was a value to delete.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Status> {
        let was_there = self.delete_value(key)?;
        if was_there {
            self.note_deleted(key);
        }
        Ok(was_there)
    }

    fn delete_value(&mut self, key: &[u8]) -> Result<bool, Status> {
        self.note(key);
        let known = self.read_cache.presence(key);
        self.read_cache.wrote(key, None);
        if let Some(present) = known
            && self.deferred.is_open()
        {
            self.write(&Operation::Delete(key))?;
            return Ok(present);
        }
        let status = self.single(&Operation::Delete(key))?;
        self.writes += 1;
        Ok(status == Status::Found)
    }

    /// Commits. [`Status::RolledBack`] if an earlier Error had failed the
    /// transaction; [`Status::LogFull`] if the log had no room for it, also after some time;
    /// [`Status::LogClosed`] if the engine is read-only. Each time it is over.
    pub fn commit(&mut self) -> Result<(), Status> {
        let mut outcome = self.try_commit();
        for _ in 0..LOG_TRIES {
            if outcome != Err(Status::LogFull) || !self.await_room(Status::LogFull) {
                break;
            }
            outcome = self.try_commit();
        }
        if outcome.is_err_and(Status::is_refused_by_log) {
            self.rollback()?;
        }
        outcome
    }

    /// The same, but the transaction stays open after [`Status::LogFull`] and
    /// [`Status::LogClosed`], and nobody waits.
    pub fn try_commit(&mut self) -> Result<(), Status> {
        let waited = self.deferred.is_open();
        let known = self.deferred.close();
        if !known && self.deferred.len() <= 1 {
            // Nothing but BEGIN.
            let refused = self.deferred.refused();
            self.deferred.forget();
            return refused;
        }
        self.read_cache.clear();
        let outcome = self.single(&Operation::Commit).map(drop);
        self.settle_all();
        // What waited has failed, and COMMIT was not executed.
        if outcome.is_err_and(|status| waited && !status.is_refused_by_log()) {
            self.deferred.forget();
            if self.in_transaction() {
                self.single(&Operation::Rollback)?;
            }
        }
        if outcome.is_err_and(|status| !status.is_refused_by_log()) {
            self.note_rollback();
        }
        outcome
    }

    pub fn rollback(&mut self) -> Result<(), Status> {
        self.note_rollback();
        let known = self.deferred.close();
        self.deferred.forget();
        self.read_cache.clear();
        if known {
            self.end_by_rollback()
        } else {
            Ok(())
        }
    }

    /// Executes what waits, and lets nothing wait from now on: the transaction stays
    /// open, and the handle may be used for others until [`Session::resume`]. After an
    /// Error [`Session::rollback`] must follow.
    pub fn suspend(&mut self) -> Result<(), Status> {
        self.flush()?;
        self.read_cache.clear();
        self.deferred.close();
        Ok(())
    }

    /// The open transaction is used, although it executes no operation just now: it has not been idle
    /// ([`Options::idle_limit`](crate::Options::idle_limit)).
    pub fn touch(&mut self) {
        let now = self.engine.inner.memory.coarse_now();
        // SAFETY: points into the mapping of the sessions. The kernel reads the time whole, and looks at it
        // again when it has the session.
        unsafe { (&raw mut (*self.own_state()).last_active).write_volatile(now) };
    }

    /// Goes on with the open transaction that was suspended: operations may wait again.
    pub fn resume(&mut self) {
        self.deferred.reopen();
    }

    /// Executes what waits; its Error, if there is one.
    pub fn flush(&mut self) -> Result<(), Status> {
        self.deferred.refused()?;
        if self.deferred.len() == 0 {
            return Ok(());
        }
        self.submit().map_err(|_| Status::BadRequest)?;
        self.waited()
    }

    /// A token for `key`, by which one can tell later whether it was written.
    ///
    /// Take tokens without a transaction, and others in a read-write transaction
    /// when the key is locked by [`Session::get`] or [`Session::get_for_update`]
    /// and not written yet. If each of the former [still holds](
    /// WatchToken::still_holds), what was read between is what the transaction would
    /// have read: with its commands it is serializable. Else roll back. In a
    /// read-only transaction no lock is needed: the tokens then say whether the keys
    /// are as they were up to its snapshot.
    ///
    /// Locks in vain, splits and the removal of expired records do not matter. Of a
    /// key that is absent it may seem that it was written when another one with
    /// the same place in a table of 65,536 was deleted or has expired.
    pub fn watch(&mut self, key: &[u8]) -> Result<WatchToken, Status> {
        let (_, place) = self.single_at(&Operation::Watch(key))?;
        Ok(self.token_at(place))
    }

    fn read(&mut self, operation: &Operation<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(self.read_entry(operation)?.map(|entry| entry.value))
    }

    fn read_entry(&mut self, operation: &Operation<'_>) -> Result<Option<Entry>, Status> {
        self.read_part(operation, |len| 0..len)
            .map(|found| found.map(|part| part.entry))
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The session's state in the kernel. Others change it at any time.
    pub(crate) fn own_state(&self) -> *mut abi::bpfdb_session {
        self.engine.inner.sessions.at(self.index as usize)
    }

    /// Executes one operation that fails no transaction.
    pub(crate) fn run_one(&mut self, operation: &Operation<'_>) -> Result<Status, Status> {
        self.single(operation)
    }

    /// Executes one operation; its outcome, an Error as `Err`. When memory is
    /// still being added, adds it and tries again.
    fn single(&mut self, operation: &Operation<'_>) -> Result<Status, Status> {
        self.single_at(operation).map(|(status, _)| status)
    }

    fn single_at(&mut self, operation: &Operation<'_>) -> Result<(Status, Place), Status> {
        // Inside a transaction the Error has failed it: no use to try again.
        let patient = !self.in_transaction() && !self.deferred.is_open();
        self.patiently(patient, |session| {
            session.append(operation, operation.room(VALUE_MAX), 0)
        })
    }

    /// Executes what `put` writes into the buffer, and again while memory is being
    /// added.
    fn patiently(
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
    fn await_room(&self, status: Status) -> bool {
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
    fn await_memory(&self) -> bool {
        if !self.may_wait() {
            self.engine.ask_for_memory();
            return false;
        }
        self.engine.await_memory();
        true
    }

    /// Leaves an operation to be executed with the next one.
    fn later(&mut self, operation: &Operation<'_>) -> Result<(), Status> {
        let place = self.append(operation, 0, abi::BPFDB_OR_STOP)?;
        self.deferred.push(place);
        Ok(())
    }

    /// Puts a request behind what waits; if there is no room, that is executed first.
    fn append(
        &mut self,
        operation: &Operation<'_>,
        room: usize,
        flags: u32,
    ) -> Result<Place, Status> {
        self.deferred.refused()?;
        // The last one of a batch is to be the one with a result.
        if self.deferred.len() + 1 >= abi::BPFDB_BATCH_MAX as usize {
            self.flush()?;
        }
        let end = self.deferred.end();
        let place = match self.put(end, operation, room, flags) {
            Err(_) if end != 0 => {
                self.flush()?;
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
    fn waited(&mut self) -> Result<(), Status> {
        let mut waiting = std::mem::take(&mut self.deferred);
        let outcome = waiting.sent(|place| self.status(place));
        self.deferred = waiting;
        outcome
    }

    pub(crate) fn in_transaction(&self) -> bool {
        !matches!(
            self.state_in_engine(),
            abi::BPFDB_TXN_NONE | abi::BPFDB_TXN_FINISHING
        )
    }

    /// Writes a request, the last one of its batch as yet.
    fn put(
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
    fn link(&mut self, place: Place, next: u32) {
        // SAFETY: `place` was written by put().
        unsafe { (&raw mut (*self.request(place)).next).write_unaligned(next) };
    }

    fn request(&self, place: Place) -> *mut abi::bpfdb_request {
        // SAFETY: `place` was checked by put().
        unsafe { self.buffer.0.add(place.at).cast() }
    }

    fn status(&self, place: Place) -> Status {
        // SAFETY: as in link().
        let code = unsafe { (&raw const (*self.request(place)).status).read_unaligned() };
        Status::from_code(code).unwrap_or(Status::Corrupt)
    }

    fn set_status(&mut self, place: Place, status: Status) {
        let request = self.request(place);
        // SAFETY: as in link().
        unsafe { (&raw mut (*request).status).write_unaligned(status.code()) };
    }

    fn entry_at(&self, place: Place) -> Entry {
        Entry {
            value: self.value_of(place),
            expires_at: self.found_at(place).1,
        }
    }

    /// The length of a value that was found, be there room for it or not, bytes, and
    /// when it expires.
    fn found_at(&self, place: Place) -> (usize, Option<u64>) {
        // SAFETY: as in link().
        let request = unsafe { self.request(place).read_unaligned() };
        let expires = request.expires;
        (
            request.value_len as usize & LENGTH_MASK,
            (expires != 0).then_some(expires),
        )
    }

    fn token_at(&self, place: Place) -> WatchToken {
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

    fn value_of(&self, place: Place) -> Vec<u8> {
        self.value_at(place).to_vec()
    }

    /// A value in the buffer: there until the next operation.
    fn value_at(&self, place: Place) -> &[u8] {
        // SAFETY: the program wrote at most `room` bytes behind the key.
        unsafe {
            let len = (&raw const (*self.request(place)).value_len).read_unaligned() as usize;
            let start = self.buffer.0.add(place.value());
            std::slice::from_raw_parts(start, (len & LENGTH_MASK).min(place.room))
        }
    }

    /// The type of a value that was found.
    fn type_at(&self, place: Place) -> ValueType {
        // SAFETY: as in link().
        let form = unsafe { (&raw const (*self.request(place)).value_len).read_unaligned() };
        ValueType::of_form(form.into())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.owned
            && let Err(error) = self.engine.close_session(self.index)
        {
            tracing::error!(%error, session = self.index, "cannot close a session");
        }
        self.engine.give_io(self.io);
    }
}
