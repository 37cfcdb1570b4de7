//! The thread that keeps the memory of an engine below a bound.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use bpfdb::{ColdValues, Engine};
use bpfdb_log::Disk;

use crate::demoter::{Demoting, Failed};
use crate::figures::{Counts, Figures, Found};
use crate::park::{ParkMaps, Parker, Seat, Threads};
use crate::prefetch::{PrefetchMaps, Prefetcher};
use crate::reads::Reads;
use crate::runs::Runs;
use crate::values::RunValues;

/// Between two looks at the memory, while there is enough.
const PAUSE: Duration = Duration::from_millis(20);
/// After an error.
const PAUSE_LONG: Duration = Duration::from_secs(1);
/// For so many times as long as a batch is rewritten no other one is, if memory is not short.
const REST: u32 = 3;
/// Of the memory this part is left to what is written, and to what is read twice.
const ROOM_PART: u64 = 16;
/// Between two looks at runs that could go.
const TIDY: Duration = Duration::from_secs(2);

/// How values are kept in files.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of memory for data above which values go to files.
    pub memory: u64,
    /// Bytes of a file, about.
    pub run_size: u64,
    /// How long the thread rests when memory is short and there is no value that could go.
    pub rest: Duration,
}

impl Options {
    /// For `memory`: no value goes to a file, however short memory is; those that are there are read, come
    /// back, and are rewritten.
    pub const NOTHING_GOES: u64 = u64::MAX;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 1 << 30,
            run_size: 64 << 20,
            rest: Duration::from_secs(1),
        }
    }
}

/// The cold values of an engine; its thread ends when this is dropped, and they can still be read.
pub struct Tier {
    counts: Arc<Counts>,
    memory: Arc<AtomicU64>,
    runs: Arc<dyn AnyRuns>,
    reads: Arc<Reads>,
    prefetcher: OnceLock<Arc<Prefetcher>>,
    /// Values are to be read before they are asked for.
    prefetches: Mutex<bool>,
    /// With its threads.
    parker: OnceLock<(Arc<Parker>, Threads)>,
    /// Requests are to be parked.
    parks: Mutex<bool>,
    /// What was said of reads.
    bell: Arc<Mutex<Option<Bell>>>,
    engine: Engine,
    removes_foreign: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier").finish_non_exhaustive()
    }
}

/// Is called by any thread.
type Bell = Arc<dyn Fn() + Send + Sync>;

/// Runs, on whatever disk.
trait AnyRuns: Send + Sync {
    fn sizes(&self) -> (u64, u64);
    fn prefetch_by(&self, prefetcher: &Arc<Prefetcher>) -> bool;
    fn park_by(&self, parker: &Arc<Parker>) -> bool;
}

impl<D> AnyRuns for Runs<D>
where
    D: Disk + Send + Sync,
    D::File: Send + Sync,
{
    fn sizes(&self) -> (u64, u64) {
        Self::sizes(self)
    }

    fn prefetch_by(&self, prefetcher: &Arc<Prefetcher>) -> bool {
        Self::prefetch_by(self, prefetcher)
    }

    fn park_by(&self, parker: &Arc<Parker>) -> bool {
        Self::park_by(self, parker)
    }
}

impl Tier {
    /// Reads the cold values of this engine from `disk` from now on, and gives it more of them when
    /// memory needs it. Before recovery, which may need it, too; and by the engine's owner. Files of other
    /// engines stay until [`Self::remove_foreign`].
    ///
    /// # Errors
    /// The disk, or the engine, refuses; [`io::ErrorKind::AlreadyExists`]: this process has read its cold
    /// values before.
    pub fn start<D>(engine: &Engine, disk: D, options: Options) -> io::Result<Self>
    where
        D: Disk + Send + Sync + 'static,
        D::File: Send + Sync,
    {
        let runs = Arc::new(Runs::open(disk, engine.identity())?);
        let counts = Arc::new(Counts::default());
        let values = Arc::new(RunValues::new(Arc::clone(&runs), Arc::clone(&counts)));
        if !engine.set_cold_values(Arc::clone(&values) as Arc<dyn ColdValues>) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let demoting = Demoting::new(
            engine,
            Arc::clone(&runs),
            options.run_size,
            Arc::clone(&counts),
        )
        .map_err(io::Error::other)?;
        let reads = Arc::clone(values.reads());
        let stop = Arc::new(AtomicBool::new(false));
        let memory = Arc::new(AtomicU64::new(options.memory));
        let removes_foreign = Arc::new(AtomicBool::new(false));
        let work = Work {
            engine: engine.clone(),
            demoting,
            values,
            counts: Arc::clone(&counts),
            memory: Arc::clone(&memory),
            removes_foreign: Arc::clone(&removes_foreign),
            rest: options.rest,
            next_tidy: Instant::now() + TIDY,
        };
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("bpfdb-tier".into())
            .spawn(move || work.run(&stopped))?;
        Ok(Self {
            counts,
            memory,
            runs,
            reads,
            prefetcher: OnceLock::new(),
            prefetches: Mutex::default(),
            parker: OnceLock::new(),
            parks: Mutex::default(),
            bell: Arc::default(),
            engine: engine.clone(),
            removes_foreign,
            stop,
            thread: Some(thread),
        })
    }

    /// Bytes of memory above which values go to files, from now on.
    pub fn set_memory(&self, bytes: u64) {
        self.memory.store(bytes, Ordering::Relaxed);
    }

    /// `ring` is called, by any thread, when there is something to be had of [`Self::take_ended_reads`] or
    /// [`Self::take_overdue`]: in the place of what was said before.
    pub fn tell_of_reads(&self, ring: impl Fn() + Send + Sync + 'static) {
        let ring: Bell = Arc::new(ring);
        let of_reads = Arc::clone(&ring);
        self.reads.set_bell(Box::new(move || of_reads()));
        *self.bell.lock().unwrap_or_else(PoisonError::into_inner) = Some(ring);
    }

    /// Sessions for which reads have ended that they do not wait for (`Session::leave_cold`), since this was asked last.
    pub fn take_ended_reads(&self) -> Vec<u32> {
        self.reads.take_ended()
    }

    /// From now on programs with these maps have values read before they are asked for, while
    /// [`Self::enable_prefetch`] says so. Once only.
    ///
    /// # Errors
    /// The system does not allow it, or programs of another server do so already
    /// ([`io::ErrorKind::AlreadyExists`]): values are read when they are asked for.
    pub fn prefetch(&self, maps: &PrefetchMaps<'_>) -> io::Result<()> {
        if self.prefetcher.get().is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let prefetcher = Arc::new(Prefetcher::start(maps)?);
        if !self.runs.prefetch_by(&prefetcher) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let prefetches = self.prefetches();
        self.prefetcher
            .get_or_init(|| prefetcher)
            .enable(*prefetches);
        Ok(())
    }

    /// Whether programs have been given memory for reads of values.
    pub fn has_prefetcher(&self) -> bool {
        self.prefetcher.get().is_some()
    }

    /// Whether values are read before they are asked for, if programs can do so, or when they can.
    pub fn enable_prefetch(&self, is_on: bool) {
        let mut prefetches = self.prefetches();
        *prefetches = is_on;
        if let Some(prefetcher) = self.prefetcher.get() {
            prefetcher.enable(is_on);
        }
    }

    fn prefetches(&self) -> MutexGuard<'_, bool> {
        self.prefetches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on programs with these maps answer GETs of values in files, while [`Self::enable_park`] says so. Once only.
    /// `tracepoint` has the program attached that hears of completions.
    ///
    /// # Errors
    /// As [`Self::prefetch`].
    pub fn park(&self, maps: &ParkMaps<'_>, tracepoint: OwnedFd) -> io::Result<()> {
        if self.parker.get().is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let parker = Arc::new(Parker::start(maps, tracepoint, self.engine.identity())?);
        let bell = Arc::clone(&self.bell);
        parker.set_told(Box::new(move || {
            let ring = bell.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(ring) = ring {
                ring();
            }
        }));
        let threads = Threads::start(&parker)?;
        if !self.runs.park_by(&parker) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let parks = self.parks();
        let (parker, _) = self.parker.get_or_init(|| (parker, threads));
        parker.enable(*parks);
        Ok(())
    }

    /// Whether programs have been given memory for requests.
    pub fn has_parker(&self) -> bool {
        self.parker.get().is_some()
    }

    /// Whether programs answer GETs of values in files, if they can do so, or when they can.
    pub fn enable_park(&self, is_on: bool) {
        let mut parks = self.parks();
        *parks = is_on;
        if let Some((parker, _)) = self.parker.get() {
            parker.enable(is_on);
        }
    }

    fn parks(&self) -> MutexGuard<'_, bool> {
        self.parks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a connection that programs may answer: its socket, its index and the cookie. `None`: there is none left, or
    /// programs do not answer.
    pub fn seat(&self, socket: BorrowedFd<'_>, index: u32, cookie: u64) -> Option<Seat> {
        if !*self.parks() {
            return None;
        }
        self.parker.get()?.0.seat(socket, index, cookie)
    }

    /// For tests: until a run comes or goes, programs that answer read this file in the place of all runs, and a request waits so
    /// long before it is the daemon's. False: there are no such programs.
    #[doc(hidden)]
    pub fn park_reads_of(&self, file: BorrowedFd<'_>, patience: Duration) -> bool {
        let parker = self.parker.get();
        if let Some((parker, _)) = parker {
            parker.read_instead(file, patience);
        }
        parker.is_some()
    }

    /// Connections whose request waits in the kernel for too long, by index and cookie: those that were found since
    /// this was asked last.
    pub fn take_overdue(&self) -> Vec<(u32, u64)> {
        let parker = self.parker.get();
        parker.map_or_else(Vec::new, |(parker, _)| parker.take_overdue())
    }

    /// Has the files of other engines removed: the disk is this engine's, and has all that recovery needs.
    pub fn remove_foreign(&self) {
        self.removes_foreign.store(true, Ordering::Relaxed);
    }

    pub fn figures(&self) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (runs, file_bytes) = self.runs.sizes();
        let uses = self.engine.run_uses();
        let counts = &self.counts;
        let trouble = counts.trouble.lock();
        let park = self.parker.get();
        let park = park.map(|(parker, _)| parker.figures()).unwrap_or_default();
        Figures {
            found: Found {
                values: uses.iter().map(|run| run.values).sum(),
                bytes: uses.iter().map(|run| run.bytes).sum(),
                runs,
                file_bytes,
            },
            memory: get(&self.memory),
            fetches: get(&counts.fetches) + park.answered,
            promotions: get(&counts.promotions),
            demotions: get(&counts.demotions),
            demoted_bytes: get(&counts.demoted_bytes),
            moved: get(&counts.moved),
            read_bytes: get(&counts.read_bytes),
            corrupt: get(&counts.corrupt),
            unavailable: get(&counts.unavailable),
            write_errors: get(&counts.write_errors),
            runs_removed: get(&counts.runs_removed),
            prefetch: self
                .prefetcher
                .get()
                .map(|prefetcher| prefetcher.figures())
                .unwrap_or_default(),
            park,
            trouble: trouble.unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there was already reported by its hook.
            let _ = thread.join();
        }
    }
}

struct Work<D: Disk> {
    engine: Engine,
    demoting: Demoting<D>,
    values: Arc<RunValues<D>>,
    counts: Arc<Counts>,
    memory: Arc<AtomicU64>,
    removes_foreign: Arc<AtomicBool>,
    rest: Duration,
    next_tidy: Instant,
}

impl<D> Work<D>
where
    D: Disk + Send + Sync + 'static,
    D::File: Send + Sync,
{
    fn run(mut self, stopped: &AtomicBool) {
        // While there is memory: else writes wait for that, too.
        if let Err(error) = self.engine.prepare_eviction() {
            tracing::warn!(%error, "values cannot go to files now");
        }
        while !stopped.load(Ordering::Relaxed) {
            let pause = match self.round() {
                Ok(pause) => {
                    self.set_trouble(None);
                    pause
                }
                Err(failed) => {
                    // Operators that find no memory are told so.
                    self.demoting.promise_memory(false);
                    // Without it the round that comes next tries again.
                    let _ = self.demoting.dispose();
                    if matches!(failed, Failed::Disk(_)) {
                        Counts::add(&self.counts.write_errors, 1);
                    }
                    if self.set_trouble(Some(failed.to_string())) {
                        tracing::error!(error = %failed, "values stay in memory; trying again every second");
                    }
                    PAUSE_LONG
                }
            };
            if !pause.is_zero() {
                thread::park_timeout(pause);
            }
        }
    }

    /// What it does now, and how long it rests then.
    fn round(&mut self) -> Result<Duration, Failed> {
        let (used, most) = (
            self.engine.memory_used_now(),
            self.memory.load(Ordering::Relaxed),
        );
        // Were it the whole of it, all that is read would come back each time that a batch has gone.
        self.values.set_full(used >= most - most / ROOM_PART);
        self.values.look_after_reads();
        self.demoting.promote(&self.values.take_wanted());
        if self.removes_foreign.load(Ordering::Relaxed) {
            self.demoting.remove_foreign()?;
            self.removes_foreign.store(false, Ordering::Relaxed);
        }
        if Instant::now() >= self.next_tidy {
            self.demoting.tidy()?;
            self.next_tidy = Instant::now() + TIDY;
        }
        if most == Options::NOTHING_GOES {
            return self.when_quiet();
        }
        // The values that are left lie on pages with room for others of their length only: all of them
        // go, so that the pages come back.
        let is_short = self.demoting.is_short_of_pages()?;
        if used > most || is_short {
            let excess = if is_short { used } else { used - most };
            self.demoting.promise_memory(true);
            if self.demoting.demote(excess, used)? > 0 {
                return Ok(Duration::ZERO);
            }
            self.demoting.promise_memory(false);
            return Ok(self.rest);
        }
        self.when_quiet()
    }

    /// What is done when there is memory: what came back is given back, and runs are rewritten for a part of
    /// the time.
    fn when_quiet(&mut self) -> Result<Duration, Failed> {
        self.demoting.dispose()?;
        if !self.demoting.is_rewriting() {
            return Ok(PAUSE);
        }
        let begun = Instant::now();
        self.demoting.rewrite()?;
        if !self.demoting.is_rewriting() {
            // What cannot be read, or is an older version, is not rewritten: each time in vain.
            self.next_tidy = Instant::now() + 5 * TIDY;
        }
        Ok((REST * begun.elapsed()).max(PAUSE))
    }

    /// Whether it is another one than before.
    fn set_trouble(&self, trouble: Option<String>) -> bool {
        let known = self.counts.trouble.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        let is_new = *known != trouble;
        *known = trouble;
        is_new
    }
}
