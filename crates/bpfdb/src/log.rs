//! The rings of the log, as the writer of the log sees them: `bpf/log/ring.bpf.h`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi;
use crate::error::{Result, system};
use crate::mapped::Mapped;
use crate::maps::{LOG_RINGS, LOG_STATE, Maps, ring_stride};
use crate::memory::Memory;

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
    memory: Arc<Memory>,
    state: Mapped<abi::bpfdb_log_ring>,
    rings: Mapped<u8>,
    ring: u64,
    secrets: abi::bpfdb_log_secrets,
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
    Bytes(&'a [u8]),
    /// A value that is too long for the ring, which the record holds.
    Large {
        id: u64,
        bytes: u64,
    },
}

impl Log {
    pub(crate) fn new(maps: &Maps, memory: Arc<Memory>) -> Result<Self> {
        let config = &maps.config;
        let stride = ring_stride(config) as usize;
        let map = || system(format!("map {LOG_RINGS}"));
        Ok(Self {
            state: maps.mapped(LOG_STATE, config.log_rings)?,
            rings: Mapped::new(maps.fd(LOG_RINGS), config.log_rings as usize, stride)
                .map_err(map())?,
            ring: config.log_ring.into(),
            secrets: memory.state().log,
            memory,
        })
    }

    /// Lets programs reserve, in an engine that is new.
    pub(crate) fn open_rings(&self) {
        for ring in 0..self.rings() {
            self.give_up(ring, 0);
        }
    }

    /// How many rings there are.
    pub fn rings(&self) -> usize {
        self.state.len()
    }

    /// Bytes of each.
    pub fn ring_bytes(&self) -> u64 {
        self.ring
    }

    /// Ends an epoch: commits that are decided from now on have a later timestamp.
    pub fn close_epoch(&self) -> u64 {
        self.clock().fetch_add(1, Ordering::SeqCst)
    }

    /// Has the clock be later than `stamp`, at least.
    pub fn pass(&self, stamp: u64) {
        self.clock().fetch_max(stamp + 1, Ordering::SeqCst);
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
        // SAFETY: sealed, so nobody writes it.
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
        // SAFETY: an aligned u64 in memory that lives as long as self, and that is only
        // changed atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.memory.state_pointer()).clock.value) }
    }

    fn limit(&self, ring: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.state.at(ring)).limit) }
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
        // SAFETY: a write that a program has sealed: what it says of its lengths fits the
        // pad behind any position.
        let (write, bytes) = unsafe { read_write(self.log.at(self.ring, self.position)) };
        self.position += bytes;
        Some(write)
    }
}

/// The write at `at`, and the bytes that it takes.
///
/// # Safety
/// `at` is in a ring, which lives as long as the result; the pad behind the ring has room for
/// any write.
unsafe fn read_write<'a>(at: *const u8) -> (LogWrite<'a>, u64) {
    let head = size_of::<abi::bpfdb_log_write>();
    // SAFETY: the caller's.
    let abi::bpfdb_log_write { meta, expires } = unsafe { at.cast::<abi::bpfdb_log_write>().read() };
    let form = meta & abi::BPFDB_FORM_MASK;
    // Whatever is there: nothing beyond the pad is read.
    let key_len = ((meta >> abi::BPFDB_FORM_BITS) as usize).min(abi::BPFDB_KEY_MAX as usize);
    let key_room = key_len.next_multiple_of(GRAIN);
    // SAFETY: the caller's.
    let (key, value) = unsafe {
        let key = at.add(head);
        (std::slice::from_raw_parts(key, key_len), key.add(key_room))
    };
    // SAFETY: the caller's.
    let (value, value_room) = unsafe { read_value(value, form) };
    let write = LogWrite {
        key,
        value,
        expires,
    };
    (write, (head + key_room + value_room) as u64)
}

/// # Safety
/// As [`read_write`].
unsafe fn read_value<'a>(at: *const u8, form: u64) -> (LogValue<'a>, usize) {
    if form == abi::BPFDB_ABSENT {
        return (LogValue::Deleted, 0);
    }
    let len = form & !abi::BPFDB_EXPIRES;
    if len == abi::BPFDB_LARGE {
        // SAFETY: the caller's.
        let large = unsafe { at.cast::<abi::bpfdb_log_large>().read() };
        let value = LogValue::Large {
            id: large.id,
            bytes: large.len,
        };
        return (value, size_of::<abi::bpfdb_log_large>());
    }
    let len = (len as usize).min(abi::BPFDB_VALUE_MAX as usize);
    let room = len.max(1).next_multiple_of(GRAIN);
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(at, len) };
    (LogValue::Bytes(bytes), room)
}
