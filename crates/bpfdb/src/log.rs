//! The rings of the log, as the writer of the log sees them: `bpf/log/ring.bpf.h`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::error::{Error, Result, system};
use crate::mapped::Mapped;
use crate::maps::{LOG_RINGS, LOG_STATE, pinned_log, ring_stride};
use crate::{Status, ValueType, abi};

const GRAIN: usize = abi::BPFDB_LOG_GRAIN as usize;
const RECORD_GRAIN: u64 = abi::BPFDB_LOG_RECORD_GRAIN as u64;
/// Bytes of the shortest write: one that deletes a short key.
const WRITE_MIN: u64 = (size_of::<abi::bpfdb_log_write>() + GRAIN) as u64;

/// The rings in which programs leave what they commit. One thread of the engine's owner
/// takes the records out, writes them to a disk, and gives their room back.
///
/// To make everything durable that was committed until now: [`Log::close_epoch`], then for
/// each ring all records up to [`Log::reserved`], then flush. All commits with a timestamp up
/// to the epoch are among them (`docs/decisions/0018-log.md`).
#[derive(Debug)]
pub struct Log {
    engine: Engine,
    state: Mapped<abi::bpfdb_log_ring>,
    rings: Mapped<u8>,
    ring: u64,
    secrets: abi::bpfdb_log_secrets,
    /// The buffer for large values.
    io: u32,
}

impl Engine {
    /// The rings of the log, for the one thread that writes them out; `None` if the engine
    /// was made without. Takes one of the buffers of `user_sessions`.
    ///
    /// # Errors
    /// [`crate::Error::Attached`]; or the rings cannot be mapped.
    pub fn log(&self) -> Result<Option<Log>> {
        self.owned("write the log")?;
        if self.config().log_ring == 0 {
            return Ok(None);
        }
        Log::new(self).map(Some)
    }

    /// No commit that is decided has a later timestamp.
    pub fn now(&self) -> u64 {
        clock(self).load(Ordering::SeqCst)
    }

    /// Do its commits leave something for a writer of the log?
    pub fn has_log(&self) -> bool {
        self.config().log_ring > 0
    }

    /// All commits up to this timestamp are on the disk; 0 without a log. To be asked by any
    /// process that has the engine, be it the owner or attached.
    pub fn durable(&self) -> u64 {
        durable(self).load(Ordering::SeqCst)
    }

    /// Waits until all commits up to this timestamp are on the disk: that of
    /// [`Session::depends`](crate::Session::depends), or of [`Engine::now`], which has all
    /// that were made before. A millisecond at least, and up to the exposure that the writer of the
    /// log has been notified, if it does not write at once for another caller.
    ///
    /// False: they are not when `patience` is over. Then there is no log, or its writer is away,
    /// held up by the disk, or has failed.
    pub fn await_durable(&self, timestamp: u64, patience: Duration) -> bool {
        let begun = Instant::now();
        while self.durable() < timestamp {
            if begun.elapsed() >= patience {
                return false;
            }
            thread::sleep(DURABLE_PAUSE);
        }
        true
    }
}

/// Between two looks at what is durable.
const DURABLE_PAUSE: Duration = Duration::from_millis(1);

fn durable(engine: &Engine) -> &AtomicU64 {
    // SAFETY: as below.
    unsafe { AtomicU64::from_ptr(&raw mut (*engine.inner.memory.state_pointer()).durable.value) }
}

fn clock(engine: &Engine) -> &AtomicU64 {
    // SAFETY: an aligned u64 in memory that lives as long as the engine, and that is only
    // changed atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*engine.inner.memory.state_pointer()).clock.value) }
}

/// `word`: an aligned one in the mapping of an engine that lives.
fn store_word(word: *mut u64, value: u64) {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Release);
}

fn words_of(id: [u8; 16]) -> [u64; 2] {
    let bits = u128::from_le_bytes(id);
    [bits as u64, (bits >> 64) as u64]
}

fn bytes_of([low, high]: [u64; 2]) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// The log, and the run of it, that an engine's memory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHome {
    /// Identity of the log.
    pub log: [u8; 16],
    /// Number of the run, from 1.
    pub run: u64,
    /// Its identity: another copy of the log may have a run of the same number.
    pub run_id: [u8; 16],
}

impl LogHome {
    fn of(state: &abi::bpfdb_engine) -> Option<Self> {
        let home = state.log_home;
        (home.run != 0).then(|| Self {
            log: bytes_of(home.log),
            run: home.run,
            run_id: bytes_of(home.run_id),
        })
    }
}

/// What is known of the log of a pinned engine, with or without an owner, without opening the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedLog {
    pub home: LogHome,
    /// For each ring the position behind its last record; 0 if it has given up the room of all.
    pub ends: Vec<u64>,
    /// What [`Log::note_batch`] was given last; 0: nothing.
    pub batch: u64,
}

impl PinnedLog {
    /// `None`: the engine that is pinned in `folder` has no log, or none was ever begun.
    ///
    /// # Errors
    /// No engine is pinned there, or one of another version of bpfdb.
    pub fn of(folder: &Path) -> Result<Option<Self>> {
        let (config, state, rings) = pinned_log(folder)?;
        let end = |ring: &abi::bpfdb_log_ring| {
            let given_up = ring.limit.saturating_sub(config.log_ring.into());
            if ring.reserved > given_up {
                ring.reserved
            } else {
                0
            }
        };
        Ok(LogHome::of(&state).map(|home| Self {
            home,
            ends: rings.iter().map(end).collect(),
            batch: state.log_home.batch,
        }))
    }
}

/// A record that is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// In its ring, with its head: the next record begins behind it.
    pub bytes: u64,
    /// Timestamp of the commit; `None`: the operator failed, and nothing was written.
    pub stamp: Option<u64>,
}

/// One write of a commit. Borrows the ring: valid until its room is given up.
#[derive(Clone, Copy, Debug)]
pub struct LogWrite<'a> {
    pub key: &'a [u8],
    pub value: LogValue<'a>,
    /// UNIX time, milliseconds; 0: never.
    pub expires: u64,
}

/// What a key has from a commit on.
#[derive(Clone, Copy, Debug)]
pub enum LogValue<'a> {
    Deleted,
    /// A string.
    Bytes(&'a [u8]),
    /// The bytes of a value that is no string.
    Typed(ValueType, &'a [u8]),
    /// An invariant does not hold: no operator writes this form.
    Invalid(u64),
    /// A value of any type that is too long for a ring.
    Large(ValueType, LargeRef),
}

/// A large value that a record holds, until [`Log::release`].
#[derive(Clone, Copy, Debug)]
pub struct LargeRef {
    /// No other value has it.
    pub id: u64,
    pub bytes: u64,
    /// Where the record holds it.
    place: [u64; 3],
}

/// Makes an engine read-only. Of one log there may be several, which do not know of each other.
#[derive(Debug)]
pub struct LogGate {
    state: Mapped<abi::bpfdb_log_ring>,
}

/// Does the log take writes?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogGateState {
    /// It does, if there is room.
    Open,
    /// Not for now: every commit that writes ends in [`Status::LogFull`].
    Held,
    /// Not until an operator acts: every commit that writes ends in [`Status::LogClosed`].
    Closed,
}

impl LogGate {
    /// While the log is not open reads go on, and so does what has reserved its room.
    pub fn set(&self, state: LogGateState) {
        let state = match state {
            LogGateState::Open => abi::BPFDB_LOG_GATE_OPEN,
            LogGateState::Held => abi::BPFDB_LOG_GATE_HELD,
            LogGateState::Closed => abi::BPFDB_LOG_GATE_CLOSED,
        };
        for ring in 0..self.state.len() {
            // SAFETY: an aligned u64 in memory that lives as long as self, and that is only
            // changed atomically.
            unsafe { AtomicU64::from_ptr(&raw mut (*self.state.at(ring)).gate) }
                .store(state.into(), Ordering::SeqCst);
        }
    }
}

impl Log {
    fn new(engine: &Engine) -> Result<Self> {
        let maps = &engine.inner.maps;
        let config = &maps.config;
        let stride = ring_stride(config) as usize;
        let rings = Mapped::new(maps.fd(LOG_RINGS), config.log_rings as usize, stride);
        Ok(Self {
            state: maps.mapped(LOG_STATE, config.log_rings)?,
            rings: rings.map_err(system(format!("map {LOG_RINGS}")))?,
            ring: config.log_ring.into(),
            secrets: engine.inner.memory.state().log,
            io: engine.take_io().ok_or(Error::Engine(Status::NoSession))?,
            engine: engine.clone(),
        })
    }

    /// How many rings there are.
    pub fn rings(&self) -> usize {
        self.state.len()
    }

    /// Bytes of each.
    pub fn ring_bytes(&self) -> u64 {
        self.ring
    }

    /// Bytes of the longest record, in a ring.
    pub fn record_bytes_max(&self) -> u64 {
        let share = self.ring / u64::from(abi::BPFDB_LOG_SHARE);
        share.max(abi::BPFDB_LOG_PAD.into()) + RECORD_GRAIN
    }

    /// Ends an epoch: commits that are decided from now on have a later timestamp.
    pub fn close_epoch(&self) -> u64 {
        self.clock().fetch_add(1, Ordering::SeqCst)
    }

    /// Has the clock be later than `stamp`, at least.
    pub fn pass(&self, stamp: u64) {
        self.clock().fetch_max(stamp + 1, Ordering::SeqCst);
    }

    /// The log that this engine's memory belongs to; `None` if that was never said. It is known
    /// as long as the engine is pinned.
    pub fn home(&self) -> Option<LogHome> {
        LogHome::of(&self.engine.inner.memory.state())
    }

    /// Says to which log the engine's memory belongs, when it has all that is there.
    pub fn set_home(&self, home: &LogHome) {
        let stored = self.home_pointer();
        // SAFETY: as it says.
        let (log, run_id) = unsafe { (&raw mut (*stored).log, &raw mut (*stored).run_id) };
        for (words, id) in [(log, home.log), (run_id, home.run_id)] {
            let [low, high] = words_of(id);
            store_word(words.cast(), low);
            store_word(words.cast::<u64>().wrapping_add(1), high);
        }
        // Last: a process that is killed before this has said nothing.
        // SAFETY: as it says.
        store_word(unsafe { &raw mut (*stored).run }, home.run);
    }

    /// What [`Log::note_batch`] was given last; 0: nothing.
    pub fn batch(&self) -> u64 {
        self.engine.inner.memory.state().log_home.batch
    }

    /// The log has the batch of this sequence number for certain. To be said before room is given
    /// up that it made free: then a log that ends before it lacks what the rings do not have.
    pub fn note_batch(&self, sequence: u64) {
        // SAFETY: as it says.
        store_word(unsafe { &raw mut (*self.home_pointer()).batch }, sequence);
    }

    /// All commits up to this timestamp are on the disk: for callers of [`Engine::durable`].
    pub fn note_durable(&self, timestamp: u64) {
        durable(&self.engine).fetch_max(timestamp, Ordering::SeqCst);
    }

    /// Valid as long as the engine; only the log's one thread writes there.
    fn home_pointer(&self) -> *mut abi::bpfdb_log_home {
        let state = self.engine.inner.memory.state_pointer();
        // SAFETY: the mapping lives as long as the engine.
        unsafe { &raw mut (*state).log_home }
    }

    /// Position behind the last reservation of a ring.
    pub fn reserved(&self, ring: usize) -> u64 {
        // SAFETY: an aligned u64 in memory that lives as long as self, and that is only
        // changed atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.state.at(ring)).reserved) }
            .load(Ordering::SeqCst)
    }

    /// Position behind the last room that was given up, or 0.
    pub fn given_up(&self, ring: usize) -> u64 {
        self.limit(ring)
            .load(Ordering::Acquire)
            .saturating_sub(self.ring)
    }

    /// Gives up the room of all records before `position`: programs overwrite it.
    pub fn give_up(&self, ring: usize, position: u64) {
        self.limit(ring)
            .store(position + self.ring, Ordering::Release);
    }

    /// By which any thread closes the log.
    ///
    /// # Errors
    /// The state of the rings cannot be mapped.
    pub fn gate(&self) -> Result<LogGate> {
        let maps = &self.engine.inner.maps;
        Ok(LogGate {
            state: maps.mapped(LOG_STATE, maps.config.log_rings)?,
        })
    }

    /// The record at a position that was reserved; `None` while a program fills it.
    pub fn sealed(&self, ring: usize, position: u64) -> Option<Sealed> {
        let record = self.at(ring, position).cast::<abi::bpfdb_log_record>();
        // SAFETY: an aligned u64, as above; the pad behind the ring has room for the record.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*record).head) }.load(Ordering::Acquire);
        if head >> abi::BPFDB_LOG_TAG_SHIFT != self.tag(position) {
            return None;
        }
        let grains = head & abi::BPFDB_LOG_GRAINS_MASK;
        let void = head & abi::BPFDB_LOG_VOID != 0;
        // SAFETY: sealed, so it is not written.
        let stamp = unsafe { (&raw const (*record).stamp).read_volatile() };
        Some(Sealed {
            bytes: grains * RECORD_GRAIN,
            stamp: (!void).then_some(stamp),
        })
    }

    /// The writes of a sealed record of `bytes` bytes.
    pub fn writes(&self, ring: usize, position: u64, bytes: u64) -> Writes<'_> {
        Writes {
            log: self,
            ring,
            position: position + size_of::<abi::bpfdb_log_record>() as u64,
            end: position + bytes,
        }
    }

    /// Appends bytes of a large value, from `start` (a multiple of 32 KiB) on, 256 KiB at
    /// most; how many. 0: these are all.
    pub fn read_large(&self, value: &LargeRef, start: u64, to: &mut Vec<u8>) -> Result<usize> {
        let [ring, write, behind] = value.place;
        let arguments = [ring, write, behind, self.io.into(), start];
        let bytes = self
            .engine
            .inner
            .driver
            .run(abi::BPFDB_DRIVER_LOG_READ, &arguments)? as usize;
        let buffer = self.engine.inner.io.at(self.io as usize).cast::<u8>();
        let bytes = bytes.min(abi::BPFDB_LARGE_PART as usize);
        // SAFETY: the buffer is this log's alone, and longer than a part.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(buffer, bytes) });
        Ok(bytes)
    }

    /// Before the room of its record is given up: the value may be freed. A second call does
    /// nothing, be it of another process.
    pub fn release(&self, value: &LargeRef) -> Result<()> {
        self.engine
            .inner
            .driver
            .run(abi::BPFDB_DRIVER_LOG_RELEASE, &value.place)
            .map(drop)
    }

    fn tag(&self, position: u64) -> u64 {
        let product = position.wrapping_mul(self.secrets.factor);
        product.wrapping_add(self.secrets.term) >> abi::BPFDB_LOG_TAG_SHIFT
    }

    /// Memory of a position: the pad's bytes behind it are there too.
    fn at(&self, ring: usize, position: u64) -> *mut u8 {
        let offset = position & (self.ring - 1);
        // SAFETY: within the value of the map.
        unsafe { self.rings.at(ring).add(offset as usize) }
    }

    fn clock(&self) -> &AtomicU64 {
        clock(&self.engine)
    }

    fn limit(&self, ring: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.state.at(ring)).limit) }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.engine.give_io(self.io);
    }
}

/// The writes of a record, one after the other.
#[derive(Debug)]
pub struct Writes<'a> {
    log: &'a Log,
    ring: usize,
    position: u64,
    end: u64,
}

impl<'a> Iterator for Writes<'a> {
    type Item = LogWrite<'a>;

    fn next(&mut self) -> Option<LogWrite<'a>> {
        // The rest of the last grain is shorter than any write.
        if self.position + WRITE_MIN > self.end {
            return None;
        }
        let (write, bytes) = self.read();
        self.position += bytes as u64;
        Some(write)
    }
}

impl<'a> Writes<'a> {
    /// The write at the position, and the bytes that it takes. Whatever is there: nothing
    /// beyond the pad is read, since lengths are bounded.
    fn read(&self) -> (LogWrite<'a>, usize) {
        let head = size_of::<abi::bpfdb_log_write>();
        let at: *const u8 = self.log.at(self.ring, self.position);
        // SAFETY: the ring lives as long as the log, and the pad has room for any write.
        let write = unsafe { at.cast::<abi::bpfdb_log_write>().read() };
        let form = write.meta & abi::BPFDB_FORM_MASK;
        let key_len = (write.meta >> abi::BPFDB_FORM_BITS) as usize;
        let key_len = key_len.min(abi::BPFDB_KEY_MAX as usize);
        let before = head + key_len.next_multiple_of(GRAIN);
        // SAFETY: as above.
        let key = unsafe { std::slice::from_raw_parts(at.add(head), key_len) };
        let (value, room) = self.read_value(form, before);
        let write = LogWrite {
            key,
            value,
            expires: write.expires,
        };
        (write, before + room)
    }

    /// The value that lies `before` bytes behind the position.
    fn read_value(&self, form: u64, before: usize) -> (LogValue<'a>, usize) {
        if form == abi::BPFDB_ABSENT {
            return (LogValue::Deleted, 0);
        }
        // SAFETY: as above.
        let at = unsafe { self.log.at(self.ring, self.position).add(before) };
        let kind = ValueType::of_form(form);
        let of_any_type = abi::BPFDB_FORM_TYPE_MASK << abi::BPFDB_FORM_LENGTH_BITS;
        if form & !(abi::BPFDB_EXPIRES | of_any_type) == abi::BPFDB_LARGE {
            // SAFETY: as above.
            let large = unsafe { at.cast::<abi::bpfdb_log_large>().read_volatile() };
            let large = LargeRef {
                id: large.id,
                bytes: large.len,
                place: [self.ring as u64, self.position, before as u64],
            };
            return (
                LogValue::Large(kind, large),
                size_of::<abi::bpfdb_log_large>(),
            );
        }
        let len = (form & abi::BPFDB_FORM_LENGTH_MASK) as usize;
        let is_valid = form & (abi::BPFDB_LARGE | 1 << abi::BPFDB_FORM_ZERO_BIT) == 0
            && len <= abi::BPFDB_VALUE_MAX as usize
            && (len > 0 || kind == ValueType::STRING);
        let len = len.min(abi::BPFDB_VALUE_MAX as usize);
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(at.cast_const(), len) };
        let value = match kind {
            _ if !is_valid => LogValue::Invalid(form),
            ValueType::STRING => LogValue::Bytes(bytes),
            kind => LogValue::Typed(kind, bytes),
        };
        (value, len.max(1).next_multiple_of(GRAIN))
    }
}
