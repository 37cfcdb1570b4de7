//! State that the thread of checkpoints, the writer of the log and all other threads share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bpfdb_log::checkpoint::WrittenCheckpoint;
use bpfdb_log::{Disk, LogError, LogId, LogWriter};

use super::retaining::Retaining;
use super::retention::Retention;
use super::status::{
    CheckpointDone, CheckpointOptions, CheckpointProgress, CheckpointStatus, Phase,
};

/// What the thread of checkpoints is to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Makes one that starts here.
    Make(Origin),
    /// Removes those with these numbers.
    Remove(Vec<u64>),
}

/// Where a checkpoint may start: a group that is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// When the group was begun: it has all that was committed before.
    pub(crate) begun: Instant,
    /// All commits with a timestamp up to this are durable, and so decided.
    pub(crate) epoch: u64,
    /// Commits with a later one, and the parts of their large values, are not in a segment
    /// before this: what was taken before this group was sealed before its epoch was closed.
    pub(crate) segment: u64,
    pub(crate) log: LogId,
    pub(crate) run: u64,
}

/// What the log has got since the last checkpoint was begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    bytes: u64,
    records: u64,
}

/// When a checkpoint was asked for.
#[derive(Clone, Copy, Debug)]
struct Requested {
    at: Instant,
    /// By the wall clock.
    time: SystemTime,
}

impl Requested {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            time: SystemTime::now(),
        }
    }
}

/// A checkpoint that is being made.
#[derive(Clone, Copy, Debug)]
struct Running {
    phase: Phase,
    begun: SystemTime,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) retaining: Retaining,
    origin: Option<Origin>,
    /// A caller has asked for one that has not begun.
    requested: Option<Requested>,
    /// Another one is to follow that one: when that was asked for last.
    requested_again: Option<Requested>,
    stops: bool,
    /// Why nothing becomes durable any more.
    log_over: Option<String>,
    running: Option<Running>,
    /// For the log's writer.
    install: Option<WrittenCheckpoint>,
    /// The log's writer is at it.
    is_installing: bool,
    /// Number of a checkpoint that the control file may name, though it does not count yet: what
    /// was to say so was begun and not finished.
    pub(super) perhaps: Option<u64>,
    installed: Option<Result<(), String>>,
    last: Option<CheckpointDone>,
    failure: Option<String>,
    failed_at: Option<Instant>,
    attempts: u64,
    /// Number of the last attempt that made one; 0: none of this process did.
    last_made: u64,
    failed: u64,
}

/// One for each engine with a log.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) options: CheckpointOptions,
    /// Of records, since the last checkpoint was begun.
    log_bytes: AtomicU64,
    /// How many these are, those of this process.
    log_records: AtomicU64,
    /// When that many are there, the thread wants to know.
    log_due: AtomicU64,
    pub(super) entries: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// In millionths.
    pub(super) part: AtomicU64,
}

/// Why a checkpoint ended that nothing was wrong with.
pub(super) const STOPPED: &str = "it was stopped: the engine's log is being closed";

impl Shared {
    /// `log_bytes`: those that the log has since the checkpoint `last`.
    pub(super) fn new(
        options: CheckpointOptions,
        last: Option<CheckpointDone>,
        log_bytes: u64,
        retention: Retention,
    ) -> Self {
        let due = options.log_due(last.map_or(0, |last| last.bytes));
        Self {
            state: Mutex::new(State::new(last, retention)),
            changed: Condvar::new(),
            options,
            log_bytes: AtomicU64::new(log_bytes),
            log_records: AtomicU64::new(0),
            log_due: AtomicU64::new(due),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            part: AtomicU64::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Threads that wait look again.
    pub(super) fn tell(&self) {
        self.changed.notify_all();
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    // ---- For all callers -------------------------------------------------------------

    /// Asks for a checkpoint; the number of the attempt. `None`: one is being made, or was asked
    /// for.
    pub(crate) fn request(&self) -> Option<u64> {
        let mut state = self.lock();
        if state.running.is_some() || state.requested.is_some() {
            return None;
        }
        state.requested = Some(Requested::now());
        self.changed.notify_all();
        Some(state.attempts + 1)
    }

    /// The same; if one is asked for already, another one follows. So one that has not begun is not
    /// put off by later requests.
    pub(crate) fn schedule(&self) -> u64 {
        let mut state = self.lock();
        let now = Requested::now();
        let before = u64::from(state.running.is_some()) + u64::from(state.requested.is_some());
        match state.requested {
            None => state.requested = Some(now),
            Some(_) => state.requested_again = Some(now),
        }
        self.changed.notify_all();
        state.attempts + before + 1
    }

    pub(crate) fn status(&self) -> CheckpointStatus {
        let state = self.lock();
        let count = |counter: &AtomicU64| match state.running {
            Some(_) => counter.load(Ordering::Relaxed),
            None => 0,
        };
        // A caller that has asked sees at once that one is being made.
        let requested = state.requested.map(|requested| Running {
            phase: Phase::Walking,
            begun: requested.time,
        });
        let running = state.running.or(requested);
        let running = running.map(|running| CheckpointProgress {
            phase: running.phase,
            begun: running.begun,
            entries: count(&self.entries),
            bytes: count(&self.bytes),
            part: count(&self.part) as f64 / 1e6,
        });
        CheckpointStatus {
            running,
            last: state.last,
            failure: state.failure.clone(),
            attempts: state.attempts,
            last_made: state.last_made,
            failed: state.failed,
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            log_records: self.log_records.load(Ordering::Relaxed),
        }
    }

    /// Waits until the attempt with this number is over.
    pub(crate) fn await_attempt(&self, number: u64) -> Result<(), String> {
        let mut state = self.lock();
        while state.attempts < number && !state.stops {
            state = self.wait(state);
        }
        match &state.failure {
            _ if state.last_made >= number => Ok(()),
            Some(failure) if state.attempts >= number => Err(failure.clone()),
            _ => Err(STOPPED.into()),
        }
    }

    pub(super) fn stop(&self) {
        self.lock().stops = true;
        self.changed.notify_all();
    }

    // ---- For the writer of the log ----------------------------------------------------

    /// The log got so many records, of so many bytes.
    pub(crate) fn note(&self, records: u32, bytes: usize) {
        self.log_records
            .fetch_add(records.into(), Ordering::Relaxed);
        let before = self.log_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let due = self.log_due.load(Ordering::Relaxed);
        if before < due && before + bytes as u64 >= due {
            let _state = self.lock();
            self.changed.notify_all();
        }
    }

    /// A group is durable. Has the control file name a checkpoint that waits for that, and gives
    /// up what is retained no longer.
    pub(crate) fn serve<D: Disk>(&self, log: &mut LogWriter<D>, origin: Origin) {
        self.serve_install(log, origin);
        self.retain(log);
    }

    fn serve_install<D: Disk>(&self, log: &mut LogWriter<D>, origin: Origin) {
        if let Some(written) = self.next_to_install(origin, log.durable().epoch) {
            self.try_install(log, written);
        }
    }

    fn try_install<D: Disk>(&self, log: &mut LogWriter<D>, written: WrittenCheckpoint) {
        self.lock().perhaps = Some(written.mark.number);
        let outcome = match self.install_now(log, &written) {
            Err(LogError::Full { .. }) => None,
            outcome => Some(outcome.map_err(|error| error.to_string())),
        };
        let mut state = self.lock();
        state.is_installing = false;
        if let Some(Ok(())) = outcome {
            state.perhaps = None;
        }
        match outcome {
            Some(outcome) => state.installed = Some(outcome),
            // There may be space at the next group.
            None => state.install = Some(written),
        }
        self.changed.notify_all();
    }

    /// Whether a checkpoint is complete that waits for more of the log.
    pub(crate) fn is_waiting(&self) -> bool {
        self.lock().install.is_some()
    }

    /// Whether a checkpoint would come to count with a group of this epoch, whose end is later than
    /// what the log says to be durable.
    pub(crate) fn waits_between(&self, durable: u64, epoch: u64) -> bool {
        let install = self.lock().install;
        install.is_some_and(|written| durable < written.mark.end && written.mark.end <= epoch)
    }

    /// The disk is full, and the log cannot have what the checkpoint waits for: it fails, so that
    /// its file gives space back. One that the control file may name already is tried again: it
    /// needs no more of the log.
    pub(crate) fn give_up_waiting<D: Disk>(&self, log: &mut LogWriter<D>) {
        let mut state = self.lock();
        let Some(written) = state.install.take() else {
            return;
        };
        if state.perhaps == Some(written.mark.number) {
            state.is_installing = true;
            drop(state);
            self.try_install(log, written);
        } else {
            let why = "the disk is full: the log has no room for what the checkpoint needs";
            state.installed = Some(Err(why.into()));
            self.changed.notify_all();
        }
    }

    /// `durable`: the log says so. A group of nothing says nothing, and after a restart it would not
    /// know any more that the end of the checkpoint was durable.
    fn next_to_install(&self, origin: Origin, durable: u64) -> Option<WrittenCheckpoint> {
        let mut state = self.lock();
        // A caller that asked for one may wait for this group.
        if state.origin.replace(origin).is_none() || state.requested.is_some() {
            self.changed.notify_all();
        }
        let due = |written: &mut WrittenCheckpoint| written.mark.end <= durable;
        let written = state.install.take_if(due);
        state.is_installing = written.is_some();
        written
    }

    /// The disk is full, and no group becomes durable for now. A checkpoint that was asked for may
    /// start at the last one: what was committed since is in the log when the checkpoint counts, and
    /// it may give the space back for that. `why`: there was no group yet, and it fails.
    pub(crate) fn start_at_last_group(&self, why: &str) {
        let mut state = self.lock();
        let State {
            origin,
            requested,
            requested_again,
            ..
        } = &mut *state;
        if requested.is_none() {
            return;
        }
        match origin {
            Some(origin) => [requested, requested_again]
                .into_iter()
                .flatten()
                .for_each(|requested| requested.at = requested.at.min(origin.begun)),
            None => state.refuse(why),
        }
        self.changed.notify_all();
    }

    /// The log is not open, and cannot be for now: no caller is to wait for a checkpoint.
    pub(crate) fn refuse_requested(&self, why: &str) {
        let mut state = self.lock();
        if state.requested.is_some() {
            state.refuse(why);
            self.changed.notify_all();
        }
    }

    /// A checkpoint that its writer was about to name, and panicked, may count or not: its file stays.
    fn log_is_over(&self, why: &str) {
        let mut state = self.lock();
        state.log_over = Some(why.into());
        state.is_installing = false;
        self.changed.notify_all();
    }

    // ---- For the thread of checkpoints --------------------------------------------------

    /// Waits until a checkpoint is due and may be made, or there are some to be removed. `None`:
    /// the thread is to end.
    pub(super) fn next_task(&self, last_begun: Instant) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.stops {
                return None;
            }
            let superseded = state.retaining.take_superseded();
            if !superseded.is_empty() {
                return Some(Task::Remove(superseded));
            }
            let due = state.requested.is_some() || self.is_due(&state, last_begun);
            if let (true, Some(why)) = (due, state.log_over.clone()) {
                state.refuse(&why);
                self.changed.notify_all();
            } else if let (true, Some(origin)) = (due, state.new_enough()) {
                self.begin(&mut state);
                return Some(Task::Make(origin));
            }
            let pause = Duration::from_secs(1);
            let woken = self.changed.wait_timeout(state, pause);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn is_due(&self, state: &State, last_begun: Instant) -> bool {
        let options = &self.options;
        let log_bytes = self.log_bytes.load(Ordering::Relaxed);
        let waits = state
            .failed_at
            .is_some_and(|at| at.elapsed() < options.retry);
        let by_time = options
            .every
            .is_some_and(|every| last_begun.elapsed() >= every);
        let by_bytes = log_bytes >= self.log_due.load(Ordering::Relaxed);
        state.log_over.is_none() && !waits && log_bytes > 0 && (by_time || by_bytes)
    }

    fn begin(&self, state: &mut State) {
        state.requested = state.requested_again.take();
        state.running = Some(Running {
            phase: Phase::Walking,
            begun: SystemTime::now(),
        });
        self.count_anew();
    }

    /// Nothing of the checkpoint is written yet.
    pub(super) fn count_anew(&self) {
        for counter in [&self.entries, &self.bytes, &self.part] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Is the checkpoint to be given up? Asked at every step.
    pub(super) fn check(&self) -> Result<(), String> {
        let state = self.lock();
        match (state.stops, &state.log_over) {
            (true, _) => Err(STOPPED.into()),
            (_, Some(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Has the log's writer name the checkpoint when what is durable has reached its end, and
    /// waits for that.
    pub(super) fn install(&self, written: WrittenCheckpoint) -> Result<(), String> {
        let mut state = self.lock();
        state.installed = None;
        state.install = Some(written);
        if let Some(running) = &mut state.running {
            running.phase = Phase::Waiting;
        }
        loop {
            if let Some(installed) = state.installed.take() {
                return installed;
            }
            let given_up = match (state.stops, &state.log_over) {
                (true, _) => Some(STOPPED.to_owned()),
                (_, Some(why)) => Some(why.clone()),
                _ => None,
            };
            // Not in the middle of it: then it is not known yet which one counts.
            if let (Some(why), false) = (given_up, state.is_installing) {
                state.install = None;
                return Err(why);
            }
            state = self.wait(state);
        }
    }

    /// The attempt is over. `logged`: what the log had when it was begun.
    pub(super) fn end(&self, outcome: Result<CheckpointDone, String>, logged: Logged) {
        let mut state = self.lock();
        if let Ok(done) = &outcome {
            let due = self.options.log_due(done.bytes);
            self.log_due.store(due, Ordering::Relaxed);
            self.log_bytes.fetch_sub(logged.bytes, Ordering::Relaxed);
            self.log_records
                .fetch_sub(logged.records, Ordering::Relaxed);
        }
        state.end(outcome);
        self.changed.notify_all();
    }

    /// The log has half as much again as one checkpoint is made for: this one should have been
    /// there by now.
    pub(super) fn is_late(&self) -> bool {
        let due = self.log_due.load(Ordering::Relaxed);
        self.log_bytes.load(Ordering::Relaxed) > due.saturating_add(due / 2)
    }

    pub(super) fn logged(&self) -> Logged {
        Logged {
            bytes: self.log_bytes.load(Ordering::Relaxed),
            records: self.log_records.load(Ordering::Relaxed),
        }
    }
}

impl State {
    /// Where a checkpoint may start. One that was asked for has what was committed before that.
    fn new_enough(&self) -> Option<Origin> {
        let requested = self.requested;
        let is_new =
            |origin: &Origin| requested.is_none_or(|requested| origin.begun >= requested.at);
        self.origin.filter(is_new)
    }

    /// The attempts that were asked for, or the one that is due, fail.
    fn refuse(&mut self, why: &str) {
        self.requested = None;
        let count = 1 + u32::from(self.requested_again.take().is_some());
        (0..count).for_each(|_| self.end(Err(why.into())));
    }

    fn new(last: Option<CheckpointDone>, retention: Retention) -> Self {
        Self {
            retaining: Retaining::new(retention),
            origin: None,
            requested: None,
            requested_again: None,
            stops: false,
            log_over: None,
            running: None,
            install: None,
            is_installing: false,
            perhaps: None,
            installed: None,
            last,
            failure: None,
            failed_at: None,
            attempts: 0,
            last_made: 0,
            failed: 0,
        }
    }

    /// Whether nothing comes any more of what a caller waits for.
    pub(super) fn is_over(&self) -> bool {
        self.stops || self.log_over.is_some()
    }

    fn end(&mut self, outcome: Result<CheckpointDone, String>) {
        self.running = None;
        self.attempts += 1;
        match outcome {
            Ok(done) => {
                self.last = Some(done);
                self.last_made = self.attempts;
                self.failure = None;
                self.failed_at = None;
            }
            Err(why) => {
                self.failed += 1;
                self.failed_at = Some(Instant::now());
                self.failure = Some(why);
            }
        }
    }
}

/// Says that the log is over when its thread ends, however it does.
pub(crate) struct LogEnds(pub(crate) Arc<Shared>);

impl Drop for LogEnds {
    fn drop(&mut self) {
        self.0
            .log_is_over("nothing becomes durable any more: the log has ended");
    }
}

#[cfg(test)]
mod tests;
