//! Counters of the daemon. Its thread is the only one that writes. INFO and the metrics endpoint
//! read from any thread, without a lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bpfdb::ConflictCause;
use rustc_hash::FxHashMap;

use super::histogram::Histogram;
use super::numbers::{Number, Numbers};
use super::procedures::LatestProcedures;

/// Names of enum bpfdb_way, in its order.
pub(crate) const WAYS: [&str; bpfdb::abi::BPFDB_WAY_COUNT as usize] =
    ["remote", "foreign", "undecided", "local", "spliced", "left"];

/// Of one command, as the daemon executes it.
#[derive(Debug, Default)]
pub(crate) struct CommandStatistics {
    pub(crate) calls: Number,
    pub(crate) nanoseconds: Number,
    /// Not executed: arguments, rights, state.
    pub(crate) rejected: Number,
    /// Executed, and ended in an error.
    pub(crate) failed: Number,
    pub(crate) times: Histogram,
}

impl CommandStatistics {
    pub(crate) fn executed(&self, time: Duration, failed: bool) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.calls.increment();
        self.nanoseconds.add(nanoseconds);
        self.times.add(nanoseconds);
        if failed {
            self.failed.increment();
        }
    }

    fn reset(&self) {
        for number in [&self.calls, &self.nanoseconds, &self.rejected, &self.failed] {
            number.set(0);
        }
        self.times.reset();
    }

    /// Has it been asked for?
    pub(crate) fn is_used(&self) -> bool {
        self.calls.get() + self.rejected.get() > 0
    }
}

/// Since the server began, or since CONFIG RESETSTAT.
#[derive(Debug)]
pub(crate) struct Statistics {
    begun: Instant,
    /// Milliseconds after `begun` at which the daemon's thread was seen last.
    seen: Number,
    ready: AtomicBool,

    pub(crate) numbers: Numbers,
    /// Connections through TCP, by enum bpfdb_way; counted once a second.
    pub(crate) ways: [Number; WAYS.len()],
    /// Of the errors that were replied, CONFLICT by its cause.
    conflicts: [Number; ConflictCause::ALL.len()],
    /// Values asked for by commands that change the key as well: the engine
    /// counts the others.
    pub(crate) gets_found: Number,
    pub(crate) gets_missed: Number,
    pub(crate) procedures: LatestProcedures,
    /// By name, in its order.
    commands: Vec<(&'static str, CommandStatistics)>,
    /// Where each is: looked up for every request.
    places: FxHashMap<&'static str, usize>,
}

impl Statistics {
    /// The daemon looks up at least that often.
    pub(crate) const TICK: Duration = Duration::from_secs(1);
    /// After this time it counts as stuck.
    const STUCK: Duration = Duration::from_secs(15);

    pub(crate) fn new(commands: impl IntoIterator<Item = &'static str>) -> Self {
        let of = |name| (name, CommandStatistics::default());
        let mut commands: Vec<_> = commands.into_iter().map(of).collect();
        commands.sort_by_key(|&(name, _)| name);
        let names = commands.iter().enumerate();
        let places = names.map(|(place, &(name, _))| (name, place)).collect();
        Self {
            begun: Instant::now(),
            seen: Number::default(),
            ready: AtomicBool::new(false),
            numbers: Numbers::default(),
            ways: std::array::from_fn(|_| Number::default()),
            conflicts: Default::default(),
            gets_found: Number::default(),
            gets_missed: Number::default(),
            procedures: LatestProcedures::default(),
            commands,
            places,
        }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn command(&self, name: &str) -> Option<&CommandStatistics> {
        self.places.get(name).map(|&place| &self.commands[place].1)
    }

    pub(crate) fn got(&self, found: bool) {
        let number = if found {
            &self.gets_found
        } else {
            &self.gets_missed
        };
        number.set(number.get().wrapping_add(1));
    }

    /// Look-ups of keys that had values, and of others.
    pub(crate) fn got_many(&self, found: u64, missed: u64) {
        for (number, more) in [(&self.gets_found, found), (&self.gets_missed, missed)] {
            number.set(number.get().wrapping_add(more));
        }
    }

    /// Subtracts GETs that the engine counted and that no client made: a batch read keys
    /// ahead and did not need them, or reads them again when its requests are executed one
    /// by one. These two numbers may wrap below zero: only their sum with the engine's
    /// counters has a meaning.
    pub(crate) fn subtract(&self, reads: bpfdb::Reads) {
        for (number, less) in [
            (&self.gets_found, reads.found),
            (&self.gets_missed, reads.missed),
        ] {
            number.set(number.get().wrapping_sub(less));
        }
    }

    /// Replies CONFLICT of this cause.
    pub(crate) fn conflicts(&self, cause: ConflictCause) -> &Number {
        let place = ConflictCause::ALL.iter().position(|&known| known == cause);
        &self.conflicts[place.unwrap_or_default()]
    }

    /// All, by name.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&'static str, &CommandStatistics)> {
        self.commands.iter().map(|(name, of)| (*name, of))
    }

    /// By name, those that were asked for.
    pub(crate) fn used_commands(&self) -> impl Iterator<Item = (&'static str, &CommandStatistics)> {
        self.commands().filter(|(_, of)| of.is_used())
    }

    /// Requests that the daemon executed.
    pub(crate) fn commands_executed(&self) -> u64 {
        self.commands().map(|(_, of)| of.calls.get()).sum()
    }

    /// Counters begin again; gauges stay.
    pub(crate) fn reset(&self) {
        self.numbers.reset();
        self.gets_found.set(0);
        self.gets_missed.set(0);
        self.conflicts.iter().for_each(|number| number.set(0));
        self.commands().for_each(|(_, of)| of.reset());
    }

    /// The daemon's thread is at work.
    pub(crate) fn mark_alive(&self) {
        let elapsed = self.begun.elapsed().as_millis();
        self.seen.set(u64::try_from(elapsed).unwrap_or(u64::MAX));
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub(crate) fn is_alive(&self) -> bool {
        let seen = Duration::from_millis(self.seen.get());
        self.begun.elapsed().saturating_sub(seen) < Self::STUCK
    }

    /// Are connections taken in?
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) && self.is_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_and_forgotten() {
        let statistics = Statistics::new(["get", "set"]);
        let get = statistics.command("get").expect("known");
        get.executed(Duration::from_micros(3), false);
        get.executed(Duration::from_micros(3), true);
        assert_eq!((get.calls.get(), get.failed.get()), (2, 1));
        assert_eq!(statistics.commands_executed(), 2);
        assert_eq!(statistics.used_commands().count(), 1);
        statistics.reset();
        assert_eq!(statistics.used_commands().count(), 0);
    }

    #[test]
    fn ready_only_while_alive() {
        let statistics = Statistics::new([]);
        assert!(!statistics.is_ready());
        statistics.set_ready(true);
        assert!(statistics.is_ready());
    }
}
