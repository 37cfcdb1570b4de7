//! State that the thread that writes the log and all other threads share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bpfdb::{LogGate, LogGateState};
use hdrhistogram::Histogram;

use crate::waiters::Waiters;

/// How the log does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Writing,
    /// The disk has not finished a write, or a program its commit, for so long that the engine is
    /// read-only until it has: more would be lost than was promised.
    Stalled(Duration),
    /// The disk is full, or no file can be opened, and the engine is read-only. It heals when there is
    /// space, or a descriptor.
    Full(String),
    /// A write or flush has failed. The engine is read-only until another owner goes on
    /// with it, which writes everything again that is not known to be durable.
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

    /// Why the engine is read-only, if it is: one line.
    pub fn reason(&self) -> Option<String> {
        let why = match self {
            Self::Writing => return None,
            Self::Stalled(_) => "commits have not become durable for too long",
            Self::Full(why) | Self::Failed(why) => why,
        };
        Some(why.replace(['\r', '\n'], " "))
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
    /// Those of them that were begun while another was under way.
    pub overlapping: u64,
    /// From the moment when the oldest commit of the last group may have been made to that
    /// when it was durable; and the longest of these times.
    pub exposure: Duration,
    pub exposure_most: Duration,
    /// 99 of 100 groups had at most this exposure, to 1 %.
    pub exposure_p99: Duration,
}

/// Called when something has become durable that a client waits for, or when the state
/// changes.
type OnChange = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) waiters: Waiters,
    pub(crate) stop: AtomicBool,
    /// The log has ended, and its files have what the engine has.
    all_in_files: AtomicBool,
    told: Mutex<Told>,
    most: Duration,
    on_change: OnceLock<OnChange>,
}

struct Told {
    state: State,
    gate: LogGate,
    /// Whether the gate stays closed, whatever the state.
    sealed: bool,
    figures: Figures,
    /// Microseconds, of all groups with commits.
    exposures: Histogram<u64>,
    /// When the last group was begun that is durable: what was committed later may be not.
    durable_until: Instant,
}

/// A group that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupBegun {
    pub(crate) at: Instant,
    /// How many wait for it.
    waiters: u64,
}

#[cfg(test)]
impl GroupBegun {
    /// A group for which nobody waits.
    pub(crate) fn of(at: Instant) -> Self {
        Self { at, waiters: 0 }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("waiters", &self.waiters)
            .field("state", &self.told().state)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Of the engine's log, whatever an earlier owner left, of which everything up to the
    /// timestamp `durable` is durable for certain. `most`: see [`Shared::most`].
    pub(crate) fn new(durable: u64, gate: LogGate, most: Duration) -> Self {
        // Nothing is taken before there is a thread that writes it.
        gate.set(LogGateState::Held);
        let now = Instant::now();
        Self {
            waiters: Waiters::new(durable),
            stop: AtomicBool::new(false),
            all_in_files: AtomicBool::new(false),
            told: Mutex::new(Told {
                state: State::Writing,
                gate,
                sealed: false,
                figures: Figures::default(),
                exposures: exposures(),
                durable_until: now,
            }),
            most,
            on_change: OnceLock::new(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        self.told().state.clone()
    }

    pub(crate) fn figures(&self) -> Figures {
        let told = self.told();
        let p99 = told.exposures.value_at_quantile(0.99);
        Figures {
            exposure_p99: Duration::from_micros(p99),
            ..told.figures
        }
    }

    pub(crate) fn is_all_in_files(&self) -> bool {
        self.all_in_files.load(Ordering::Acquire)
    }

    pub(crate) fn on_change(&self, call: OnChange) -> bool {
        self.on_change.set(call).is_ok()
    }

    /// The log is being written from now on.
    pub(crate) fn begin(&self) {
        self.told().set_gate();
    }

    /// No commit that writes is taken any more. One whose program has looked at the gate before
    /// may still be on its way.
    pub(crate) fn seal(&self) {
        let mut told = self.told();
        told.sealed = true;
        told.set_gate();
    }

    /// The log has ended. If it was sealed, no owner comes that would open it again.
    pub(crate) fn note_closed(&self) {
        let told = self.told();
        if told.sealed {
            told.gate.set(LogGateState::Closed);
        }
    }

    // ---- By the writer -----------------------------------------------------------------

    /// The log ends.
    pub(crate) fn note_end(&self, all_in_files: bool) {
        self.all_in_files.store(all_in_files, Ordering::Release);
    }

    /// What an earlier owner wrote is durable, up to this timestamp.
    pub(crate) fn note_durable(&self, timestamp: u64) {
        if self.waiters.note_durable(timestamp) {
            self.tell();
        }
    }

    pub(crate) fn begin_group(&self) -> GroupBegun {
        GroupBegun {
            waiters: self.waiters.begin_group(),
            at: Instant::now(),
        }
    }

    /// The group has found no space: another one has its commits.
    pub(crate) fn forget_group(&self, begun: GroupBegun) {
        self.waiters.rejoin(begun.waiters);
    }

    /// `overlapped`: it was begun while another was under way.
    pub(crate) fn flushed(&self, records: u32, bytes: usize, time: Duration, overlapped: bool) {
        let figures = &mut self.told().figures;
        figures.overlapping += u64::from(overlapped);
        figures.records += u64::from(records);
        figures.bytes += bytes as u64;
        figures.flushes += 1;
        figures.flush_time += time;
    }

    /// A group is durable, and everything up to this timestamp. `is_empty`: it had no commit.
    pub(crate) fn end_group(&self, begun: GroupBegun, timestamp: u64, is_empty: bool) {
        let was_wanted = self.waiters.end_group(timestamp, begun.waiters);
        let mut told = self.told();
        if !is_empty {
            told.note_exposure();
        }
        told.durable_until = begun.at;
        // What was committed since the group began may be older by now than it may become: then the
        // next group opens the gate.
        let is_late = begun.at.elapsed() > self.most;
        let has_changed = !is_late && told.change(State::Writing);
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

    /// The age that a commit may have before the engine becomes read-only.
    pub(crate) fn most(&self) -> Duration {
        self.most
    }

    /// Makes the engine read-only if commits may be older than they may become.
    pub(crate) fn look(&self) {
        let mut told = self.told();
        let exposure = told.durable_until.elapsed();
        let is_late = told.state == State::Writing && exposure > self.most;
        if is_late && told.change(State::Stalled(exposure)) {
            drop(told);
            tracing::warn!(?exposure, "the log is late: writes wait");
            self.tell();
        }
    }

    fn tell(&self) {
        if let Some(call) = self.on_change.get() {
            call();
        }
    }
}

/// From a microsecond to ten minutes, with two digits.
fn exposures() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 2).expect("bounds that are right")
}

impl Told {
    /// How old the oldest commit of a group may be that has just become durable.
    fn note_exposure(&mut self) {
        let exposure = self.durable_until.elapsed();
        self.figures.groups += 1;
        self.figures.exposure = exposure;
        self.figures.exposure_most = self.figures.exposure_most.max(exposure);
        // One that is longer than all that it can hold counts as the longest of these.
        let micros = u64::try_from(exposure.as_micros()).unwrap_or(u64::MAX);
        self.exposures.saturating_record(micros);
    }

    /// The engine is open while everything goes well; true if the state is another one now.
    fn change(&mut self, state: State) -> bool {
        if self.state == state {
            return false;
        }
        self.state = state;
        self.set_gate();
        true
    }

    fn set_gate(&self) {
        self.gate.set(match self.state {
            State::Full(_) | State::Failed(_) => LogGateState::Closed,
            State::Stalled(_) => LogGateState::Held,
            State::Writing if self.sealed => LogGateState::Held,
            State::Writing => LogGateState::Open,
        });
    }
}
