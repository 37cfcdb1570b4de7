//! Threads that wait for commits to become durable.
//!
//! Invariants
//!  1. Every waiter is woken. It says what it waits for, and then looks at what is durable; the
//!     writer says what is durable, and then looks at what is waited for. All four in one order
//!     that both agree on, so at least one of them sees the other.
//!  2. The writer, asleep, is woken by the first that waits for more than is durable; while it
//!     gathers, by the last that may be expected; and while groups are under way beside which another
//!     may begin, by the first that waits for more than they have. Of this one, too, the waiter says
//!     what it waits for, and then looks at what is under way; the writer says what is under way, and
//!     then looks at what is waited for.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Waiters {
    durable: AtomicU64,
    wanted: AtomicU64,
    /// Those that have begun to wait since the last group was begun.
    waiting: AtomicU64,
    /// How many may join the next group: those that waited when the last one ended, and those that
    /// it has woken, for they may commit again.
    expected: AtomicU64,
    /// Up to here everything is under way, or durable, and another group may begin beside that.
    under_way: AtomicU64,
}

impl Waiters {
    pub(crate) fn new(durable: u64) -> Self {
        Self {
            durable: AtomicU64::new(durable),
            wanted: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            under_way: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    /// So many more wait for this timestamp. Is the writer to be woken?
    pub(crate) fn want(&self, timestamp: u64, waiters: u32) -> bool {
        let waiters = u64::from(waiters);
        let before = self.waiting.fetch_add(waiters, Ordering::SeqCst);
        let wanted = self.wanted.fetch_max(timestamp, Ordering::SeqCst);
        let is_first = wanted <= self.durable();
        let expected = self.expected.load(Ordering::SeqCst);
        let under_way = self.under_way.load(Ordering::SeqCst);
        let is_first_beside = wanted <= under_way && timestamp > under_way;
        is_first || is_first_beside || (before < expected && before + waiters >= expected)
    }

    /// Does a caller wait for more than is durable?
    pub(crate) fn is_wanted(&self) -> bool {
        self.wants_after(self.durable())
    }

    /// Does a caller wait for more than this timestamp?
    pub(crate) fn wants_after(&self, timestamp: u64) -> bool {
        self.wanted.load(Ordering::SeqCst) > timestamp
    }

    /// May more be expected to join the next group than wait for it?
    pub(crate) fn lacks_some(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) < self.expected.load(Ordering::SeqCst)
    }

    /// Does everybody wait that may be expected?
    pub(crate) fn has_all(&self) -> bool {
        let expected = self.expected.load(Ordering::SeqCst);
        expected > 0 && self.waiting.load(Ordering::SeqCst) >= expected
    }

    /// How many wait for the group that begins.
    pub(crate) fn begin_group(&self) -> u64 {
        let waiting = self.waiting.swap(0, Ordering::SeqCst);
        // While it is written the writer is not to be woken, unless it begins another one.
        self.expected.store(0, Ordering::SeqCst);
        waiting
    }

    /// A group is under way that has everything up to this timestamp. Who waits for more wakes the
    /// writer, unless [`wants_after`](Self::wants_after) says so now.
    pub(crate) fn note_under_way(&self, timestamp: u64) {
        self.under_way.store(timestamp, Ordering::SeqCst);
    }

    /// The group for which so many wait has found no space: they wait for the next one.
    pub(crate) fn rejoin(&self, waiters: u64) {
        self.waiting.fetch_add(waiters, Ordering::SeqCst);
    }

    /// What an earlier owner wrote is durable, up to this timestamp. Did a caller wait for a part
    /// of it?
    pub(crate) fn note_durable(&self, timestamp: u64) -> bool {
        let before = self.durable.fetch_max(timestamp, Ordering::SeqCst);
        self.wanted.load(Ordering::SeqCst) > before
    }

    /// Everything up to this timestamp is durable, with a group for which so many have waited. Did a
    /// caller wait for a part of it?
    pub(crate) fn end_group(&self, timestamp: u64, told: u64) -> bool {
        let before = self.durable();
        self.durable.store(timestamp, Ordering::SeqCst);
        let waiting = self.waiting.load(Ordering::SeqCst);
        self.expected.store(told + waiting, Ordering::SeqCst);
        self.wanted.load(Ordering::SeqCst) > before
    }
}

#[cfg(test)]
mod tests {
    use std::hint;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{RecvTimeoutError, sync_channel};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_writer_waits_for_those_it_has_told_and_for_no_others() {
        let waiters = Waiters::new(0);
        // One client by itself is never waited for.
        assert!(waiters.want(1, 1));
        assert!(!waiters.lacks_some());
        let told = waiters.begin_group();
        assert!(waiters.end_group(1, told));
        assert!(waiters.lacks_some(), "he may come again");
        assert!(waiters.want(2, 1));
        assert!(!waiters.lacks_some());
        // Two more come while its group is written.
        let told = waiters.begin_group();
        assert!(!waiters.want(3, 2), "the writer is at work");
        assert!(waiters.end_group(2, told));
        assert!(waiters.is_wanted() && waiters.lacks_some());
        assert!(waiters.want(4, 1), "the last of three");
        assert!(!waiters.lacks_some());
        let told = waiters.begin_group();
        assert!(waiters.end_group(4, told));
        assert!(!waiters.is_wanted());
        // Nobody waited for this one.
        let told = waiters.begin_group();
        assert!(!waiters.end_group(5, told));
    }

    /// The writer sleeps while a group is under way: who is not in it has another one begun.
    #[test]
    fn the_first_beside_a_group_wakes_the_writer() {
        let waiters = Waiters::new(0);
        assert!(waiters.want(1, 2));
        let first = waiters.begin_group();
        assert_eq!(first, 2);
        waiters.note_under_way(2);
        assert!(!waiters.want(2, 1), "it is in the group");
        assert!(!waiters.wants_after(2));
        assert!(waiters.want(3, 1), "the first beside it");
        assert!(!waiters.want(4, 1), "the writer knows");
        assert!(waiters.wants_after(2) && !waiters.has_all());
        let second = waiters.begin_group();
        waiters.note_under_way(4);
        assert!(waiters.end_group(2, first));
        assert!(!waiters.has_all());
        assert!(waiters.want(5, 1), "the first again");
        assert!(waiters.want(6, 1), "the last of those that were woken");
        assert!(waiters.has_all());
        // There was no space: they all wait for the next one.
        waiters.rejoin(second);
        assert_eq!(waiters.begin_group(), 5);
        assert!(!waiters.want(7, 1), "none begins beside this one");
    }

    /// A writer that sleeps while a group is under way and nobody waits for more; and a client that has
    /// a group end by waiting for the next one.
    #[test]
    fn the_writer_does_not_sleep_while_another_group_may_begin() {
        const ROUNDS: u64 = 100_000;
        const LONG: Duration = Duration::from_secs(20);
        let waiters = Waiters::new(0);
        let clock = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let told = waiters.begin_group();
                    let now = clock.load(Ordering::SeqCst);
                    waiters.note_under_way(now);
                    while !waiters.wants_after(now) && !over.load(Ordering::SeqCst) {
                        let slept = Instant::now();
                        thread::park_timeout(LONG);
                        if slept.elapsed() >= LONG {
                            over.store(true, Ordering::SeqCst);
                            panic!("nobody has said that another group may begin");
                        }
                    }
                    waiters.end_group(now, told);
                }
            });
            for round in 1..=ROUNDS {
                clock.store(round, Ordering::SeqCst);
                for _ in 0..round % 64 {
                    hint::spin_loop();
                }
                if waiters.want(round, 1) {
                    writer.thread().unpark();
                }
                // Or the group that is under way has this round already: the next one ends it.
                let is_late = || {
                    let under_way = waiters.under_way.load(Ordering::SeqCst);
                    waiters.durable() + 1 < round && under_way < round
                };
                while is_late() && !over.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
            }
            over.store(true, Ordering::SeqCst);
            writer.thread().unpark();
        });
    }

    #[test]
    fn whoever_waits_for_what_an_earlier_owner_wrote_is_told() {
        let waiters = Waiters::new(3);
        assert!(waiters.want(5, 1));
        assert!(waiters.is_wanted());
        assert!(waiters.note_durable(7));
        assert_eq!(waiters.durable(), 7);
        assert!(!waiters.is_wanted());
        // It was all durable before.
        assert!(!Waiters::new(7).note_durable(7));
    }

    /// A writer that ends one group after the other, and a client that it wakes.
    #[test]
    fn whoever_waits_is_told() {
        const ROUNDS: u64 = 200_000;
        let waiters = Waiters::new(0);
        let clock = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        let (bell, rung) = sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let told = waiters.begin_group();
                    let now = clock.load(Ordering::SeqCst);
                    if waiters.end_group(now, told) {
                        // It is rung already.
                        let _ = bell.try_send(());
                    }
                }
            });
            for round in 1..=ROUNDS {
                clock.store(round, Ordering::SeqCst);
                // So that the writer is at every place of its work when a caller comes.
                for _ in 0..round % 64 {
                    hint::spin_loop();
                }
                waiters.want(round, 1);
                while waiters.durable() < round {
                    let heard = rung.recv_timeout(Duration::from_secs(20));
                    if heard == Err(RecvTimeoutError::Timeout) {
                        over.store(true, Ordering::SeqCst);
                        panic!("round {round}: nobody has said that it is durable");
                    }
                }
            }
            over.store(true, Ordering::SeqCst);
        });
    }
}
