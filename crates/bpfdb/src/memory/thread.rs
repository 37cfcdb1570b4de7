//! The thread of an engine's owner that looks after its memory: it keeps a reserve of free
//! pages, gives back what is idle, and does once a second what is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Result, system};
use crate::holders::Holders;
use crate::memory::Memory;
use crate::memory::idle::IdleMemory;
use crate::memory::shrink::Shrinker;
use crate::time;

/// How often it looks for work: while memory is being taken, and at rest.
const PERIOD: Duration = Duration::from_millis(2);
const PERIOD_AT_REST: Duration = Duration::from_millis(20);
/// How often it looks for memory in the index, when it is short of it; less
/// and less often while it finds none.
const SHRINK_PERIOD: Duration = Duration::from_millis(100);
const SHRINK_PERIOD_MAX: Duration = Duration::from_secs(10);
/// How often it gives the programs what the clock needs (see [`time`]), and looks for
/// sessions whose holder is gone.
const EVERY_SECOND: Duration = Duration::from_secs(1);

/// What the memory thread does, and when it is to do it again.
struct Work {
    memory: Arc<Memory>,
    shrinker: Arc<Shrinker>,
    holders: Holders,
    idle: IdleMemory,
    next_shrink: Instant,
    next_second: Instant,
    pause: Duration,
    taken: u64,
}

impl Work {
    fn round(&mut self) -> Result<()> {
        self.memory.answer()?;
        self.memory.ensure()?;
        self.run_chores()?;
        if self.memory.is_short() && Instant::now() >= self.next_shrink {
            self.look_for_memory()?;
        }
        self.idle.look(&self.memory, &self.shrinker)?;
        if Instant::now() >= self.next_second {
            self.next_second = Instant::now() + EVERY_SECOND;
            time::synchronize(&self.memory)?;
            self.holders.close_abandoned(&self.memory)?;
        }
        Ok(())
    }

    /// What others have asked for.
    fn run_chores(&self) -> Result<()> {
        let (memory, shrinker) = (&self.memory, &self.shrinker);
        memory.run_chores(
            |bytes| shrinker.make_room_for(bytes, memory),
            || shrinker.clean(memory),
        )
    }

    fn look_for_memory(&mut self) -> Result<()> {
        let found = self.shrinker.make_room(&self.memory);
        self.pause = match found {
            Ok(0) => (2 * self.pause).min(SHRINK_PERIOD_MAX),
            _ => SHRINK_PERIOD,
        };
        self.next_shrink = Instant::now() + self.pause;
        found.map(drop)
    }

    /// Until the next round.
    fn period(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.taken, self.memory.pages_taken());
        if self.taken == before {
            PERIOD_AT_REST
        } else {
            PERIOD
        }
    }

    fn run(&mut self, stopped: &AtomicBool) {
        while !stopped.load(Ordering::Relaxed) {
            if let Err(error) = self.round() {
                tracing::error!(%error, "cannot keep up the memory; trying again in a second");
                thread::park_timeout(Duration::from_secs(1));
            }
            thread::park_timeout(self.period());
        }
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryThread {
    pub(crate) fn start(
        memory: &Arc<Memory>,
        shrinker: &Arc<Shrinker>,
        holders: Holders,
        idle: IdleMemory,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut work = Work {
            memory: Arc::clone(memory),
            shrinker: Arc::clone(shrinker),
            holders,
            idle,
            next_shrink: Instant::now(),
            next_second: Instant::now() + EVERY_SECOND,
            pause: SHRINK_PERIOD,
            taken: 0,
        };
        let thread = thread::Builder::new()
            .name("bpfdb-memory".into())
            .spawn(move || work.run(&stopped))
            .map_err(system("start the memory thread"))?;
        memory.set_thread(thread.thread());
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for MemoryThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there was already reported by its hook.
            let _ = thread.join();
        }
    }
}
