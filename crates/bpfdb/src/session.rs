//! A session of user space: operators through `BPF_PROG_RUN`, one by one or
//! in batches.

mod batch;
mod changes;
mod cold;
mod deferred;
mod foreign;
mod kept;
mod large;
mod load;
mod moment;
mod operation;
mod overdue;
mod read_cache;
mod requests;
mod room_requests;
mod settle;
mod submit;
mod transaction;
mod values;
mod walk;
mod written;

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::cold::ColdRead;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::{Database, Status, ValueType, abi};

pub use batch::Batch;
pub use changes::{Change, ChangeNotes};
use deferred::Deferred;
use kept::Kept;
pub use operation::Operation;
use overdue::Overdue;
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

    /// Executes operators in the session `index`, which another user opened:
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
    overdue: Option<Overdue>,
    read_cache: ReadCache,
    kept: Kept,
    room_requests: Option<RoomRequests>,
    database: Database,
    /// See [`Session::allow_empty_keys`].
    has_empty_keys: bool,
    writes: u64,
    notes_written: bool,
    written: WrittenKeys,
    change_notes: ChangeNotes,
    changes: Vec<Change>,
    /// Cold values that it reads stay where they are.
    keeps_cold: bool,
    /// See [`Session::leave_cold`].
    leaves_cold: bool,
    has_left_cold: bool,
    /// Reads of cold values that it has begun since.
    cold_reads: Vec<Arc<dyn ColdRead>>,
    /// See [`Session::take_reads`].
    reads: Reads,
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

    /// That of a key in which a read-only transaction with this snapshot ([`Session::snapshot`]) has found a
    /// value, or none: it holds until the key is written after that.
    pub fn of_snapshot(snapshot: u64, present: bool) -> Self {
        Self {
            snapshot,
            changed: 0,
            present,
        }
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
            overdue: None,
            read_cache: ReadCache::default(),
            kept: Kept::default(),
            room_requests: None,
            database: Database::default(),
            has_empty_keys: false,
            writes: 0,
            notes_written: false,
            written: WrittenKeys::default(),
            change_notes: ChangeNotes::default(),
            changes: Vec::new(),
            keeps_cold: false,
            leaves_cold: false,
            has_left_cold: false,
            cold_reads: Vec::new(),
            reads: Reads::default(),
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
            debug_assert!(!self.kept.is_on(), "a transaction is ended first");
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

    /// Does `work`, in which the session may write the indexes of ordered tables, and make rows come and go.
    /// What waits when it ends is executed without that.
    /// `how`: `BPFDB_INDEX_GROWS` or `BPFDB_INDEX_SHRINKS`.
    pub(crate) fn keeping_index<T>(&mut self, how: u32, work: impl FnOnce(&mut Self) -> T) -> T {
        self.set_keeps_index(how);
        let result = work(self);
        self.set_keeps_index(abi::BPFDB_INDEX_LEFT_ALONE);
        result
    }

    /// Bytes that the log may still take of what the open transaction writes, keys and some tens of bytes for each
    /// write included; without a transaction, of one that begins. What waits to be executed is not counted.
    /// `None`: there is no log.
    pub fn log_room(&self) -> Option<u64> {
        let ring = self.engine.config().log_ring;
        // SAFETY: as above.
        let written = unsafe { (&raw const (*self.own_state()).log_bytes).read_volatile() };
        let share = ring / abi::BPFDB_LOG_SHARE;
        (ring > 0 && !self.is_unlogged()).then(|| share.saturating_sub(written).into())
    }

    fn set_keeps_index(&mut self, how: u32) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.own_state()).keeps_index).write_volatile(how) };
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
        // No operation of another session does it.
        let _ = self.catch_up();
        self.overdue = None;
        self.read_cache.clear();
        self.kept.clear();
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
        // First what is inside: when it leaves, the state is what it will be.
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

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The session's state in the kernel. Others change it at any time.
    pub(crate) fn own_state(&self) -> *mut abi::bpfdb_session {
        self.engine.inner.sessions.at(self.index as usize)
    }

    pub(crate) fn in_transaction(&self) -> bool {
        !matches!(
            self.state_in_engine(),
            abi::BPFDB_TXN_NONE | abi::BPFDB_TXN_FINISHING
        )
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
