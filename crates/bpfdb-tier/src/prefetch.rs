//! Reads that the kernel has begun before a command asks for the value. `bpf/tier/prefetch.bpf.h` is the other
//! side, and has the protocol.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use bpfdb::{COLD_GRAIN, ColdPlace};
use bpfdb_ring::{Completion, Entry, Mapped, Options, Ring};
use libbpf_rs::MapHandle;

use crate::abi::{self, bpfdb_prefetch, bpfdb_prefetching};
use crate::bell::{Bell, create_array};
use crate::format::entry;

/// Reads at the same time: entries of the map `prefetches`.
const PREFETCHES: u32 = abi::BPFDB_PREFETCHES;
const SLOTS: usize = PREFETCHES as usize;
const STRIDE: usize = size_of::<bpfdb_prefetch>();
const ENTRY: usize = abi::BPFDB_PREFETCH_ENTRY as usize;
const RUNS: u64 = bpfdb::abi::BPFDB_RUNS_MAX as u64;

const _: () = assert!(
    STRIDE.is_multiple_of(8),
    "as the kernel lays values of a map out"
);
const _: () = assert!(entry::HEAD == abi::BPFDB_RUN_ENTRY_HEAD as usize);

/// How long io_uring's thread looks for reads before it sleeps.
const IDLE: Duration = Duration::from_millis(1);
/// What was not asked for so long after it was read makes room for others.
const KEPT: Duration = Duration::from_millis(50);
/// User data of the bell's poll.
const BELL: u64 = u64::MAX;
/// `IORING_OP_POLL_ADD`, again and again, and `POLLIN`.
const POLL_ADD: u64 = 6;
const POLL_MULTI: u64 = 1;
const POLL_IN: u64 = 1 << 32;
/// `IORING_CQE_F_MORE`: the poll goes on.
const MORE: u32 = 2;

#[cfg(test)]
mod tests;

/// Maps of the programs that begin reads.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchMaps<'a> {
    /// `.bss.prefetch`.
    pub memory: BorrowedFd<'a>,
    /// `prefetches`, as [`create_reads`] makes it.
    pub reads: BorrowedFd<'a>,
    /// `prefetch_bell`.
    pub bell: BorrowedFd<'a>,
}

/// A map for the memory of all reads, 6 MiB, with which programs are to be loaded in place of their own one of this type.
///
/// # Errors
/// Those of the system.
pub fn create_reads() -> io::Result<MapHandle> {
    create_array("prefetches", STRIDE, PREFETCHES)
}

/// What has become of reads since the start. Of those that were started and have ended, each is in one of `used`, `late`,
/// `unused` and `failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchFigures {
    /// That the kernel has begun.
    pub started: u64,
    /// That it could not begin: no slot was free for the place, the queue was full, or others wrote to it.
    pub crowded: u64,
    /// Whose value was asked for, and found.
    pub used: u64,
    /// That have completed after their value was asked for, which was read without them.
    pub late: u64,
    /// That nothing has asked for.
    pub unused: u64,
    /// That failed, or found something else than the value.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Counts {
    used: AtomicU64,
    late: AtomicU64,
    unused: AtomicU64,
    failed: AtomicU64,
}

/// What this process alone knows of a slot.
#[derive(Debug, Default)]
struct Known {
    /// Bytes that were read, or an errno, negative.
    result: AtomicI32,
    /// Completions so far. Changed by the thread that has the lock of [`Prefetcher::read`].
    completions: AtomicU32,
    /// The number of the completion that nothing waits for any more: its value was asked for before, and read
    /// otherwise. It may become that of the slot's next read, which is made in vain then: if two threads look at the slot
    /// at once, or a program finds no place in the queue for a read that looked as if it were under way.
    late: AtomicU32,
}

/// A read that has completed.
#[derive(Clone, Copy, Debug)]
struct Read {
    when: Instant,
    slot: usize,
    completions: u32,
}

/// The io_uring that the kernel's programs write reads into, and what becomes of these.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    // The ring ends before its memory is unmapped.
    ring: Ring,
    memory: Mapped,
    reads: Mapped,
    bell: Bell,
    /// io_uring's thread does not poll the bell.
    bell_is_lost: AtomicBool,
    known: Vec<Known>,
    /// Completed, oldest first.
    read: Mutex<VecDeque<Read>>,
    counts: Counts,
    /// [`KEPT`], or what a test says.
    kept: Duration,
}

impl Prefetcher {
    /// Makes the ring in memory of these maps, of which no program knows yet that it is there. Reads begin
    /// when [`Self::enable`] says so.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(crate) fn start(maps: &PrefetchMaps<'_>) -> io::Result<Self> {
        let memory = Mapped::new(maps.memory, size_of::<bpfdb_prefetching>())?;
        let reads = Mapped::new(maps.reads, SLOTS * STRIDE)?;
        let bell = Bell::map(maps.bell)?;
        let all: *mut bpfdb_prefetching = memory.at(0);
        // SAFETY: within the mapping.
        let ring = unsafe { &raw mut (*all).ring };
        let options = Options {
            idle: Some(IDLE),
            processor: None,
            // One of each slot, and of the bell as many.
            completions: 2 * PREFETCHES,
        };
        let ring = NonNull::new(ring.cast()).expect("within a mapping");
        // SAFETY: the mappings stay as long as the ring: they are dropped after it. References to an entry are
        // made when its slot is TAKEN only.
        let ring = unsafe { Ring::create(ring, &options) }?;
        // SAFETY: as above.
        unsafe { ring.register_buffer(reads.at(0), SLOTS * STRIDE) }?;
        ring.register_files(&vec![None; RUNS as usize])?;
        let start: *mut u8 = reads.at(0);
        // SAFETY: within the mapping; no program reads it before it `is_on`.
        unsafe { (&raw mut (*all).reads).write_volatile(start.expose_provenance() as u64) };
        let prefetcher = Self {
            ring,
            memory,
            reads,
            bell,
            bell_is_lost: AtomicBool::new(false),
            known: (0..SLOTS).map(|_| Known::default()).collect(),
            read: Mutex::default(),
            counts: Counts::default(),
            kept: KEPT,
        };
        if !prefetcher.poll_bell() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        prefetcher.ring.wake()?;
        Ok(prefetcher)
    }

    /// Has io_uring's thread woken by the bell.
    fn poll_bell(&self) -> bool {
        let poll: Entry = [
            POLL_ADD | (self.bell.as_raw_fd() as u64) << 32,
            0,
            0,
            POLL_MULTI | POLL_IN,
            BELL,
            0,
            0,
            0,
        ];
        // SAFETY: it names a file alone.
        unsafe { self.ring.put(&poll) }
    }

    /// Whether programs begin reads from now on.
    pub(crate) fn enable(&self, is_on: bool) {
        let all: *mut bpfdb_prefetching = self.memory.at(0);
        // SAFETY: an aligned word within the mapping, which only this process writes.
        let word = unsafe { AtomicU32::from_ptr(&raw mut (*all).is_on) };
        word.store(is_on.into(), Ordering::Release);
    }

    pub(crate) fn figures(&self) -> PrefetchFigures {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let all: *mut bpfdb_prefetching = self.memory.at(0);
        // SAFETY: aligned words within the mapping, which programs change by atomic instructions.
        let (started, crowded) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*all).started),
                AtomicU64::from_ptr(&raw mut (*all).crowded),
            )
        };
        PrefetchFigures {
            started: get(started),
            crowded: get(crowded),
            used: get(&self.counts.used),
            late: get(&self.counts.late),
            unused: get(&self.counts.unused),
            failed: get(&self.counts.failed),
        }
    }

    /// From now on this is the file of the run; `None`: it has none. Reads that have begun keep theirs.
    pub(crate) fn set_file(&self, run: u64, file: Option<BorrowedFd<'_>>) {
        // The program says the same of a run.
        let number = (run % RUNS) as u32;
        if let Err(error) = self.ring.set_file(number, file) {
            tracing::warn!(%error, run, "the kernel cannot begin reads of a file of cold values");
        }
    }

    /// This thread reads a value itself, as long as what is returned is there: then programs begin also a read that would be alone.
    pub(crate) fn reads_itself(&self) -> ReadsItself<'_> {
        let all: *mut bpfdb_prefetching = self.memory.at(0);
        // SAFETY: an aligned word within the mapping, which only this process writes.
        let reading = unsafe { AtomicU32::from_ptr(&raw mut (*all).reading) };
        reading.fetch_add(1, Ordering::Relaxed);
        ReadsItself(reading)
    }

    /// A read that programs have begun has ended so.
    fn end(&self, how: &AtomicU64) {
        how.fetch_add(1, Ordering::Relaxed);
        let all: *mut bpfdb_prefetching = self.memory.at(0);
        // SAFETY: as above.
        let ended = unsafe { AtomicU64::from_ptr(&raw mut (*all).ended) };
        ended.fetch_add(1, Ordering::Relaxed);
    }

    /// What `decode` makes of the entry at this place, if the kernel has read it; `None`: it has not, or not yet, or
    /// that failed, or `decode` does not take it.
    pub(crate) fn take<T>(
        &self,
        place: ColdPlace,
        bytes: usize,
        decode: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        // Also if there is no such read: those that nothing asks for make room only here.
        self.take_completions();
        let slot = self.find(place).filter(|_| bytes <= ENTRY)?;
        if !self.is_read(slot) {
            return None;
        }
        let state = self.state(slot);
        let (read, taken) = (abi::BPFDB_PREFETCH_READ, abi::BPFDB_PREFETCH_TAKEN);
        state
            .compare_exchange(read, taken, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // Another thread may have taken it, and the slot have another place by now.
        if !self.is_of(slot, place) {
            state.store(read, Ordering::Release);
            return None;
        }
        let is_whole = self.known[slot].result.load(Ordering::Relaxed) == bytes as i32;
        let found = is_whole.then(|| {
            // SAFETY: within the mapping; a slot that is TAKEN has no read, and this thread alone has it.
            let entry = unsafe { std::slice::from_raw_parts(self.entry(slot), bytes) };
            decode(entry)
        });
        state.store(abi::BPFDB_PREFETCH_FREE, Ordering::Release);
        let found = found.flatten();
        self.end(match found {
            Some(_) => &self.counts.used,
            None => &self.counts.failed,
        });
        found
    }

    /// The slot that has this place.
    fn find(&self, place: ColdPlace) -> Option<usize> {
        let home = home(place);
        let mut slots = (0..abi::BPFDB_PREFETCH_PROBES as usize).map(|n| (home + n) % SLOTS);
        slots.find(|&slot| {
            let state = self.state(slot).load(Ordering::Acquire);
            let has_read = matches!(
                state,
                abi::BPFDB_PREFETCH_READING | abi::BPFDB_PREFETCH_READ
            );
            has_read && self.is_of(slot, place)
        })
    }

    /// Whether the read of a slot has completed. One that has not is not waited for: through the page cache
    /// the caller reads the same pages, and needs no other thread for that.
    fn is_read(&self, slot: usize) -> bool {
        match self.state(slot).load(Ordering::Acquire) {
            abi::BPFDB_PREFETCH_READ => return true,
            abi::BPFDB_PREFETCH_READING => {}
            _ => return false,
        }
        let known = &self.known[slot];
        let number = known.completions.load(Ordering::Relaxed).wrapping_add(1);
        known.late.store(number, Ordering::Relaxed);
        if self.ring.sleeps_over_requests() {
            // If it cannot be woken, reads stay late.
            let _ = self.ring.wake();
        }
        false
    }

    /// Learns which reads have completed, and makes room where nothing has asked for the value. Does nothing while
    /// another thread does this: the server's thread waits for none.
    pub(crate) fn take_completions(&self) {
        let mut read = match self.read.try_lock() {
            Ok(read) => read,
            Err(TryLockError::Poisoned(read)) => read.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let now = Instant::now();
        self.ring.take(|completion| match completion.user_data {
            BELL => self.hear_bell(completion),
            slot => {
                let slot = slot as usize % SLOTS;
                let known = &self.known[slot];
                known.result.store(completion.result, Ordering::Relaxed);
                let completions = known.completions.load(Ordering::Relaxed).wrapping_add(1);
                known.completions.store(completions, Ordering::Relaxed);
                let state = self.state(slot);
                if known.late.load(Ordering::Relaxed) == completions {
                    self.end(&self.counts.late);
                    state.store(abi::BPFDB_PREFETCH_FREE, Ordering::Release);
                    return;
                }
                state.store(abi::BPFDB_PREFETCH_READ, Ordering::Release);
                read.push_back(Read {
                    when: now,
                    slot,
                    completions,
                });
            }
        });
        self.bell.empty();
        self.find_bell();
        while let Some(&oldest) = read.front()
            && now.duration_since(oldest.when) > self.kept
        {
            read.pop_front();
            if !self.forget(oldest) {
                read.push_back(Read {
                    when: now,
                    ..oldest
                });
            }
        }
    }

    /// A program has found io_uring's thread asleep.
    fn hear_bell(&self, completion: Completion) {
        if completion.flags & MORE == 0 {
            self.bell_is_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Has the bell polled again if its poll has ended. A program may be writing to the queue, or that be full: then
    /// the next call tries again.
    fn find_bell(&self) {
        if self.bell_is_lost.load(Ordering::Relaxed) && self.poll_bell() {
            self.bell_is_lost.store(false, Ordering::Relaxed);
            // If it cannot be woken, the next command that finds a late read tries again.
            let _ = self.ring.wake();
        }
    }

    /// Makes room where the slot still has this read. False: another thread has it for the moment.
    fn forget(&self, old: Read) -> bool {
        if self.known[old.slot].completions.load(Ordering::Relaxed) != old.completions {
            return true;
        }
        let (read, free) = (abi::BPFDB_PREFETCH_READ, abi::BPFDB_PREFETCH_FREE);
        let state = self.state(old.slot);
        match state.compare_exchange(read, free, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                self.end(&self.counts.unused);
                true
            }
            // It may be about to say that it is not the one that it looks for.
            Err(state) => state != abi::BPFDB_PREFETCH_TAKEN,
        }
    }

    fn slot(&self, slot: usize) -> *mut bpfdb_prefetch {
        self.reads.at(slot * STRIDE)
    }

    fn state(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: an aligned word within the mapping, which all change by atomic instructions.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.slot(slot)).state) }
    }

    fn entry(&self, slot: usize) -> *const u8 {
        // SAFETY: within the mapping.
        unsafe { (&raw const (*self.slot(slot)).entry).cast() }
    }

    fn is_of(&self, slot: usize, place: ColdPlace) -> bool {
        // SAFETY: within the mapping; a program may be writing them.
        let (run, offset) = unsafe {
            let slot = self.slot(slot);
            (
                (&raw const (*slot).run).read_volatile(),
                (&raw const (*slot).offset).read_volatile(),
            )
        };
        run == place.run && u64::from(offset) == place.offset / COLD_GRAIN
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.enable(false);
    }
}

/// See [`Prefetcher::reads_itself`].
#[derive(Debug)]
pub(crate) struct ReadsItself<'a>(&'a AtomicU32);

impl Drop for ReadsItself<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The first slot that a place may have: as in the program.
fn home(place: ColdPlace) -> usize {
    let mixed =
        ((place.run << 32) ^ (place.offset / COLD_GRAIN)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize
}
