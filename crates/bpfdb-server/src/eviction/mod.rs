//! The evictor: a thread that deletes records when memory is nearly full, by `maxmemory-policy`.
//!
//! ```text
//! gone.rs     keys that were evicted, for the events of keys
//! held.rs     what was evicted and is not free, because snapshots keep it
//! policy.rs   which records may go, and which first
//! pool.rs     the best victims of those that were seen
//! worker.rs   the thread: how much is to be freed, samples, evicts
//! ```
//!
//! It keeps a margin free, so that writes rarely find no memory. One that does is MEMORY_PENDING: the
//! server asks here ([`Evictor::ask`]) and tries it again a moment later, until there is room or
//! it [is hopeless](Evictor::is_hopeless). docs/decisions/0032-eviction.md has the whole.

mod gone;
mod held;
mod policy;
mod pool;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bpfdb::{Engine, Shortage, Victim};

use self::gone::GoneKeys;
pub(crate) use self::gone::{Gone, GoneKey};
pub(crate) use self::policy::Rules;
use self::worker::Worker;
use crate::error::{Result, system};
use crate::io::bell::Bell;

/// May there be pages of large collections that are gone, which are removed soon?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Garbage {
    /// There are no large collections.
    Impossible,
    /// A moment ago there were none.
    Unlikely,
    Possible,
}

/// What the server's thread and the evictor's share.
#[derive(Debug)]
struct Shared {
    /// What a shortage is ([`Shared::say_shortage`]) is said under this lock, too: so it is always what these say.
    rules: Mutex<Rules>,
    /// There was nothing to evict lately. Written under that lock, as the next one.
    is_hopeless: AtomicBool,
    garbage: AtomicU8,
    /// Held while some records go by these: a new policy waits for them.
    evicting: Mutex<()>,
    stopped: AtomicBool,
    /// Requests for memory so far: the number of the last one.
    asked: AtomicU64,
    /// What went for one of them before was of no use to it.
    insisted: AtomicBool,
    /// How often the thread has looked at these, and done what it could.
    passes: AtomicU64,
    /// Of those up to this number it is known that there was nothing to evict.
    hopeless: AtomicU64,
    /// Records evicted so far.
    evicted: AtomicU64,
    /// Bytes of these, about.
    evicted_bytes: AtomicU64,
    gone: GoneKeys,
    /// Rung when there are the first ones of these.
    bell: Bell,
    /// Heads of large collections were evicted, perhaps, since the collector was woken.
    collections: AtomicBool,
}

impl Shared {
    fn new(bell: &Bell) -> Self {
        Self {
            rules: Mutex::default(),
            is_hopeless: AtomicBool::default(),
            garbage: AtomicU8::new(Garbage::Impossible as u8),
            evicting: Mutex::default(),
            stopped: AtomicBool::default(),
            asked: AtomicU64::default(),
            insisted: AtomicBool::default(),
            passes: AtomicU64::default(),
            hopeless: AtomicU64::default(),
            evicted: AtomicU64::default(),
            evicted_bytes: AtomicU64::default(),
            gone: GoneKeys::default(),
            bell: bell.clone(),
            collections: AtomicBool::default(),
        }
    }

    fn rules(&self) -> Rules {
        *self.locked_rules()
    }

    fn locked_rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What writes find that need memory beyond the limit: it passes if records can be evicted, or
    /// garbage removed.
    fn say_shortage(&self, engine: &Engine, rules: Rules) -> bpfdb::Result<()> {
        let is_possible = |chance: Garbage| self.garbage.load(Ordering::Relaxed) == chance as u8;
        let is_hopeless = self.is_hopeless.load(Ordering::Relaxed);
        engine.set_shortage(match rules.evicts() {
            _ if is_possible(Garbage::Possible) => Shortage::Passes,
            true if !is_hopeless => Shortage::Passes,
            true => Shortage::Hopeless,
            false if is_possible(Garbage::Unlikely) => Shortage::Hopeless,
            false => Shortage::Final,
        })
    }

    /// May records go by these rules? They do so while this lock is held, some at a time.
    fn permit(&self, rules: &Rules) -> Option<MutexGuard<'_, ()>> {
        let evicting = self.evicting();
        let goes_on = !self.stopped.load(Ordering::Relaxed) && self.rules() == *rules;
        goes_on.then_some(evicting)
    }

    fn evicting(&self) -> MutexGuard<'_, ()> {
        self.evicting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record was evicted.
    fn note_evicted(&self, victim: &Victim) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
        (self.evicted_bytes).fetch_add(victim.memory(), Ordering::Relaxed);
        if self.gone.push(&victim.key, victim.expires_at) {
            self.bell.ring();
        }
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
    /// `bell` is rung when keys have gone of which [`Evictor::take_gone`] says something.
    pub(crate) fn start(engine: &Engine, rules: Rules, bell: &Bell) -> Result<Self> {
        if rules.evicts() && engine.stats()?.records > 0 {
            // It may be full already.
            engine.prepare_eviction()?;
        }
        let shared = Arc::new(Shared::new(bell));
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

    /// From now on records are evicted by these rules, and no more by those before.
    pub(crate) fn set_rules(&self, rules: Rules) -> Result<()> {
        self.engine.set_access_tracking(rules.tracking())?;
        let mut locked = self.shared.locked_rules();
        *locked = rules;
        self.shared.is_hopeless.store(false, Ordering::Relaxed);
        self.shared.say_shortage(&self.engine, rules)?;
        drop(locked);
        drop(self.shared.evicting());
        self.wake();
        Ok(())
    }

    pub(crate) fn rules(&self) -> Rules {
        self.shared.rules()
    }

    /// May pages of large collections be removed for writes that find no memory?
    pub(crate) fn set_garbage(&self, garbage: Garbage) -> Result<()> {
        if self.shared.garbage.load(Ordering::Relaxed) == garbage as u8 {
            return Ok(());
        }
        let rules = self.shared.locked_rules();
        self.shared.garbage.store(garbage as u8, Ordering::Relaxed);
        Ok(self.shared.say_shortage(&self.engine, *rules)?)
    }

    /// Is MEMORY_PENDING what a write finds now because memory is full, whether something can be freed or not?
    pub(crate) fn may_be_full(&self) -> bool {
        let garbage = self.shared.garbage.load(Ordering::Relaxed);
        self.rules().evicts()
            || garbage != Garbage::Impossible as u8 && self.engine.has_all_memory()
    }

    /// A write has found no memory: some records go soon. The number for [`Evictor::is_hopeless`].
    /// `insists`: what went when it asked before was of no use to it.
    pub(crate) fn ask(&self, insists: bool) -> u64 {
        if insists {
            self.shared.insisted.store(true, Ordering::Relaxed);
        }
        let number = self.shared.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        number
    }

    /// Was there no victim since it was asked for this? Or has the thread ended?
    pub(crate) fn is_hopeless(&self, number: u64) -> bool {
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        has_ended || self.shared.hopeless.load(Ordering::Acquire) >= number
    }

    /// How often the thread has looked at requests, and done what it could for them.
    pub(crate) fn passes(&self) -> u64 {
        self.shared.passes.load(Ordering::Acquire)
    }

    /// Records evicted since it was started.
    pub(crate) fn evicted(&self) -> u64 {
        self.shared.evicted.load(Ordering::Relaxed)
    }

    /// Bytes of these records, about.
    pub(crate) fn evicted_bytes(&self) -> u64 {
        self.shared.evicted_bytes.load(Ordering::Relaxed)
    }

    /// Are the keys wanted that are evicted from now on?
    pub(crate) fn want_gone(&self, is_wanted: bool) {
        self.shared.gone.want(is_wanted);
    }

    /// The keys that were evicted since the last call, if they were wanted.
    pub(crate) fn take_gone(&self) -> Option<Gone> {
        self.shared.gone.take()
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
        // The engine may outlive this process, and there is no eviction then.
        let ended = self.set_garbage(Garbage::Impossible);
        if let Err(error) = ended.and_then(|()| self.set_rules(Rules::default())) {
            tracing::warn!(%error, "the engine still waits for eviction");
        }
    }
}
