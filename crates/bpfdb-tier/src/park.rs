//! GETs of cold values that the kernel answers when their read completes. `bpf/tier/park.bpf.h` is the other side, and
//! has the protocol; `docs/decisions/0054-cold-values-answered-in-the-kernel.md` has the invariants.
//!
//! ```text
//! Tier::seat ──► Seat: a socket, and room for one request ──► programs park in it
//!                  │ Seat::take: the request, if it is the daemon's          │ Drop: nothing is sent any more
//!                  ▼                                                         ▼
//!               the connection, as if it had received it               free, when nothing is under way
//! ```

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bpfdb::{COLD_GRAIN, ColdPlace};
use bpfdb_ring::{Entry, Mapped, Options, Ring};
use libbpf_rs::MapHandle;

use crate::abi::{self, bpfdb_parking, bpfdb_seat};
use crate::bell::Bell;

const SEATS: u32 = abi::BPFDB_SEATS;
const STRIDE: usize = size_of::<bpfdb_seat>();
const RUNS: u32 = bpfdb::abi::BPFDB_RUNS_MAX;

const _: () = assert!(
    STRIDE.is_multiple_of(8),
    "as the kernel lays values of a map out"
);

/// A request that waits for so long is the daemon's.
const PATIENCE: Duration = Duration::from_millis(50);
/// Between two looks for one, and at the queue if no bell tells of it.
const LOOK: Duration = Duration::from_millis(25);
/// `IORING_OP_NOP`.
const NOP: u64 = 0;

const STATE_MASK: u64 = (1 << abi::BPFDB_SEAT_STATE_BITS) - 1;

#[cfg(test)]
mod tests;

/// Maps of the programs that park requests.
#[derive(Clone, Copy, Debug)]
pub struct ParkMaps<'a> {
    /// `.bss.park`.
    pub memory: BorrowedFd<'a>,
    /// `seats`, as [`create_seats`] makes it.
    pub seats: BorrowedFd<'a>,
    /// `park_bell`.
    pub bell: BorrowedFd<'a>,
}

/// A map for all seats, 1.4 MiB, with which programs are to be loaded in place of their own one of this type.
///
/// # Errors
/// Those of the system.
pub fn create_seats() -> io::Result<MapHandle> {
    crate::bell::create_array("seats", STRIDE, SEATS)
}

/// What has become of requests since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkFigures {
    /// That waited in the kernel for their value.
    pub parked: u64,
    /// Of these, that the kernel has answered.
    pub answered: u64,
    /// That it has left to the daemon after their read: it failed, or the value had changed.
    pub left: u64,
    /// That the daemon has taken while they were read.
    pub taken: u64,
    /// Seats in which something is under way now, or that a connection has.
    pub seats: u64,
}

/// What there is of a request in a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parked {
    /// None.
    Nothing,
    /// Its reply is being sent: nothing else may be until that is over.
    Sending,
    /// It is the daemon's, as it arrived.
    Request(Vec<u8>),
}

/// Is called when [`Parker::take_overdue`] has something.
pub(crate) type Told = Box<dyn Fn() + Send + Sync>;

/// The io_uring that programs write reads and replies into, and its seats.
pub(crate) struct Parker {
    // The programs first, then the ring, then its memory.
    _tracepoint: OwnedFd,
    ring: Ring,
    memory: Mapped,
    seats: Mapped,
    bell: Bell,
    /// Seats that no connection has.
    free: Mutex<VecDeque<u32>>,
    /// Connections whose request waits for too long: index, cookie.
    overdue: Mutex<Vec<(u32, u64)>>,
    told: Mutex<Option<Told>>,
    taken: AtomicU64,
    /// [`PATIENCE`], or what a test says, nanoseconds.
    patience: AtomicU64,
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker").finish_non_exhaustive()
    }
}

impl Parker {
    /// Makes the ring in memory of these maps, for the engine of this identity. `tracepoint` has the program attached that hears of
    /// completions, as long as it is open. Requests are parked when [`Self::enable`] and [`Self::set_full`] say so.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(crate) fn start(maps: &ParkMaps<'_>, tracepoint: OwnedFd, engine: u64) -> io::Result<Self> {
        let memory = Mapped::new(maps.memory, size_of::<bpfdb_parking>())?;
        let seats = Mapped::new(maps.seats, SEATS as usize * STRIDE)?;
        let bell = Bell::map(maps.bell)?;
        let all: *mut bpfdb_parking = memory.at(0);
        // SAFETY: within the mapping.
        let ring = unsafe { &raw mut (*all).ring };
        let options = Options {
            // A thread of io_uring would look for requests for a tick of the clock each time, and take the processor
            // from those who ask.
            idle: None,
            processor: None,
            completions: 2 * SEATS,
        };
        let ring = NonNull::new(ring.cast()).expect("within a mapping");
        // SAFETY: the mappings stay as long as the ring: they are dropped after it. References to a request are made
        // while programs write to another part of its seat only.
        let ring = unsafe { Ring::create(ring, &options) }?;
        let start: *mut u8 = seats.at(0);
        // SAFETY: as above.
        unsafe { ring.register_buffer(start, SEATS as usize * STRIDE) }?;
        ring.register_files(&vec![None; (RUNS + SEATS) as usize])?;
        let hello = RandomState::new().hash_one(0) | 0xff << 56;
        // SAFETY: within the mapping; no program parks before it `is_on`, and the one of completions knows none
        // before `hello`.
        unsafe {
            (&raw mut (*all).crc).write_volatile(checksum_tables());
            (&raw mut (*all).seats).write_volatile(start.expose_provenance() as u64);
            (&raw mut (*all).engine).write_volatile(engine);
            (&raw mut (*all).bell).write_volatile(bell.as_raw_fd() as u64);
            (&raw mut (*all).context).write_volatile(0);
            AtomicU64::from_ptr(&raw mut (*all).hello).store(hello, Ordering::Release);
        }
        let parker = Self {
            _tracepoint: tracepoint,
            ring,
            memory,
            seats,
            bell,
            free: Mutex::new((0..SEATS).collect()),
            overdue: Mutex::default(),
            told: Mutex::default(),
            taken: AtomicU64::new(0),
            patience: AtomicU64::new(PATIENCE.as_nanos() as u64),
        };
        // Its completion tells the program which ring this is, and which thread submits, and has the bell polled.
        let entry: Entry = [NOP, 0, 0, 0, hello, 0, 0, 0];
        // SAFETY: it names nothing.
        if !unsafe { parker.ring.put(&entry) } {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(parker)
    }

    fn flag(&self, at: impl FnOnce(*mut bpfdb_parking) -> *mut u32) -> &AtomicU32 {
        // SAFETY: an aligned word within the mapping, which only this process writes.
        unsafe { AtomicU32::from_ptr(at(self.memory.at(0))) }
    }

    fn count(&self, at: impl FnOnce(*mut bpfdb_parking) -> *mut u64) -> u64 {
        // SAFETY: an aligned word within the mapping, which programs change by atomic instructions.
        unsafe { AtomicU64::from_ptr(at(self.memory.at(0))) }.load(Ordering::Relaxed)
    }

    /// Whether programs park requests from now on.
    pub(crate) fn enable(&self, is_on: bool) {
        // SAFETY: an address within the mapping.
        let word = self.flag(|all| unsafe { &raw mut (*all).is_on });
        word.store(is_on.into(), Ordering::Release);
    }

    /// Whether memory is so full that only what is read twice comes back to it. Else every value is read by the daemon,
    /// which brings it back.
    pub(crate) fn set_full(&self, is_full: bool) {
        // SAFETY: as above.
        let word = self.flag(|all| unsafe { &raw mut (*all).is_full });
        word.store(is_full.into(), Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> ParkFigures {
        let words = (0..SEATS).map(|number| self.word(number).load(Ordering::Relaxed));
        let under_way = words.filter(|word| word & STATE_MASK != IDLE_STATE).count();
        // SAFETY: addresses within the mapping.
        unsafe {
            ParkFigures {
                parked: self.count(|all| &raw mut (*all).parked),
                answered: self.count(|all| &raw mut (*all).answered),
                left: self.count(|all| &raw mut (*all).left),
                taken: self.taken.load(Ordering::Relaxed),
                seats: (SEATS as usize - self.free().len()).max(under_way) as u64,
            }
        }
    }

    /// From now on this is the file of the run; `None`: it has none.
    pub(crate) fn set_file(&self, run: u64, file: Option<BorrowedFd<'_>>) {
        let number = (run % u64::from(RUNS)) as u32;
        if let Err(error) = self.ring.set_file(number, file) {
            tracing::warn!(%error, run, "the kernel cannot read a file of cold values");
        }
    }

    /// Until a run comes or goes the kernel reads this file in the place of all of them, and requests wait for so long.
    pub(crate) fn read_instead(&self, file: BorrowedFd<'_>, patience: Duration) {
        self.patience
            .store(patience.as_nanos() as u64, Ordering::Relaxed);
        for run in 0..u64::from(RUNS) {
            self.set_file(run, Some(file));
        }
    }

    /// Has the kernel read the value of this place lately, as far as is known?
    pub(crate) fn was_read(&self, place: ColdPlace) -> bool {
        let mixed =
            ((place.run << 32) ^ (place.offset / COLD_GRAIN)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let at = (mixed >> 40) as usize % abi::BPFDB_PARK_RECENT as usize;
        // SAFETY: an aligned word within the mapping, which programs write as a whole.
        let recent = self.flag(|all| unsafe { (&raw mut (*all).recent).cast::<u32>().add(at) });
        recent.load(Ordering::Relaxed) == mixed as u32 | 1
    }

    // ---- Seats -----------------------------------------------------------------------

    /// A seat for this socket, whose connection has the index and the cookie. `None`: all are taken, or the system refuses.
    pub(crate) fn seat(
        self: &Arc<Self>,
        socket: BorrowedFd<'_>,
        index: u32,
        cookie: u64,
    ) -> Option<Seat> {
        let number = self.take_free()?;
        let word = self.word(number);
        // Another generation: what its last owner has had sent says nothing any more.
        let generation = (word.load(Ordering::Acquire) >> abi::BPFDB_SEAT_STATE_BITS) + 1;
        word.store(
            generation << abi::BPFDB_SEAT_STATE_BITS | IDLE_STATE,
            Ordering::Release,
        );
        let seat = self.at(number);
        // SAFETY: within the mapping; no program has the seat.
        unsafe {
            (&raw mut (*seat).cookie).write_volatile(cookie);
            (&raw mut (*seat).connection).write_volatile(index);
        }
        if let Err(error) = self.ring.set_file(RUNS + number, Some(socket)) {
            tracing::debug!(%error, "io_uring does not take a socket");
            self.free().push_back(number);
            return None;
        }
        Some(Seat {
            parker: Arc::clone(self),
            number,
        })
    }

    /// One in which nothing is under way any more.
    fn take_free(&self) -> Option<u32> {
        let mut free = self.free();
        let is_idle =
            |number: &u32| self.word(*number).load(Ordering::Acquire) & STATE_MASK == IDLE_STATE;
        let at = free.iter().position(is_idle)?;
        free.remove(at)
    }

    fn free(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, number: u32) -> *mut bpfdb_seat {
        self.seats.at(number as usize * STRIDE)
    }

    fn word(&self, number: u32) -> &AtomicU64 {
        // SAFETY: an aligned word within the mapping, which all change by atomic instructions, or in a state
        // that nobody else leaves.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.at(number)).word) }
    }

    /// The request that is in the seat, and stays there until the word says otherwise.
    fn request(&self, number: u32) -> Vec<u8> {
        let seat = self.at(number);
        // SAFETY: within the mapping. A program writes it in IDLE only.
        unsafe {
            let len = (&raw const (*seat).request_len).read_volatile() as usize;
            let start: *const u8 = (&raw const (*seat).request).cast();
            std::slice::from_raw_parts(start, len.min(abi::BPFDB_SEAT_REQUEST as usize)).to_vec()
        }
    }

    // ---- What programs ask io_uring for ----------------------------------------------

    /// Submits it, until it is told to stop. Completions are the program's: they run it, in this thread. No other thread
    /// submits: `redis_answer` would take a reply that it sends for one of the daemon's, which nobody has committed.
    fn submit(&self, stopped: &AtomicBool) {
        // SAFETY: an address within the mapping.
        let waits = self.flag(|all| unsafe { &raw mut (*all).waits });
        while !stopped.load(Ordering::SeqCst) {
            self.ring.take(|_| {});
            self.bell.empty();
            // In this order: what is put into the queue from here on rings the bell.
            waits.store(1, Ordering::SeqCst);
            // Now and then without a bell: a program may have found no room for it.
            let waited = self.ring.submit_and_wait(LOOK);
            waits.store(0, Ordering::SeqCst);
            if let Err(error) = waited
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::warn!(%error, "io_uring does not take requests");
                thread::park_timeout(LOOK);
            }
        }
    }

    // ---- What waits for too long -----------------------------------------------------

    pub(crate) fn set_told(&self, told: Told) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Connections whose request waits for too long: index and cookie.
    pub(crate) fn take_overdue(&self) -> Vec<(u32, u64)> {
        let mut overdue = self.overdue.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *overdue)
    }

    fn look(&self) {
        let now = monotonic();
        let found: Vec<_> = (0..SEATS)
            .filter_map(|number| self.overdue_at(number, now))
            .collect();
        if found.is_empty() {
            return;
        }
        let mut overdue = self.overdue.lock().unwrap_or_else(PoisonError::into_inner);
        overdue.extend(found);
        drop(overdue);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = &*told {
            ring();
        }
    }

    fn overdue_at(&self, number: u32, now: u64) -> Option<(u32, u64)> {
        if self.word(number).load(Ordering::Acquire) & STATE_MASK != READING {
            return None;
        }
        let seat = self.at(number);
        // SAFETY: within the mapping; a program may be writing them, and then the connection is looked at in vain.
        let (since, index, cookie) = unsafe {
            (
                (&raw const (*seat).since).read_volatile(),
                (&raw const (*seat).connection).read_volatile(),
                (&raw const (*seat).cookie).read_volatile(),
            )
        };
        let patience = self.patience.load(Ordering::Relaxed);
        (now.saturating_sub(since) > patience).then_some((index, cookie))
    }
}

impl Drop for Parker {
    fn drop(&mut self) {
        self.enable(false);
    }
}

const IDLE_STATE: u64 = abi::BPFDB_SEAT_IDLE as u64;
const READING: u64 = abi::BPFDB_SEAT_READING as u64;
const SENDING: u64 = abi::BPFDB_SEAT_SENDING as u64;
const FAILED: u64 = abi::BPFDB_SEAT_FAILED as u64;
const LATE: u64 = abi::BPFDB_SEAT_LATE as u64;
const TAKEN: u64 = abi::BPFDB_SEAT_TAKEN as u64;

/// Room for the one request that a connection may have parked. Its socket stays open until this is dropped, or io_uring has it
/// closed.
#[derive(Debug)]
pub struct Seat {
    parker: Arc<Parker>,
    number: u32,
}

impl Seat {
    pub fn number(&self) -> u32 {
        self.number
    }

    fn word(&self) -> &AtomicU64 {
        self.parker.word(self.number)
    }

    fn moves(&self, word: u64, state: u64) -> bool {
        let next = word & !STATE_MASK | state;
        let moved = self
            .word()
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed);
        moved.is_ok()
    }

    /// Has programs look at what the connection asks for, until they have found no cold value several times.
    pub fn encourage(&self) {
        let seat = self.parker.at(self.number);
        // SAFETY: an aligned word within the mapping, which both sides write as a whole.
        let eager = unsafe { AtomicU32::from_ptr(&raw mut (*seat).eager) };
        eager.store(abi::BPFDB_SEAT_EAGER, Ordering::Release);
    }

    /// The request is the daemon's from now on, if it is still being read: true if it is. Then [`Self::take`] has it.
    pub fn claim(&self) -> bool {
        let word = self.word().load(Ordering::Acquire);
        word & STATE_MASK == READING && self.moves(word, LATE)
    }

    /// Takes the request out of the seat. The kernel does not answer it then. Called while the daemon has the connection.
    pub fn take(&self) -> Parked {
        loop {
            let word = self.word().load(Ordering::Acquire);
            match word & STATE_MASK {
                SENDING => return Parked::Sending,
                READING => {
                    self.moves(word, LATE);
                }
                state @ (LATE | FAILED) => {
                    let request = self.parker.request(self.number);
                    // The read that is under way has its end in TAKEN.
                    if self.moves(word, if state == LATE { TAKEN } else { IDLE_STATE }) {
                        self.parker.taken.fetch_add(1, Ordering::Relaxed);
                        return Parked::Request(request);
                    }
                }
                _ => return Parked::Nothing,
            }
        }
    }

    /// Nothing is sent from now on: the connection is about to be closed.
    pub fn give_up(&self) {
        loop {
            let word = self.word().load(Ordering::Acquire);
            let next = match word & STATE_MASK {
                READING | SENDING | LATE => TAKEN,
                FAILED => IDLE_STATE,
                _ => return,
            };
            if self.moves(word, next) {
                return;
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.give_up();
        // A SEND that is under way has the file as long as it takes.
        if let Err(error) = self.parker.ring.set_file(RUNS + self.number, None) {
            tracing::warn!(%error, "io_uring keeps a socket");
            return;
        }
        self.parker.free().push_back(self.number);
    }
}

/// The threads of a parker: one submits what programs ask for, and one looks for requests that wait for too long.
#[derive(Debug)]
pub(crate) struct Threads {
    parker: Arc<Parker>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn start(parker: &Arc<Parker>) -> io::Result<Self> {
        let mut threads = Self {
            parker: Arc::clone(parker),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        threads.spawn("bpfdb-park", Parker::submit)?;
        threads.spawn("bpfdb-overdue", |parker, stopped| {
            while !stopped.load(Ordering::Relaxed) {
                parker.look();
                thread::park_timeout(LOOK);
            }
        })?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, work: fn(&Parker, &AtomicBool)) -> io::Result<()> {
        let (parker, stop) = (Arc::clone(&self.parker), Arc::clone(&self.stop));
        let thread = thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || work(&parker, &stop))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.parker.enable(false);
        self.stop.store(true, Ordering::SeqCst);
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            for thread in &self.threads {
                thread.thread().unpark();
            }
            thread::sleep(Duration::from_millis(1));
        }
        for thread in self.threads.drain(..) {
            // A panic there was already reported by its hook.
            let _ = thread.join();
        }
    }
}

/// As `bpf_ktime_get_ns` has it, nanoseconds.
fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to what it is given; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `[behind][byte]`: what a byte adds to a CRC-32C behind which so many others follow.
fn checksum_tables() -> [[u32; 256]; 8] {
    const REVERSED: u32 = 0x82F6_3B78;
    let mut tables = [[0u32; 256]; 8];
    for (byte, sum) in tables[0].iter_mut().enumerate() {
        *sum = (0..8).fold(byte as u32, |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { REVERSED } else { 0 }
        });
    }
    for behind in 1..8 {
        tables[behind] = tables[behind - 1].map(|sum| sum >> 8 ^ tables[0][(sum & 0xff) as usize]);
    }
    tables
}
