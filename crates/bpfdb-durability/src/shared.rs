//! What the thread that writes the log and everybody else tell each other.
//!
//! Invariant: whoever waits is told. He says what he wants, and looks at what is durable after
//! that; the writer says what is durable, and looks at what is wanted after that. So one of them
//! sees what the other one has said.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bpfdb::LogGate;

/// How the log does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Writing,
    /// The disk has not finished a write for so long that the engine is read-only until it
    /// has: more would be lost than was promised.
    Stalled(Duration),
    /// The disk is full, and the engine is read-only. It heals when there is space.
    Full(String),
    /// A write or flush has failed. The engine is read-only until another owner goes on
    /// with it, who writes everything again that is not known to be durable.
    Failed(String),
}

impl State {
    /// One word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Writing => "writing",
            Self::Stalled(_) => "stalled",
            Self::Full(_) => "full",
            Self::Failed(_) => "failed",
        }
    }
}

/// Counted since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Groups of commits that became durable together.
    pub groups: u64,
    pub records: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Writes with their flushes, and the time that they took.
    pub flushes: u64,
    pub flush_time: Duration,
    /// From the moment when the oldest commit of the last group may have been made to that
    /// when it was durable; and the longest of these times.
    pub exposure: Duration,
    pub exposure_most: Duration,
}

/// Called when something has become durable that somebody waits for, or when the state
/// changes.
type OnChange = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Shared {
    durable: AtomicU64,
    wanted: AtomicU64,
    pub(crate) stop: AtomicBool,
    told: Mutex<Told>,
    on_change: OnceLock<OnChange>,
}

struct Told {
    state: State,
    gate: LogGate,
    figures: Figures,
    /// When the last group was begun that is durable: what was committed later may be not.
    durable_until: Instant,
    /// The same of the group that is on its way.
    begun: Instant,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("durable", &self.durable)
            .field("state", &self.told().state)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Opens the engine's log, whatever an earlier owner left.
    pub(crate) fn new(durable: u64, gate: LogGate) -> Self {
        gate.close(false);
        let now = Instant::now();
        Self {
            durable: AtomicU64::new(durable),
            wanted: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            told: Mutex::new(Told {
                state: State::Writing,
                gate,
                figures: Figures::default(),
                durable_until: now,
                begun: now,
            }),
            on_change: OnceLock::new(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> u64 {
        // Not only Acquire: for the invariant it must not be before `want`.
        self.durable.load(Ordering::SeqCst)
    }

    pub(crate) fn state(&self) -> State {
        self.told().state.clone()
    }

    pub(crate) fn figures(&self) -> Figures {
        self.told().figures
    }

    pub(crate) fn on_change(&self, call: OnChange) -> bool {
        self.on_change.set(call).is_ok()
    }

    /// Somebody waits for this epoch; true if nobody waited for it before.
    pub(crate) fn want(&self, epoch: u64) -> bool {
        self.wanted.fetch_max(epoch, Ordering::SeqCst) < epoch
    }

    /// Does somebody wait for more than is durable?
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > self.durable()
    }

    // ---- By the writer -----------------------------------------------------------------

    pub(crate) fn begin_group(&self) {
        self.told().begun = Instant::now();
    }

    pub(crate) fn flushed(&self, records: u32, bytes: usize, time: Duration) {
        let figures = &mut self.told().figures;
        figures.records += u64::from(records);
        figures.bytes += bytes as u64;
        figures.flushes += 1;
        figures.flush_time += time;
    }

    /// A group is durable, and everything before it.
    pub(crate) fn end_group(&self, epoch: u64) {
        let before = self.durable.swap(epoch, Ordering::SeqCst);
        let was_wanted = self.wanted.load(Ordering::SeqCst) > before;
        let mut told = self.told();
        let exposure = told.durable_until.elapsed();
        told.durable_until = told.begun;
        told.figures.groups += 1;
        told.figures.exposure = exposure;
        told.figures.exposure_most = told.figures.exposure_most.max(exposure);
        let has_changed = told.change(State::Writing);
        drop(told);
        if was_wanted || has_changed {
            self.tell();
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        if self.told().change(state) {
            self.tell();
        }
    }

    // ---- By the watch ------------------------------------------------------------------

    /// Makes the engine read-only if the writer has been at work for longer than `most`.
    pub(crate) fn look(&self, most: Duration) {
        let mut told = self.told();
        let exposure = told.durable_until.elapsed();
        let is_late = told.state == State::Writing && exposure > most;
        if is_late && told.change(State::Stalled(exposure)) {
            drop(told);
            tracing::warn!(?exposure, "the disk is late: writes wait");
            self.tell();
        }
    }

    fn tell(&self) {
        if let Some(call) = self.on_change.get() {
            call();
        }
    }
}

impl Told {
    /// The engine is open while everything goes well; true if the state is another one now.
    fn change(&mut self, state: State) -> bool {
        if self.state == state {
            return false;
        }
        self.gate.close(state != State::Writing);
        self.state = state;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// Two threads begin at the same moment: one ends a group, the other one wants what is in it.
    #[test]
    fn whoever_waits_is_told() {
        const ROUNDS: u64 = 100_000;
        let options = bpfdb::Options {
            memory_limit: 64 << 20,
            log_ring: 1 << 20,
            ..bpfdb::Options::default()
        };
        let engine = bpfdb::Engine::create(&options).expect("the engine starts");
        let log = engine.log().expect("mapped").expect("there is a log");
        let shared = Arc::new(Shared::new(0, log.gate().expect("a gate")));
        let told = Arc::new(AtomicU64::new(0));
        let rings = Arc::clone(&told);
        shared.on_change(Box::new(move || {
            rings.fetch_add(1, Ordering::SeqCst);
        }));
        let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        let wait_for = |round: &AtomicU64, number| {
            while round.load(Ordering::SeqCst) < number {
                std::hint::spin_loop();
            }
        };
        // Not told at once: the other thread would wait for ever.
        let mut untold = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=ROUNDS {
                    wait_for(&begun, number);
                    shared.end_group(number);
                    ended.store(number, Ordering::SeqCst);
                }
            });
            for number in 1..=ROUNDS {
                let before = told.load(Ordering::SeqCst);
                begun.store(number, Ordering::SeqCst);
                // At another moment each time.
                for _ in 0..number % 64 {
                    std::hint::spin_loop();
                }
                shared.want(number);
                let is_durable = shared.durable() >= number;
                wait_for(&ended, number);
                let is_told = told.load(Ordering::SeqCst) > before;
                if !is_durable && !is_told {
                    untold.push(number);
                }
            }
        });
        assert!(untold.is_empty(), "nobody was told in rounds {untold:?}");
    }
}
