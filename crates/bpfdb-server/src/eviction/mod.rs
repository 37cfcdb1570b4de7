//! The evictor: a thread that deletes records when memory is nearly full, by `maxmemory-policy`.
//!
//! ```text
//! policy.rs   which records may go, and which first
//! pool.rs     the best victims of those that were seen
//! worker.rs   the thread: how much is to be freed, samples, evicts
//! ```
//!
//! It keeps a margin free, so that writes rarely find no memory. One that does is MEMORY_PENDING: the
//! server asks here ([`Evictor::ask`]) and tries it again a moment later, until there is room or
//! it [is hopeless](Evictor::is_hopeless). docs/decisions/0032-eviction.md has the whole.

mod policy;
mod pool;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bpfdb::{Engine, Shortage};

pub(crate) use self::policy::Rules;
use self::worker::Worker;
use crate::error::{Result, system};

/// What the server's thread and the evictor's share.
#[derive(Debug, Default)]
struct Shared {
    rules: Mutex<Rules>,
    stopped: AtomicBool,
    /// Requests for memory so far: the number of the last one.
    asked: AtomicU64,
    /// Of those up to this number it is known that there was nothing to evict.
    hopeless: AtomicU64,
    /// Records evicted so far.
    evicted: AtomicU64,
    /// Heads of large collections were evicted, perhaps, since the collector was told.
    collections: AtomicBool,
}

impl Shared {
    fn rules(&self) -> Rules {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Evictor {
    engine: Engine,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Evictor {
    pub(crate) fn start(engine: &Engine, rules: Rules) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Worker::new(engine, &shared);
        let thread = thread::Builder::new()
            .name("bpfdb-evict".into())
            .spawn(move || worker.run())
            .map_err(system("start the thread that evicts"))?;
        let evictor = Self {
            engine: engine.clone(),
            shared,
            thread: Some(thread),
        };
        evictor.set_rules(rules)?;
        Ok(evictor)
    }

    /// From now on records are evicted by these rules.
    pub(crate) fn set_rules(&self, rules: Rules) -> Result<()> {
        let shared = &self.shared;
        self.engine.set_access_tracking(rules.tracking())?;
        *shared.rules.lock().unwrap_or_else(PoisonError::into_inner) = rules;
        self.engine.set_shortage(match rules.evicts() {
            true => Shortage::Passes,
            false => Shortage::Final,
        })?;
        self.wake();
        Ok(())
    }

    pub(crate) fn rules(&self) -> Rules {
        self.shared.rules()
    }

    /// A write has found no memory: some records go soon. The number for [`Evictor::is_hopeless`].
    pub(crate) fn ask(&self) -> u64 {
        let number = self.shared.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        number
    }

    /// Was there no victim since it was asked for this?
    pub(crate) fn is_hopeless(&self, number: u64) -> bool {
        self.shared.hopeless.load(Ordering::Acquire) >= number
    }

    /// Records evicted since it was started.
    pub(crate) fn evicted(&self) -> u64 {
        self.shared.evicted.load(Ordering::Relaxed)
    }

    /// Have large collections lost their heads, perhaps, since the last call?
    pub(crate) fn took_collections(&self) -> bool {
        self.shared.collections.load(Ordering::Relaxed)
            && self.shared.collections.swap(false, Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Evictor {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there was already reported by its hook.
            let _ = thread.join();
        }
        // The engine may outlive this process, and nobody evicts then.
        if let Err(error) = self.set_rules(Rules::default()) {
            tracing::warn!(%error, "the engine still waits for eviction");
        }
    }
}
