//! Reads of values that go on beside who needs them, so that none of a server's clients waits for another one's read.
//!
//! ```text
//!  begin ──► at hand: in the page cache, or the kernel has read it ──────────────► over
//!    └─────► queue ──► a thread reads it, checked ──► over ──► its sessions are told, by the bell
//!                                                                                  │
//!                                 a copy, as long as somebody has the read ◄───────┘
//! ```
//!
//! Invariants
//!
//! 1. A read is that of a place, a key and a length, and what it brings was checked against them. Whether a version still
//!    names the place is found out by the command, which is executed again.
//! 2. Of one place one read is under way: others join it.
//! 3. What a read has brought goes with the last one who has the read. So nobody who has lost interest leaves bytes behind.
//! 4. No thread that begins a read waits for a disk, or for a thread that does.
//! 5. A read that a thread has begun ends, if only by an error.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bpfdb::{ColdPlace, ColdRead, Status};
use bpfdb_log::Disk;
use rustc_hash::FxHashMap;

use crate::figures::Counts;
use crate::runs::{AtHand, Runs};
use crate::victims::LEN_MAX;

/// Reads that threads make at the same time: a disk is hardly faster with more.
const THREADS: usize = 32;
/// Reads that a thread makes one after the other, before another one is woken, if the disk has been told of them: then they end
/// at about the same time, and one that wakes for each costs more than it saves.
const IN_A_ROW: usize = 4;
/// For how long threads that are awake are believed to take what waits, after one has begun a read: longer than most reads of a
/// fast disk. What is slow may have all of them.
const BELIEVED: Duration = Duration::from_millis(1);
/// Bytes of a thread's stack: values are not on it.
const STACK: usize = 256 << 10;
/// Bytes of reads that are under way, or have ended and are still wanted. Beyond that the server's thread reads, which
/// slows down those who want more.
const HELD_MOST: u64 = 64 << 20;
/// What a read takes besides key and value, about.
const OVERHEAD: u64 = 256;

const _: () = assert!(
    LEN_MAX + OVERHEAD + 4096 < HELD_MOST,
    "any value can be read beside"
);

type Told = Box<dyn Fn() + Send + Sync>;

/// The read of one value.
pub(crate) struct Read {
    key: Vec<u8>,
    len: u64,
    place: ColdPlace,
    outcome: OnceLock<Result<Vec<u8>, Status>>,
    /// Sessions that are told of its end. Changed by who has the lock of [`Shared::state`].
    sessions: Mutex<Vec<u32>>,
    shared: Arc<Shared>,
}

impl Read {
    fn is_of(&self, key: &[u8], len: u64) -> bool {
        self.key == key && self.len == len
    }

    /// Bytes that it takes.
    fn size(&self) -> u64 {
        size_of_read(&self.key, self.len)
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<u32>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size_of_read(key: &[u8], len: u64) -> u64 {
    len + key.len() as u64 + OVERHEAD
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        f.debug_struct("Read")
            .field("place", place)
            .finish_non_exhaustive()
    }
}

impl ColdRead for Read {
    fn outcome(&self) -> Option<&Result<Vec<u8>, Status>> {
        self.outcome.get()
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        self.shared.held.fetch_sub(self.size(), Ordering::Relaxed);
        let mut state = self.shared.state();
        // Another one of the place may have begun since.
        if let Some(known) = state.reads.get(&self.place)
            && known.strong_count() == 0
        {
            state.reads.remove(&self.place);
        }
    }
}

#[derive(Default)]
struct State {
    /// Those that somebody has.
    reads: FxHashMap<ColdPlace, Weak<Read>>,
    /// Those that no thread has begun.
    queue: VecDeque<Arc<Read>>,
    /// Threads that wait for the queue, and of these, those that have been woken.
    idle: usize,
    woken: usize,
    threads: Vec<JoinHandle<()>>,
    /// Reads that threads have begun, and what [`Reads::hurry`] found there the last time.
    begun: u64,
    begun_before: u64,
    /// When a thread has begun one last.
    last_begun: Option<Instant>,
    /// Sessions to be told.
    ended: Vec<u32>,
    is_over: bool,
}

/// What all threads know.
#[derive(Default)]
struct Shared {
    counts: Arc<Counts>,
    state: Mutex<State>,
    work: Condvar,
    /// Bytes of all reads that somebody has.
    held: AtomicU64,
    bell: Mutex<Option<Told>>,
}

impl Shared {
    /// No read is dropped while this is there: that takes it, too.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next read that is to be made; `None`: no more are.
    fn next(&self) -> Option<Arc<Read>> {
        loop {
            if let (read, true) = self.pop()? {
                return Some(read);
            }
        }
    }

    /// With whether somebody wants it: else it would be made before those that somebody does. From then on nobody joins
    /// it.
    fn pop(&self) -> Option<(Arc<Read>, bool)> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(read) = state.queue.pop_front() {
                state.begun += 1;
                state.last_begun = Some(Instant::now());
                let is_wanted = Arc::strong_count(&read) > 1;
                if !is_wanted {
                    state.reads.remove(&read.place);
                }
                return Some((read, is_wanted));
            }
            state.idle += 1;
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            // One that wakes by itself is nobody that was woken.
            state.woken = state.woken.saturating_sub(1);
        }
    }

    fn end(&self, read: &Read, outcome: Result<Vec<u8>, Status>) {
        self.counts.note_read(&outcome);
        let mut state = self.state();
        // It has none before: one thread makes it, once.
        let _ = read.outcome.set(outcome);
        let was_silent = state.ended.is_empty();
        state.ended.extend_from_slice(&read.sessions());
        let rings = was_silent && !state.ended.is_empty();
        drop(state);
        let bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = bell.as_ref().filter(|_| rings) {
            ring();
        }
    }
}

/// Makes the read.
fn make<D: Disk>(runs: &Runs<D>, read: &Read) -> Result<Vec<u8>, Status> {
    let _reads = runs.reads_for_command();
    runs.read_value(&read.key, read.len, read.place)
}

/// The reads that go on beside the server's thread, and the threads that make them.
pub(crate) struct Reads {
    shared: Arc<Shared>,
}

impl Reads {
    pub(crate) fn new(counts: Arc<Counts>) -> Self {
        let shared = Shared {
            counts,
            ..Shared::default()
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn known(&self, place: ColdPlace) -> Option<Arc<Read>> {
        let state = self.shared.state();
        state.reads.get(&place).and_then(Weak::upgrade)
    }

    /// Begins the read for a session, or joins it. `None`: too much is being read, or there is no thread.
    pub(crate) fn begin<D>(
        &self,
        runs: &Arc<Runs<D>>,
        (key, len, place): (&[u8], u64, ColdPlace),
        session: u32,
    ) -> Option<Arc<dyn ColdRead>>
    where
        D: Disk + Send + Sync + 'static,
        D::File: Send + Sync,
    {
        if let Some(read) = self.known(place) {
            if !read.is_of(key, len) {
                return None;
            }
            if self.join(&read, session) {
                return Some(read);
            }
        }
        let size = size_of_read(key, len);
        let held = self.shared.held.fetch_add(size, Ordering::Relaxed);
        let read = Arc::new(Read {
            key: key.to_vec(),
            len,
            place,
            outcome: OnceLock::new(),
            sessions: Mutex::new(vec![session]),
            shared: Arc::clone(&self.shared),
        });
        if held + size > HELD_MOST {
            return None;
        }
        let at_hand = runs.read_at_hand(key, len, place);
        let is_told = matches!(at_hand, AtHand::OnItsWay);
        let is_at_hand = matches!(at_hand, AtHand::Value(_));
        if let AtHand::Value(value) = at_hand {
            let outcome = Ok(value);
            self.shared.counts.note_read(&outcome);
            // It has none before.
            let _ = read.outcome.set(outcome);
        }
        (self.shared.state().reads).insert(place, Arc::downgrade(&read));
        (is_at_hand || self.queue(runs, &read, is_told)).then_some(read as Arc<dyn ColdRead>)
    }

    /// Has the session told of the end, unless that has come. False: it was an error, of which those are told who have waited
    /// for it.
    fn join(&self, read: &Read, session: u32) -> bool {
        let _state = self.shared.state();
        let mut sessions = read.sessions();
        let has_waited = sessions.contains(&session);
        match read.outcome() {
            Some(outcome) => has_waited || outcome.is_ok(),
            None => {
                if !has_waited {
                    sessions.push(session);
                }
                true
            }
        }
    }

    /// Leaves it to a thread; false: there is none. `is_told`: the disk knows of it.
    fn queue<D>(&self, runs: &Arc<Runs<D>>, read: &Arc<Read>, is_told: bool) -> bool
    where
        D: Disk + Send + Sync + 'static,
        D::File: Send + Sync,
    {
        let mut state = self.shared.state();
        let waiting = state.queue.len() + 1;
        let asleep = state.idle - state.woken;
        let awake = state.threads.len() - asleep;
        let is_taken = |begun: Instant| begun.elapsed() < BELIEVED;
        let is_others =
            is_told && waiting <= awake * IN_A_ROW && state.last_begun.is_some_and(is_taken);
        if !is_others && asleep == 0 {
            // Without one more those that there are take it.
            self.start_thread(runs, &mut state);
        }
        if state.threads.is_empty() {
            return false;
        }
        state.queue.push_back(Arc::clone(read));
        let wakes = !is_others && asleep > 0;
        state.woken += usize::from(wakes);
        drop(state);
        if wakes {
            self.shared.work.notify_one();
        }
        true
    }

    /// Has a thread for each read that waits, if none has begun since this was called last: all that are awake have slow ones.
    pub(crate) fn hurry<D>(&self, runs: &Arc<Runs<D>>)
    where
        D: Disk + Send + Sync + 'static,
        D::File: Send + Sync,
    {
        let mut state = self.shared.state();
        let begun = state.begun;
        if std::mem::replace(&mut state.begun_before, begun) != begun {
            return;
        }
        let waiting = state.queue.len();
        let wakes = waiting.min(state.idle - state.woken);
        state.woken += wakes;
        for _ in wakes..waiting {
            if !self.start_thread(runs, &mut state) {
                break;
            }
        }
        drop(state);
        for _ in 0..wakes {
            self.shared.work.notify_one();
        }
    }

    /// One more, if there may be, and can.
    fn start_thread<D>(&self, runs: &Arc<Runs<D>>, state: &mut State) -> bool
    where
        D: Disk + Send + Sync + 'static,
        D::File: Send + Sync,
    {
        if state.threads.len() >= THREADS {
            return false;
        }
        let (runs, shared) = (Arc::clone(runs), Arc::clone(&self.shared));
        let work = move || {
            while let Some(read) = shared.next() {
                // Who waits for it is told of a panic as of any error, and the thread goes on: it counts as one that takes what
                // waits.
                let outcome = panic::catch_unwind(AssertUnwindSafe(|| make(&runs, &read)));
                shared.end(&read, outcome.unwrap_or(Err(Status::TierUnavailable)));
            }
        };
        let thread = thread::Builder::new()
            .name("bpfdb-read".into())
            .stack_size(STACK)
            .spawn(work);
        match thread {
            Ok(thread) => state.threads.push(thread),
            Err(error) => {
                tracing::warn!(%error, "cannot start a thread that reads cold values");
                return false;
            }
        }
        true
    }

    /// Whom to tell that there are [`Self::take_ended`]: by any thread. Sessions of somebody before are not told any more.
    pub(crate) fn set_bell(&self, ring: Told) {
        self.take_ended();
        let mut bell = (self.shared.bell.lock()).unwrap_or_else(PoisonError::into_inner);
        *bell = Some(ring);
    }

    /// Sessions for which reads have ended since this was asked last.
    pub(crate) fn take_ended(&self) -> Vec<u32> {
        std::mem::take(&mut self.shared.state().ended)
    }
}

impl Drop for Reads {
    /// What is under way ends; what has not begun never does.
    fn drop(&mut self) {
        let (queue, threads) = {
            let mut state = self.shared.state();
            state.is_over = true;
            (
                std::mem::take(&mut state.queue),
                std::mem::take(&mut state.threads),
            )
        };
        drop(queue);
        self.shared.work.notify_all();
        for thread in threads {
            // A panic there was already reported by its hook.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use bpfdb::RunUse;
    use bpfdb_log::simulation::SimulatedDisk;

    use super::*;
    use crate::writer::{NewValue, RunWriter};

    const KEY: &[u8] = b"key";
    const VALUE: &[u8] = &[7; 100];
    const LEN: u64 = VALUE.len() as u64;

    struct World {
        disk: SimulatedDisk,
        runs: Arc<Runs<SimulatedDisk>>,
        reads: Reads,
        place: ColdPlace,
        rings: mpsc::Receiver<()>,
    }

    impl World {
        fn new() -> Self {
            let disk = SimulatedDisk::new(1);
            let runs = Arc::new(Runs::open(disk.clone(), 7).expect("runs"));
            let value = NewValue {
                key: KEY.to_vec(),
                kind: 0,
                value: VALUE.to_vec(),
                timestamp: 1,
            };
            let uses = vec![RunUse::default(); bpfdb::abi::BPFDB_RUNS_MAX as usize];
            let mut writer = RunWriter::new(Arc::clone(&runs), 1 << 20);
            let places = writer.append(&[value], &uses).expect("written");
            let (ring, rings) = mpsc::channel();
            let reads = Reads::new(Arc::default());
            reads.set_bell(Box::new(move || ring.send(()).expect("heard")));
            Self {
                disk,
                runs,
                reads,
                place: places[0],
                rings,
            }
        }

        fn begin(&self, session: u32) -> Option<Arc<dyn ColdRead>> {
            let what = (KEY, LEN, self.place);
            self.reads.begin(&self.runs, what, session)
        }

        fn until_waiting(&self, reads: usize) {
            let begun = Instant::now();
            while self.disk.waiting_reads() < reads {
                assert!(begun.elapsed() < Duration::from_secs(30), "it is read");
                thread::yield_now();
            }
        }

        /// As if a thread had begun a read so long ago.
        fn last_begun(&self, ago: Duration) {
            self.reads.shared.state().last_begun = Instant::now().checked_sub(ago);
        }

        /// As if a thread began a read whenever it is asked.
        fn threads_begin(&self) {
            let later = Instant::now() + Duration::from_secs(600);
            self.reads.shared.state().last_begun = Some(later);
        }

        fn until_idle(&self, threads: usize) {
            let begun = Instant::now();
            while self.reads.shared.state().idle < threads {
                assert!(begun.elapsed() < Duration::from_secs(30), "they sleep");
                thread::yield_now();
            }
        }

        fn until_over(reads: &[Option<Arc<dyn ColdRead>>]) {
            let is_over =
                |read: &Option<Arc<dyn ColdRead>>| read.as_ref().is_some_and(|read| read.is_over());
            let begun = Instant::now();
            while !reads.iter().all(is_over) {
                assert!(begun.elapsed() < Duration::from_secs(30), "they are over");
                thread::yield_now();
            }
        }

        fn hear(&self) {
            let heard = self.rings.recv_timeout(Duration::from_secs(30));
            heard.expect("the bell");
        }
    }

    #[test]
    fn those_who_want_a_value_wait_for_one_read_and_are_told_of_its_end() {
        let world = World::new();
        world.disk.hold_reads(true);
        let reads = [1, 2, 2].map(|session| world.begin(session).expect("begun"));
        world.until_waiting(1);
        assert!(reads.iter().all(|read| !read.is_over()));
        world.disk.hold_reads(false);
        world.hear();
        assert_eq!(world.reads.take_ended(), [1, 2]);
        assert_eq!(world.disk.waiting_reads(), 0);
        assert!(reads.iter().all(|read| read.is_over()));
        for read in &reads {
            assert_eq!(read.outcome(), Some(&Ok(VALUE.to_vec())));
        }
        // Whoever asks for something else there reads it.
        let begin = |key, len| world.reads.begin(&world.runs, (key, len, world.place), 4);
        assert!(begin(b"other", LEN).is_none());
        assert!(begin(KEY, LEN - 1).is_none());
        // It is over when one more begins it, who is not told.
        assert!(world.begin(3).expect("begun").is_over());
        assert_eq!(world.reads.take_ended(), [0; 0]);
    }

    #[test]
    fn what_was_read_goes_with_the_last_who_has_it() {
        let world = World::new();
        let read = world.begin(1).expect("begun");
        world.hear();
        drop(read);
        let shared = &world.reads.shared;
        let begun = Instant::now();
        // The thread has it a moment longer.
        while shared.held.load(Ordering::Relaxed) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is held");
            thread::yield_now();
        }
        assert!(shared.state().reads.is_empty());
    }

    #[test]
    fn no_read_begins_beyond_the_bound() {
        let world = World::new();
        world.disk.hold_reads(true);
        let first = world.begin(1).expect("begun");
        let other = ColdPlace {
            offset: 1 << 20,
            ..world.place
        };
        let begin = |len| world.reads.begin(&world.runs, (KEY, len, other), 1);
        let rest = HELD_MOST - 2 * size_of_read(KEY, 0) - LEN;
        assert!(begin(rest + 1).is_none());
        assert!(begin(rest).is_some());
        drop(first);
        world.disk.hold_reads(false);
    }

    #[test]
    fn an_end_does_not_wait_for_reads_that_no_thread_has_begun() {
        let world = World::new();
        world.disk.hold_reads(true);
        let places = (0..2 * THREADS as u64).map(|number| ColdPlace {
            offset: number << 12,
            ..world.place
        });
        let begin = |place| world.reads.begin(&world.runs, (KEY, LEN, place), 1);
        let all: Vec<_> = places.map(|place| begin(place).expect("begun")).collect();
        world.until_waiting(THREADS);
        let (disk, shared) = (world.disk.clone(), Arc::clone(&world.reads.shared));
        let release = thread::spawn(move || {
            while !shared.state().is_over {
                thread::yield_now();
            }
            disk.hold_reads(false);
        });
        drop(world.reads);
        release.join().expect("no panic");
        let over = all.iter().filter(|read| read.is_over()).count();
        assert_eq!(over, THREADS);
    }

    #[test]
    fn who_has_not_waited_for_a_read_that_failed_has_another_one() {
        let world = World::new();
        let run = crate::run_name(world.place.run);
        world.disk.hold_reads(true);
        let first = world.begin(1).expect("begun");
        world.until_waiting(1);
        let len = world.disk.contents(&run).expect("a file").len();
        for block in (0..len).step_by(4096) {
            world.disk.spoil(&run, block);
        }
        world.disk.hold_reads(false);
        world.hear();
        let error = Err(Status::TierUnavailable);
        assert_eq!(first.outcome(), Some(&error));
        let same = world.begin(1).expect("the same");
        assert_eq!(same.outcome(), Some(&error));
        world.disk.hold_reads(true);
        let other = world.begin(2).expect("begun");
        assert!(!other.is_over());
        world.disk.hold_reads(false);
    }

    /// A thread has some of them, but a slow one keeps no others waiting for long.
    #[test]
    fn reads_that_the_disk_knows_of_share_threads() {
        let world = World::new();
        world.disk.know_reads(true);
        world.disk.hold_reads(true);
        let begin = |number: u64| {
            let offset = number << 12;
            let place = ColdPlace {
                offset,
                ..world.place
            };
            (world.reads).begin(&world.runs, (KEY, LEN, place), number as u32)
        };
        let first = begin(1);
        world.until_waiting(1);
        world.threads_begin();
        let others: Vec<_> = (2..2 + IN_A_ROW as u64).map(begin).collect();
        let threads = || world.reads.shared.state().threads.len();
        assert_eq!(threads(), 1);
        let one_more = begin(100);
        assert_eq!(threads(), 2);
        world.until_waiting(2);
        // Reads have begun since the call before this one.
        world.reads.hurry(&world.runs);
        assert_eq!(threads(), 2);
        world.reads.hurry(&world.runs);
        world.until_waiting(2 + IN_A_ROW);
        world.disk.hold_reads(false);
        World::until_over(&[&[first, one_more][..], &others].concat());
    }

    /// Else each read of few clients would wait until somebody looks after those that wait.
    #[test]
    fn one_slow_read_keeps_no_others_waiting() {
        let world = World::new();
        world.disk.know_reads(true);
        world.disk.hold_reads(true);
        let begin = |number: u64| {
            let offset = number << 12;
            let place = ColdPlace {
                offset,
                ..world.place
            };
            (world.reads).begin(&world.runs, (KEY, LEN, place), number as u32)
        };
        let slow = begin(1);
        world.until_waiting(1);
        let state = || world.reads.shared.state();
        // It still may end soon: nobody else is woken for the next one.
        world.threads_begin();
        let next = begin(2);
        assert_eq!(state().threads.len(), 1);
        assert_eq!(state().queue.len(), 1);
        // It does not.
        world.last_begun(BELIEVED);
        let last = begin(3);
        assert_eq!(state().threads.len(), 2);
        world.until_waiting(2);
        assert_eq!(state().queue.len(), 1);
        // Nor does the second: each has one more thread, as long as there may be.
        world.last_begun(BELIEVED);
        let one_more = begin(4);
        world.until_waiting(3);
        assert_eq!(state().threads.len(), 3);
        world.disk.hold_reads(false);
        World::until_over(&[slow, next, last, one_more]);
        world.until_idle(3);
        // Those that sleep are woken before others are made.
        world.disk.hold_reads(true);
        let slow = begin(5);
        world.until_waiting(1);
        world.last_begun(BELIEVED);
        let next = begin(6);
        world.until_waiting(2);
        assert_eq!(state().threads.len(), 3);
        world.disk.hold_reads(false);
        World::until_over(&[slow, next]);
    }

    #[test]
    fn a_panic_ends_its_read_and_no_other() {
        let world = World::new();
        world.disk.panic_in_reads(true);
        let broken = world.begin(1).expect("begun");
        world.hear();
        assert_eq!(broken.outcome(), Some(&Err(Status::TierUnavailable)));
        assert_eq!(world.reads.take_ended(), [1]);
        world.disk.panic_in_reads(false);
        // Its thread goes on.
        world.until_idle(1);
        let read = world.begin(2).expect("begun");
        world.hear();
        assert_eq!(read.outcome(), Some(&Ok(VALUE.to_vec())));
        assert_eq!(world.reads.shared.state().threads.len(), 1);
    }

    #[test]
    fn reads_that_nobody_wants_any_more_are_not_made() {
        let world = World::new();
        world.disk.hold_reads(true);
        let begin = |number: u64| {
            let offset = number << 12;
            let place = ColdPlace {
                offset,
                ..world.place
            };
            (world.reads).begin(&world.runs, (KEY, LEN, place), number as u32)
        };
        let kept: Vec<_> = (0..THREADS as u64).map(begin).collect();
        world.until_waiting(THREADS);
        drop(
            (THREADS as u64..2 * THREADS as u64)
                .map(begin)
                .collect::<Vec<_>>(),
        );
        world.disk.hold_reads(false);
        world.until_idle(THREADS);
        let counts = &world.reads.shared.counts;
        assert_eq!(counts.fetches.load(Ordering::Relaxed), THREADS as u64);
        drop(kept);
    }

    /// Else nobody would ring for those that follow.
    #[test]
    fn who_comes_next_is_told_although_nobody_has_heard_the_last_bell() {
        let world = World::new();
        let read = world.begin(1).expect("begun");
        world.hear();
        drop(read);
        let (ring, rings) = mpsc::channel();
        world
            .reads
            .set_bell(Box::new(move || ring.send(()).expect("heard")));
        let begun = Instant::now();
        while world.reads.shared.held.load(Ordering::Relaxed) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is held");
            thread::yield_now();
        }
        let _read = world.begin(2).expect("begun");
        let heard = rings.recv_timeout(Duration::from_secs(30));
        heard.expect("the new bell");
        assert_eq!(world.reads.take_ended(), [2]);
    }
}
