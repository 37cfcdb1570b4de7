//! Groups that are under way to the disk, and when another one may begin beside them.
//!
//! One group after the other is right where a flush is quick: then as many commits as possible
//! share one. Where it is slow, a disk takes several at once and needs little longer for them than
//! for one; and a commit that comes while a group is under way need not wait for its end before its
//! own group begins. So groups begin so far apart that as many are under way as may be, and not
//! closer together than the processor time of a group allows.
//!
//! ```text
//! a flush of 1.6 ms, four groups:     ├──── 1 ────┤
//!                                        ├──── 2 ────┤
//!                                           ├──── 3 ────┤
//!                                              ├──── 4 ────┤
//!                                     0  0.4  0.8  1.2
//! ```
//!
//! A group is durable when it and all before it are ([`bpfdb_log::LogWriter::submit`]); in this
//! order it is ended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::checkpoint::Origin;
use crate::feed::Taken;
use crate::shared::GroupBegun;

/// A group waits for those that may join it for this part of a flush at most.
const GATHER_SHARE: u32 = 2;
/// And at most this.
const GATHER_MOST: Duration = Duration::from_millis(20);

/// A group whose records are in the log, or on their way there.
#[derive(Debug)]
pub(crate) struct Group {
    /// Nothing, if it was given up.
    pub(crate) taken: Taken,
    pub(crate) epoch: u64,
    pub(crate) begun: GroupBegun,
    pub(crate) origin: Origin,
    /// The batch with which it is durable.
    pub(crate) sequence: u64,
    /// `None`: that batch is another group's, or its end was noted.
    pub(crate) submitted: Option<Submitted>,
    /// It has no commits.
    pub(crate) is_idle: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitted {
    pub(crate) at: Instant,
    /// While another group was under way.
    pub(crate) overlaps: bool,
}

/// The groups that are not durable yet, as far as is known.
#[derive(Debug)]
pub(crate) struct Groups {
    under_way: VecDeque<Group>,
    /// Most groups at once.
    most: usize,
    /// Between the beginnings of two of them, at least.
    spacing: Duration,
    /// Of a write with its flush, lately.
    flush_time: Duration,
    /// When the last group was begun.
    begun: Instant,
}

impl Groups {
    pub(crate) fn new(most: usize, spacing: Duration) -> Self {
        Self {
            under_way: VecDeque::new(),
            most,
            spacing,
            flush_time: Duration::ZERO,
            begun: Instant::now(),
        }
    }

    /// Most groups at once.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The last group that is under way.
    pub(crate) fn last(&self) -> Option<&Group> {
        self.under_way.back()
    }

    pub(crate) fn push(&mut self, group: Group) {
        self.begun = group.begun.at;
        self.under_way.push_back(group);
    }

    /// The first group, if it is durable when the log is up to this batch.
    pub(crate) fn pop_durable(&mut self, sequence: u64) -> Option<Group> {
        let first = self.under_way.front();
        match first.is_some_and(|group| group.sequence <= sequence) {
            true => self.under_way.pop_front(),
            false => None,
        }
    }

    /// None is under way any more: those that were, the earliest first.
    pub(crate) fn drain(&mut self) -> impl DoubleEndedIterator<Item = Group> + '_ {
        self.under_way.drain(..)
    }

    /// A write with its flush took so long.
    pub(crate) fn note_flush(&mut self, time: Duration) {
        self.flush_time = (self.flush_time * 7 + time) / 8;
    }

    /// Does a flush take so long that another group may begin before it has ended?
    pub(crate) fn overlap(&self) -> bool {
        self.most > 1 && self.flush_time >= self.spacing
    }

    /// How long the next group waits for those that may join it, while none is under way.
    pub(crate) fn patience(&self) -> Duration {
        let patience = (self.flush_time / GATHER_SHARE).min(GATHER_MOST);
        match self.overlap() {
            true => patience.min(self.distance()),
            false => patience,
        }
    }

    /// How long it takes until another group may begin beside those that are under way, for
    /// callers that wait for it: all of them that may be expected, if it `has_all`. `None`: not
    /// before one of these groups has ended.
    pub(crate) fn next_in(&self, has_all: bool, now: Instant) -> Option<Duration> {
        if !self.overlap() || self.submitted() >= self.most {
            return None;
        }
        match has_all {
            true => Some(Duration::ZERO),
            false => {
                let since = now.saturating_duration_since(self.begun);
                Some(self.distance().saturating_sub(since))
            }
        }
    }

    /// How many groups have a batch of their own under way.
    fn submitted(&self) -> usize {
        let groups = self.under_way.iter();
        groups.filter(|group| group.submitted.is_some()).count()
    }

    /// Between the beginnings of two groups.
    fn distance(&self) -> Duration {
        let share = self.flush_time / u32::try_from(self.most).unwrap_or(u32::MAX).max(1);
        share.max(self.spacing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::GroupBegun;

    const SPACING: Duration = Duration::from_micros(200);

    fn after_flushes_of(most: usize, time: Duration) -> Groups {
        let mut groups = Groups::new(most, SPACING);
        for _ in 0..100 {
            groups.note_flush(time);
        }
        groups
    }

    fn group(sequence: u64, at: Instant) -> Group {
        Group {
            taken: Taken::default(),
            epoch: sequence,
            begun: GroupBegun::of(at),
            origin: Origin {
                begun: at,
                epoch: sequence,
                segment: 1,
                log: bpfdb_log::LogId([0; 16]),
                run: 1,
            },
            sequence,
            submitted: Some(Submitted {
                at,
                overlaps: false,
            }),
            is_idle: false,
        }
    }

    /// It is durable with the one before it.
    fn idle(sequence: u64, at: Instant) -> Group {
        Group {
            submitted: None,
            is_idle: true,
            ..group(sequence, at)
        }
    }

    #[test]
    fn quick_flushes_follow_each_other() {
        let mut groups = after_flushes_of(4, SPACING / 2);
        assert!(!groups.overlap());
        assert!(groups.patience() <= SPACING / 4);
        let now = Instant::now();
        groups.push(group(1, now));
        assert_eq!(groups.next_in(true, now + 9 * SPACING), None);
        assert!(!after_flushes_of(1, 90 * SPACING).overlap());
    }

    #[test]
    fn slow_flushes_overlap() {
        let mut groups = after_flushes_of(4, 8 * SPACING);
        assert!(groups.overlap());
        // A quarter of a flush, but for rounding.
        let distance = groups.patience();
        assert!(
            distance > SPACING && distance <= 2 * SPACING,
            "{distance:?}"
        );
        let begun = Instant::now();
        for sequence in 1..=3 {
            groups.push(group(sequence, begun));
        }
        groups.push(idle(3, begun));
        assert_eq!(groups.next_in(false, begun), Some(distance));
        assert_eq!(
            groups.next_in(false, begun + distance),
            Some(Duration::ZERO)
        );
        assert_eq!(groups.next_in(true, begun), Some(Duration::ZERO));
        groups.push(group(4, begun));
        assert_eq!(groups.next_in(true, begun + distance), None, "four are");
    }

    #[test]
    fn groups_end_in_their_order() {
        let mut groups = after_flushes_of(4, 8 * SPACING);
        let now = Instant::now();
        for sequence in [5, 6, 6, 7] {
            groups.push(group(sequence, now));
        }
        assert!(groups.pop_durable(4).is_none());
        // The third has no batch of its own.
        let ended = std::iter::from_fn(|| groups.pop_durable(6));
        assert_eq!(
            ended.map(|group| group.sequence).collect::<Vec<_>>(),
            [5, 6, 6]
        );
        assert_eq!(groups.last().map(|group| group.epoch), Some(7));
        assert_eq!(groups.drain().count(), 1);
        assert!(groups.is_empty());
    }
}
