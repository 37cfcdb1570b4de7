//! What the daemon counts. It is the only one that writes; INFO and the
//! metrics endpoint read, from any thread, and nobody waits for anybody.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bpfdb::ConflictCause;
use rustc_hash::FxHashMap;

use super::procedures::LatestProcedures;

/// Names of enum bpfdb_way, in its order.
pub(crate) const WAYS: [&str; bpfdb::abi::BPFDB_WAY_COUNT as usize] =
    ["remote", "foreign", "undecided", "local", "spliced", "left"];

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, more: u64) {
        self.set(self.get() + more);
    }

    /// For gauges: less by a negative number, but never below zero.
    pub(crate) fn change(&self, by: i64) {
        self.set(self.get().saturating_add_signed(by));
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }
}

/// How long something took, in buckets that grow by a quarter of a power of
/// two: percentiles are exact to 25 %.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [Number; Self::BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Number::default()),
        }
    }
}

impl Histogram {
    /// Shorter times share a bucket, longer ones than the last bucket too.
    const LEAST_BITS: u32 = 8;
    const MOST_BITS: u32 = 36;
    const PARTS_BITS: u32 = 2;
    const BUCKETS: usize = ((Self::MOST_BITS - Self::LEAST_BITS) << Self::PARTS_BITS) as usize;

    fn bucket(nanoseconds: u64) -> usize {
        let value = nanoseconds.max(1 << Self::LEAST_BITS);
        let bits = value.ilog2();
        let part = (value >> (bits - Self::PARTS_BITS)) & ((1 << Self::PARTS_BITS) - 1);
        let number = u64::from((bits - Self::LEAST_BITS) << Self::PARTS_BITS) + part;
        (number as usize).min(Self::BUCKETS - 1)
    }

    /// Nanoseconds that are longer than all in the bucket.
    fn end(bucket: usize) -> u64 {
        let bits = Self::LEAST_BITS + (bucket as u32 >> Self::PARTS_BITS);
        let part = bucket as u64 & ((1 << Self::PARTS_BITS) - 1);
        (1 << bits) + ((part + 1) << (bits - Self::PARTS_BITS))
    }

    fn add(&self, nanoseconds: u64) {
        self.buckets[Self::bucket(nanoseconds)].increment();
    }

    pub(crate) fn reset(&self) {
        self.buckets.iter().for_each(|bucket| bucket.set(0));
    }

    fn total(&self) -> u64 {
        self.buckets.iter().map(Number::get).sum()
    }

    /// Time that this share of all was not longer than.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let wanted = (self.total() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.buckets.iter().position(|bucket| {
            seen += bucket.get();
            seen >= wanted
        });
        Duration::from_nanos(reached.map_or(0, Self::end))
    }

    /// Powers of two of nanoseconds, and how many took less than that, but not
    /// less than the one before.
    pub(crate) fn octaves(&self) -> impl Iterator<Item = (Duration, u64)> {
        const PARTS: usize = 1 << Histogram::PARTS_BITS;
        let octaves = self.buckets.chunks(PARTS).enumerate();
        octaves.map(|(octave, buckets)| {
            let end = Self::end(octave * PARTS + PARTS - 1);
            let count = buckets.iter().map(Number::get).sum();
            (Duration::from_nanos(end), count)
        })
    }

    /// The same, and how many took less in all: from the first that did to the
    /// last.
    pub(crate) fn cumulative(&self) -> Vec<(Duration, u64)> {
        let total = self.total();
        let mut sum = 0;
        let mut steps = Vec::new();
        for (end, count) in self.octaves() {
            let complete = sum == total;
            sum += count;
            if sum > 0 && !complete {
                steps.push((end, sum));
            }
        }
        steps
    }
}

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

    pub(crate) connections: Number,
    pub(crate) connections_unix: Number,
    /// Connections through TCP, by enum bpfdb_way; counted once a second.
    pub(crate) ways: [Number; WAYS.len()],
    pub(crate) connections_received: Number,
    pub(crate) connections_rejected: Number,
    pub(crate) connections_timed_out: Number,
    /// Closed because their replies were not read.
    pub(crate) connections_over_output_limit: Number,
    /// Closed because all connections together used too much memory.
    pub(crate) connections_evicted: Number,
    /// Connections that have subscribed, and names that have subscribers, now.
    pub(crate) subscribers: Number,
    pub(crate) channels: Number,
    pub(crate) patterns: Number,
    pub(crate) shard_channels: Number,
    /// Messages that were published, and the same once for each receiver.
    pub(crate) messages_published: Number,
    pub(crate) messages_delivered: Number,
    /// Bytes of requests and replies that are kept now.
    pub(crate) client_memory: Number,
    pub(crate) input_bytes: Number,
    pub(crate) output_bytes: Number,
    pub(crate) error_replies: Number,
    /// Of these, CONFLICT by its cause.
    conflicts: [Number; ConflictCause::ALL.len()],
    pub(crate) authentications_failed: Number,
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
    /// When nobody believes any more that it will.
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
            connections: Number::default(),
            connections_unix: Number::default(),
            ways: std::array::from_fn(|_| Number::default()),
            connections_received: Number::default(),
            connections_rejected: Number::default(),
            connections_timed_out: Number::default(),
            connections_over_output_limit: Number::default(),
            connections_evicted: Number::default(),
            subscribers: Number::default(),
            channels: Number::default(),
            patterns: Number::default(),
            shard_channels: Number::default(),
            messages_published: Number::default(),
            messages_delivered: Number::default(),
            client_memory: Number::default(),
            input_bytes: Number::default(),
            output_bytes: Number::default(),
            error_replies: Number::default(),
            conflicts: Default::default(),
            authentications_failed: Number::default(),
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
        for number in [
            &self.connections_received,
            &self.connections_rejected,
            &self.connections_timed_out,
            &self.connections_over_output_limit,
            &self.connections_evicted,
            &self.messages_published,
            &self.messages_delivered,
            &self.input_bytes,
            &self.output_bytes,
            &self.error_replies,
            &self.authentications_failed,
            &self.gets_found,
            &self.gets_missed,
        ] {
            number.set(0);
        }
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
    fn buckets_hold_what_belongs_to_them() {
        let mut last = 0;
        for nanoseconds in [0, 255, 256, 319, 320, 511, 512, 1000, 123_456, u64::MAX] {
            let bucket = Histogram::bucket(nanoseconds);
            assert!(bucket >= last, "{nanoseconds}");
            last = bucket;
            if bucket < Histogram::BUCKETS - 1 {
                assert!(nanoseconds < Histogram::end(bucket), "{nanoseconds}");
                assert!(
                    bucket == 0 || nanoseconds >= Histogram::end(bucket - 1),
                    "{nanoseconds}"
                );
            }
        }
    }

    #[test]
    fn percentiles() {
        let histogram = Histogram::default();
        assert_eq!(histogram.cumulative(), []);
        for _ in 0..99 {
            histogram.add(1_000);
        }
        histogram.add(1_000_000);
        let near = |time: Duration, nanoseconds: f64| {
            let ratio = time.as_nanos() as f64 / nanoseconds;
            assert!((1.0..=1.25).contains(&ratio), "{time:?}");
        };
        near(histogram.percentile(50.0), 1_000.0);
        near(histogram.percentile(99.0), 1_000.0);
        near(histogram.percentile(99.9), 1_000_000.0);
        let steps = histogram.cumulative();
        assert_eq!(steps.first(), Some(&(Duration::from_nanos(1024), 99)));
        assert_eq!(steps.last(), Some(&(Duration::from_nanos(1 << 20), 100)));
    }

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
