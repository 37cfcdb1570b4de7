//! Adding memory to a running engine: programs cannot create maps, so user
//! space creates segments ahead of need. The thread that does it, and when: `thread.rs`.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::abi;
use crate::clock::Clock;
use crate::error::{Result, bpf, system};
use crate::mapped::Mapped;
use crate::maps::Maps;
use crate::memory::chore::Chore;

const PAGES_PER_SEGMENT: u64 = abi::BPFDB_PAGES_PER_SEGMENT as u64;
/// Segments that are added by one call, at most. It takes 11 ms to make one of 16 MiB, most of it
/// for zeros, and 10 ms more for the call.
const SEGMENTS_AT_ONCE: u64 = 4;

/// The engine's memory, as user space sees and grows it.
#[derive(Debug)]
pub(crate) struct Memory {
    state: Mapped<abi::bpfdb_engine>,
    segments: MapHandle,
    ahead: AtomicU64,
    /// Bytes that the data takes, as of the last look.
    used: AtomicU64,
    growing: Mutex<()>,
    clock: Clock,
    /// Room for large values: the most bytes that one of them needs.
    room: Chore,
    room_bytes: AtomicU64,
    /// The same for the thread that evicts.
    room_wanted: AtomicU64,
    /// A write has found no memory since that thread looked.
    was_short: AtomicBool,
    /// How often one has.
    shortages: AtomicU64,
    sweep: Chore,
    /// The memory thread, if this process owns the engine.
    thread: OnceLock<Thread>,
}

impl Memory {
    pub(crate) fn new(maps: &Maps, ahead_bytes: u64, clock: Clock) -> Result<Self> {
        let state = Mapped::new(
            maps.fd(crate::maps::STATE),
            1,
            size_of::<abi::bpfdb_engine>(),
        )
        .map_err(system("map the engine's state"))?;
        Ok(Self {
            state,
            segments: maps.handle("segments")?,
            ahead: AtomicU64::new(ahead_bytes.div_ceil(u64::from(abi::BPFDB_PAGE_SIZE))),
            used: AtomicU64::new(0),
            growing: Mutex::new(()),
            clock,
            room: Chore::default(),
            room_bytes: AtomicU64::new(0),
            room_wanted: AtomicU64::new(0),
            was_short: AtomicBool::new(false),
            shortages: AtomicU64::new(0),
            sweep: Chore::default(),
            thread: OnceLock::new(),
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn state(&self) -> abi::bpfdb_engine {
        self.state.read(0)
    }

    pub(crate) fn state_pointer(&self) -> *mut abi::bpfdb_engine {
        self.state.at(0)
    }

    /// Segments added so far.
    fn segments(&self) -> &AtomicU64 {
        // SAFETY: an aligned u64 in memory that lives as long as self and that
        // programs and user space change atomically only.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.state.at(0)).segments.value) }
    }

    fn asked(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.state.at(0)).memory_asked.value) }
    }

    /// Asks the owner's memory thread for memory, and does not wait for it.
    pub(crate) fn ask(&self) {
        self.asked().store(1, Ordering::Release);
        self.wake_thread();
    }

    /// Which thread adds memory, from now on: a process owns an engine once.
    pub(crate) fn set_thread(&self, thread: &Thread) {
        let _ = self.thread.set(thread.clone());
    }

    /// The memory thread looks every few milliseconds; this way at once, if it is one of
    /// this process.
    fn wake_thread(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Asks the memory thread for free pages for a large value, by taking them from
    /// whatever does not need them; the number for [`Memory::was_room_made`].
    pub(crate) fn ask_for_room(&self, bytes: u64) -> u64 {
        self.room_bytes.fetch_max(bytes, Ordering::AcqRel);
        // What would not fit even if all else went is wanted in vain.
        if pages_of(bytes) <= self.data_pages().0 {
            self.room_wanted.fetch_max(bytes, Ordering::AcqRel);
        }
        let number = self.room.ask();
        self.wake_thread();
        number
    }

    pub(crate) fn is_room_wanted(&self) -> bool {
        self.room_wanted.load(Ordering::Acquire) != 0
    }

    /// Has a write found no memory since the last call?
    pub(crate) fn take_shortage(&self) -> bool {
        self.was_short.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn shortages(&self) -> u64 {
        self.shortages.load(Ordering::Relaxed)
    }

    pub(crate) fn take_room_wanted(&self) -> u64 {
        self.room_wanted.swap(0, Ordering::AcqRel)
    }

    /// Has it done what it can?
    pub(crate) fn was_room_made(&self, number: u64) -> bool {
        self.room.is_done(number)
    }

    /// Asks the memory thread for `Shrinker::clean`.
    pub(crate) fn ask_to_sweep(&self) -> u64 {
        let number = self.sweep.ask();
        self.wake_thread();
        number
    }

    pub(crate) fn was_swept(&self, number: u64) -> bool {
        self.sweep.is_done(number)
    }

    /// By the owner: adds what was asked for, if nothing is free.
    pub(crate) fn answer(&self) -> Result<()> {
        if self.asked().load(Ordering::Acquire) != 0 {
            self.asked().store(0, Ordering::Relaxed);
            self.grow()?;
        }
        Ok(())
    }

    /// Holder of the sessions of user space of the owner, or of the one before.
    pub(crate) fn owner(&self) -> u32 {
        // SAFETY: only the address is computed.
        self.gauge(|state| unsafe { &raw mut (*state).owner.value }) as u32
    }

    pub(crate) fn set_owner(&self, holder: u32) {
        // SAFETY: an aligned u64 inside the mapping; only the owner writes it.
        unsafe { (&raw mut (*self.state.at(0)).owner.value).write_volatile(holder.into()) };
    }

    /// Sessions that were ever opened: those behind them were not.
    pub(crate) fn sessions_made(&self) -> u64 {
        // SAFETY: only the address is computed.
        self.gauge(|state| unsafe { &raw mut (*state).sessions_made.value })
    }

    /// CLOCK_MONOTONIC, nanoseconds, as the maintenance timer wrote it last.
    pub(crate) fn coarse_now(&self) -> u64 {
        // SAFETY: only the address is computed.
        self.gauge(|state| unsafe { &raw mut (*state).now.value })
    }

    fn limit_word(&self) -> &AtomicU64 {
        // SAFETY: as above; programs only read it.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.state.at(0)).segments_limit.value) }
    }

    /// Most segments that may be in use.
    pub(crate) fn limit(&self) -> u64 {
        self.limit_word().load(Ordering::Acquire)
    }

    /// Changes that. Segments that are there stay, but are filled up to the limit only.
    /// Another thread that adds memory meanwhile is not waited for: that may be some segments beyond.
    pub(crate) fn set_limit(&self, segments: u64) {
        self.limit_word().store(segments, Ordering::Release);
    }

    /// Programs read it whenever a snapshot is in an operator's way.
    pub(crate) fn set_snapshot_max_age(&self, age: Duration) {
        let nanoseconds = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: an aligned u64 inside the mapping, which lives as long as self.
        unsafe { (&raw mut (*self.state.at(0)).snapshots.age_max).write_volatile(nanoseconds) };
    }

    /// The value of one gauge of the state.
    fn gauge(&self, of: impl Fn(*mut abi::bpfdb_engine) -> *mut u64) -> u64 {
        // SAFETY: an aligned u64 inside the mapping, which lives as long as self.
        unsafe { of(self.state.at(0)).read_volatile() }
    }

    pub(crate) fn pages_taken(&self) -> u64 {
        // SAFETY: only the address is computed.
        self.gauge(|state| unsafe { &raw mut (*state).pages_taken.value })
    }

    fn free_pages(&self) -> u64 {
        let segments = self.segments().load(Ordering::Acquire).min(self.limit());
        (segments * PAGES_PER_SEGMENT).saturating_sub(self.pages_used())
    }

    /// Bytes that the data takes, a second ago at most.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn note_used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn pages_used(&self) -> u64 {
        // SAFETY: as above.
        let returned = self.gauge(|state| unsafe { &raw mut (*state).pages_free_count.value });
        self.pages_taken().saturating_sub(returned)
    }

    /// Could a value of so many bytes, its table included, find pages?
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let limit = self.limit() * PAGES_PER_SEGMENT;
        limit >= self.pages_used() + reserve_of(limit) + pages_of(bytes)
    }

    /// Pages that data may take in all, and how many of them it may still take.
    pub(crate) fn data_pages(&self) -> (u64, u64) {
        let limit = self.limit() * PAGES_PER_SEGMENT;
        let all = limit.saturating_sub(reserve_of(limit));
        (all, all.saturating_sub(self.pages_used()))
    }

    /// Would it find them now, without more memory being added?
    pub(crate) fn has_free(&self, bytes: u64) -> bool {
        self.free_pages() >= reserve_of(self.limit() * PAGES_PER_SEGMENT) + pages_of(bytes)
    }

    /// By the memory thread: does what others have asked for.
    pub(crate) fn run_chores(
        &self,
        make_room: impl FnOnce(u64) -> Result<()>,
        sweep: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.room.run(|| {
            let bytes = self.room_bytes.swap(0, Ordering::AcqRel);
            make_room(bytes)?;
            self.reserve(pages_of(bytes))
        })?;
        self.sweep.run(sweep)
    }

    /// Adds segments until so many pages are free, or the limit is reached.
    fn reserve(&self, pages: u64) -> Result<()> {
        let _one_at_a_time = self.guard();
        self.reserve_guarded(pages)
    }

    fn reserve_guarded(&self, pages: u64) -> Result<()> {
        loop {
            let missing = pages.saturating_sub(self.free_pages());
            let segments = missing.div_ceil(PAGES_PER_SEGMENT);
            if segments == 0 || !self.add_segments(segments)? {
                return Ok(());
            }
        }
    }

    /// Is more in use than may be? After the limit was lowered.
    pub(crate) fn is_over(&self) -> bool {
        self.pages_used() > self.limit() * PAGES_PER_SEGMENT
    }

    /// Is there too little memory left, and no more to add?
    pub(crate) fn is_short(&self) -> bool {
        self.segments().load(Ordering::Acquire) >= self.limit()
            && self.free_pages() < self.wanted_pages()
    }

    /// Pages to keep free: a fixed reserve, more as the engine gets larger.
    fn wanted_pages(&self) -> u64 {
        let growing = self.pages_taken() / 8;
        self.ahead
            .load(Ordering::Relaxed)
            .max(growing.min(16 * PAGES_PER_SEGMENT))
    }

    fn guard(&self) -> MutexGuard<'_, ()> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one segment, unless there is free memory: another thread added it, or
    /// an operator has to come again for another reason. False at the limit.
    pub(crate) fn grow(&self) -> Result<bool> {
        self.was_short.store(true, Ordering::Release);
        self.shortages.fetch_add(1, Ordering::Relaxed);
        let _one_at_a_time = self.guard();
        if self.free_pages() > 0 {
            return Ok(true);
        }
        self.grow_guarded()
    }

    fn grow_guarded(&self) -> Result<bool> {
        self.add_segments(1)
    }

    /// Adds so many segments, up to [`SEGMENTS_AT_ONCE`]: a caller that waits for memory waits for all that
    /// are added. False at the limit.
    fn add_segments(&self, wanted: u64) -> Result<bool> {
        let number = self.segments().load(Ordering::Acquire);
        let most = self.limit().saturating_sub(number).min(SEGMENTS_AT_ONCE);
        let mut added = Vec::new();
        while (added.len() as u64) < wanted.min(most) {
            match create_segment() {
                Ok(segment) => added.push(segment),
                Err(error) if added.is_empty() => return Err(error),
                // What there is can be used; the error comes again.
                Err(_) => break,
            }
        }
        if added.is_empty() {
            return Ok(false);
        }
        self.put_segments(number as u32, &added)?;
        let segments = number + added.len() as u64;
        self.segments().store(segments, Ordering::Release);
        Ok(true)
    }

    /// One call for all of them: each call waits for a grace period of RCU.
    fn put_segments(&self, first: u32, segments: &[MapHandle]) -> Result<()> {
        let words = |word: (u32, &MapHandle)| (first + word.0, word.1.as_fd().as_raw_fd());
        let (keys, values): (Vec<_>, Vec<_>) = (0..).zip(segments).map(words).unzip();
        let keys: Vec<u8> = keys.into_iter().flat_map(u32::to_ne_bytes).collect();
        let values: Vec<u8> = values.into_iter().flat_map(i32::to_ne_bytes).collect();
        let (count, any) = (segments.len() as u32, MapFlags::ANY);
        let put = self.segments.update_batch(&keys, &values, count, any, any);
        put.map_err(bpf("add memory segments"))
    }

    /// Adds segments until there are as many free pages as there are to be, or the limit is reached.
    pub(crate) fn ensure(&self) -> Result<()> {
        let _one_at_a_time = self.guard();
        self.reserve_guarded(self.wanted_pages())
    }
}

/// Takes milliseconds: the kernel fills it with zeros.
fn create_segment() -> Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    MapHandle::create(
        MapType::Array,
        Some("bpfdb_segment"),
        4,
        abi::BPFDB_SEGMENT_SIZE + abi::BPFDB_SEGMENT_PAD,
        1,
        &options,
    )
    .map_err(bpf("create a memory segment"))
}

/// Pages of a memory of `limit` pages that are set aside for what frees memory.
fn reserve_of(limit: u64) -> u64 {
    let (least, most) = (abi::BPFDB_RESERVE_MIN, abi::BPFDB_RESERVE_MAX);
    (limit / u64::from(abi::BPFDB_RESERVE_SHARE)).clamp(least.into(), most.into())
}

/// Pages of a large value, its table included.
fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(u64::from(abi::BPFDB_PAGE_SIZE)) + 2
}
