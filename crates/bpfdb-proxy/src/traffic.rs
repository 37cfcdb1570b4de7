//! What goes through pools: numbers, bytes and times.

use std::ops::{Add, AddAssign};

use nix::time::{ClockId, clock_gettime};

const NANOS: u64 = 1_000_000_000;

/// The monotonic clock, on which the programs have their times, too; ns.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    now.tv_sec() as u64 * NANOS + now.tv_nsec() as u64
}

/// Ever, or of a while. Times are in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// ReadyForQuery messages that clients have got.
    pub(crate) queries: u64,
    /// Those outside a transaction block.
    pub(crate) transactions: u64,
    /// Bytes from clients.
    pub(crate) received: u64,
    /// Bytes to clients.
    pub(crate) sent: u64,
    /// From a request to its ReadyForQuery; of a pipeline from one to the next.
    pub(crate) query_time: u64,
    pub(crate) transaction_time: u64,
    /// That clients have waited for servers.
    pub(crate) wait_time: u64,
}

impl Traffic {
    fn with(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            queries: join(self.queries, other.queries),
            transactions: join(self.transactions, other.transactions),
            received: join(self.received, other.received),
            sent: join(self.sent, other.sent),
            query_time: join(self.query_time, other.query_time),
            transaction_time: join(self.transaction_time, other.transaction_time),
            wait_time: join(self.wait_time, other.wait_time),
        }
    }

    /// What came since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Numbers and bytes for each second of `nanos`; times for each query, transaction and query.
    pub(crate) fn average(self, nanos: u64) -> Self {
        let each_second =
            |all: u64| (u128::from(all) * u128::from(NANOS) / u128::from(nanos.max(1))) as u64;
        Self {
            queries: each_second(self.queries),
            transactions: each_second(self.transactions),
            received: each_second(self.received),
            sent: each_second(self.sent),
            query_time: self.query_time / self.queries.max(1),
            transaction_time: self.transaction_time / self.transactions.max(1),
            wait_time: self.wait_time / self.queries.max(1),
        }
    }

    /// As PgBouncer orders them, times in µs: transactions, queries, received, sent, and times of
    /// transactions, of queries and of waiting.
    pub(crate) fn figures(self) -> [u64; 7] {
        [
            self.transactions,
            self.queries,
            self.received,
            self.sent,
            self.transaction_time / 1000,
            self.query_time / 1000,
            self.wait_time / 1000,
        ]
    }
}

impl Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Traffic {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// A pool's figures at the ends of the last two periods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Periods {
    older: (u64, Traffic),
    newer: (u64, Traffic),
}

impl Periods {
    /// A period ends at `now`, ns, with these figures.
    pub(crate) fn end(&mut self, now: u64, all: Traffic) {
        self.older = self.newer;
        self.newer = (now, all);
    }

    /// Of the last period that has ended.
    pub(crate) fn average(&self) -> Traffic {
        let time = self.newer.0.saturating_sub(self.older.0);
        self.newer.1.since(self.older.1).average(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_of_the_last_period() {
        let all = |queries, query_time| Traffic {
            queries,
            query_time,
            ..Traffic::default()
        };
        let mut periods = Periods::default();
        periods.end(NANOS, all(100, 1_000));
        periods.end(3 * NANOS, all(120, 3_000));
        let average = periods.average();
        assert_eq!((average.queries, average.query_time), (10, 100));
        assert_eq!(all(3, 5_000).figures()[1], 3);
        assert_eq!(all(3, 5_000).figures()[5], 5);
    }
}
