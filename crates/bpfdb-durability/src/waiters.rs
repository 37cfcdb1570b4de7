//! Who waits for commits to become durable.
//!
//! Invariants
//!  1. Every waiter is woken. It says what it waits for, and then looks at what is durable; the
//!     writer says what is durable, and then looks at what is waited for. All four in one order
//!     that both agree on, so at least one of them sees the other.
//!  2. The writer, asleep, is woken by the first that waits for more than is durable; and, while it
//!     gathers, by the last that may be expected.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Waiters {
    durable: AtomicU64,
    wanted: AtomicU64,
    /// Who has begun to wait since the last group was begun.
    waiting: AtomicU64,
    /// Who waits for the group that is on its way. The writer's.
    in_group: AtomicU64,
    /// How many may join the next group: those that waited when the last one ended, and those that
    /// it has woken, for they may commit again.
    expected: AtomicU64,
}

impl Waiters {
    pub(crate) fn new(durable: u64) -> Self {
        Self {
            durable: AtomicU64::new(durable),
            wanted: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            in_group: AtomicU64::new(0),
            expected: AtomicU64::new(0),
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
        is_first || (before < expected && before + waiters >= expected)
    }

    /// Does a caller wait for more than is durable?
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > self.durable()
    }

    /// May more be expected to join the next group than wait for it?
    pub(crate) fn lacks_some(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) < self.expected.load(Ordering::SeqCst)
    }

    pub(crate) fn begin_group(&self) {
        let waiting = self.waiting.swap(0, Ordering::SeqCst);
        self.in_group.store(waiting, Ordering::SeqCst);
        // While it is written the writer is not to be woken.
        self.expected.store(0, Ordering::SeqCst);
    }

    /// What an earlier owner wrote is durable, up to this timestamp. Did a caller wait for a part
    /// of it?
    pub(crate) fn note_durable(&self, timestamp: u64) -> bool {
        let before = self.durable.fetch_max(timestamp, Ordering::SeqCst);
        self.wanted.load(Ordering::SeqCst) > before
    }

    /// Everything up to this timestamp is durable. Did a caller wait for a part of it?
    pub(crate) fn end_group(&self, timestamp: u64) -> bool {
        let before = self.durable();
        self.durable.store(timestamp, Ordering::SeqCst);
        let told = self.in_group.load(Ordering::SeqCst);
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_writer_waits_for_those_it_has_told_and_for_no_others() {
        let waiters = Waiters::new(0);
        // One client by itself is never waited for.
        assert!(waiters.want(1, 1));
        assert!(!waiters.lacks_some());
        waiters.begin_group();
        assert!(waiters.end_group(1));
        assert!(waiters.lacks_some(), "he may come again");
        assert!(waiters.want(2, 1));
        assert!(!waiters.lacks_some());
        // Two more come while its group is written.
        waiters.begin_group();
        assert!(!waiters.want(3, 2), "the writer is at work");
        assert!(waiters.end_group(2));
        assert!(waiters.is_wanted() && waiters.lacks_some());
        assert!(waiters.want(4, 1), "the last of three");
        assert!(!waiters.lacks_some());
        waiters.begin_group();
        assert!(waiters.end_group(4));
        assert!(!waiters.is_wanted());
        // Nobody waited for this one.
        waiters.begin_group();
        assert!(!waiters.end_group(5));
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
                    waiters.begin_group();
                    let now = clock.load(Ordering::SeqCst);
                    if waiters.end_group(now) {
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
