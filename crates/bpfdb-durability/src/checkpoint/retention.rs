//! Rules for what is retained of the log besides what a start needs, for recovery to an earlier time, and for
//! how long. Pure bookkeeping: `retain.rs` does what is decided here.
//!
//! # Rules
//!
//! 1. To reach a point in time a checkpoint is needed that was complete by then, and the log after
//!    it. So of those that are old enough only the newest is kept, with everything behind it.
//! 2. A checkpoint that is none of these is kept if the log that it will let go of is at least as
//!    long as it is. Else it would take more than it spares.
//! 3. If it all is more than it may be, the oldest goes first.
//! 4. Ages go by a clock that cannot be set: a wall clock that jumps gives nothing up. Only of what
//!    an earlier process made the wall clock must tell.

use std::time::{Duration, Instant};

use bpfdb_log::checkpoint::WrittenCheckpoint;
use bpfdb_log::control::Control;
use bpfdb_log::{Beginning, Beginnings, Disk, LogError, Moment};

/// How much is retained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionOptions {
    /// Recovery can reach every point in time from so long ago on. Zero: nothing is retained.
    pub time: Duration,
    /// Bytes of what is retained, at most. `None`: as many as the disk has space for.
    pub bytes: Option<u64>,
}

/// What is retained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionStatus {
    /// Of segments and checkpoints that a start does not need.
    pub bytes: u64,
    /// The earliest point that recovery can reach.
    pub earliest: Moment,
}

/// A checkpoint, or the log's very beginning, from which recovery may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// Of the checkpoint; 0: there was nothing.
    number: u64,
    first_segment: u64,
    bytes: u64,
    earliest: Moment,
    /// How old it was at a time.
    age: Duration,
    seen: Instant,
}

impl Kept {
    fn age(&self, now: Instant) -> Duration {
        self.age
            .saturating_add(now.saturating_duration_since(self.seen))
    }
}

/// All from which recovery may begin, oldest first. The last one is that of a start.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    pub(super) options: RetentionOptions,
    segment_size: u64,
    kept: Vec<Kept>,
    /// Numbers of older ones that could not be read: perhaps they can another time, so they stay
    /// until something is given up that is later.
    unread: Vec<u64>,
}

impl Retention {
    pub(super) fn new(options: RetentionOptions, segment_size: u64) -> Self {
        Self {
            options,
            segment_size,
            kept: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Takes over what an earlier owner retained. `wall`: nanoseconds of UNIX time.
    pub(super) fn adopt<D: Disk>(
        &mut self,
        disk: &D,
        control: &Control,
        wall: u64,
    ) -> Result<(), LogError> {
        let found = Beginnings::find(disk, control)?;
        for damage in &found.damaged {
            tracing::error!(%damage, "a checkpoint is damaged");
        }
        self.unread = found.unread;
        let now = Instant::now();
        self.kept = found.list.iter().map(|one| kept(one, wall, now)).collect();
        // It counts, though it is not needed.
        if let Some(mark) = control.checkpoint.filter(|_| control.first_needed == 1) {
            self.kept.push(Kept {
                number: mark.number,
                first_segment: 1,
                bytes: 0,
                earliest: Moment {
                    epoch: mark.end,
                    wall,
                },
                age: Duration::ZERO,
                seen: now,
            });
        }
        Ok(())
    }

    /// From the moment on when this checkpoint counts.
    pub(super) fn with(&self, written: &WrittenCheckpoint, now: Instant) -> Self {
        let mut next = self.clone();
        next.thin();
        next.kept.push(Kept {
            number: written.mark.number,
            first_segment: written.first_segment,
            bytes: written.bytes,
            earliest: Moment {
                epoch: written.mark.end,
                wall: written.wall,
            },
            age: Duration::ZERO,
            seen: now,
        });
        next.trim(now);
        next
    }

    /// Without the last one, if it is not worth its bytes now that another one comes: rule 2.
    fn thin(&mut self) {
        let [.., before, last] = &self.kept[..] else {
            return;
        };
        let log = (last.first_segment - before.first_segment) * self.segment_size;
        if log < last.bytes || log == 0 {
            self.kept.pop();
        }
    }

    /// Without what need not be kept any more.
    pub(super) fn trim(&mut self, now: Instant) {
        let time = self.options.time;
        let is_old = |kept: &Kept| !time.is_zero() && kept.age(now) >= time;
        let from = match self.kept.iter().rposition(is_old) {
            Some(from) => from,
            None if time.is_zero() => self.kept.len().saturating_sub(1),
            None => 0,
        };
        self.drop_oldest(from);
        while self.options.bytes.is_some_and(|most| self.bytes() > most) {
            self.drop_oldest(1);
        }
    }

    fn drop_oldest(&mut self, count: usize) {
        if count > 0 {
            self.kept.drain(..count);
            let first = self.kept.first().map_or(u64::MAX, |kept| kept.number);
            self.unread.retain(|number| *number > first);
        }
    }

    /// Without the oldest one. `false`: nothing is retained.
    pub(super) fn give_up_oldest(&mut self) -> bool {
        if self.kept.len() < 2 {
            return !std::mem::take(&mut self.unread).is_empty();
        }
        self.drop_oldest(1);
        true
    }

    /// The first segment that is kept; 0: all that are there. `None`: that which is needed.
    pub(super) fn first_kept(&self) -> Option<u64> {
        let first = self.kept.first().map_or(u64::MAX, |kept| kept.number);
        if self.unread.iter().any(|number| *number < first) {
            return Some(0);
        }
        self.kept.first().map(|kept| kept.first_segment)
    }

    /// Whether the log keeps segments, from this one on, with which nothing can be begun.
    pub(super) fn keeps_less_than(&self, log_first: u64) -> bool {
        self.first_kept().is_some_and(|first| first > log_first)
    }

    /// Numbers of the checkpoints that are kept.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let kept = self.kept.iter().map(|kept| kept.number);
        kept.chain(self.unread.iter().copied()).collect()
    }

    pub(super) fn status(&self) -> RetentionStatus {
        RetentionStatus {
            bytes: self.bytes(),
            earliest: self
                .kept
                .first()
                .map_or(Moment::default(), |kept| kept.earliest),
        }
    }

    fn bytes(&self) -> u64 {
        let [older @ .., last] = &self.kept[..] else {
            return 0;
        };
        let first = older.first().unwrap_or(last).first_segment;
        let checkpoints: u64 = older.iter().map(|kept| kept.bytes).sum();
        (last.first_segment - first) * self.segment_size + checkpoints
    }
}

fn kept(beginning: &Beginning, wall: u64, now: Instant) -> Kept {
    Kept {
        number: beginning.number(),
        first_segment: beginning.first_segment,
        bytes: beginning.bytes,
        earliest: beginning.earliest,
        age: Duration::from_nanos(wall.saturating_sub(beginning.earliest.wall)),
        seen: now,
    }
}

#[cfg(test)]
mod tests {
    use bpfdb_log::checkpoint::Mark;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Segments of 10 bytes.
    fn retention(hours: u32, bytes: Option<u64>) -> (Retention, Instant) {
        let options = RetentionOptions {
            time: HOUR * hours,
            bytes,
        };
        let mut retention = Retention::new(options, 10);
        let begun = Instant::now();
        retention.kept.push(Kept {
            number: 0,
            first_segment: 1,
            bytes: 0,
            earliest: Moment::default(),
            age: Duration::MAX,
            seen: begun,
        });
        (retention, begun)
    }

    fn checkpoint(number: u64, first_segment: u64, bytes: u64) -> WrittenCheckpoint {
        WrittenCheckpoint {
            mark: Mark {
                number,
                start: number,
                end: number,
            },
            first_segment,
            entries: 0,
            bytes,
            wall: number,
        }
    }

    #[test]
    fn nothing_is_retained_unless_somebody_wants_it() {
        let (retention, begun) = retention(0, None);
        let next = retention.with(&checkpoint(1, 5, 20), begun);
        assert_eq!(next.numbers(), [1]);
        assert_eq!(next.first_kept(), Some(5));
        assert_eq!(next.status().bytes, 0);
    }

    /// A checkpoint an hour, each with the log before it: those within, and the one before.
    #[test]
    fn every_point_within_the_time_is_reached_and_little_before() {
        let (mut retention, begun) = retention(3, None);
        for number in 1..=10_u32 {
            let now = begun + HOUR * number;
            let number = u64::from(number);
            retention = retention.with(&checkpoint(number, 1 + 5 * number, 20), now);
            let oldest = retention.kept[0];
            let first = number.saturating_sub(3);
            assert_eq!(retention.numbers(), (first..=number).collect::<Vec<_>>());
            assert!(oldest.age(now) >= HOUR * 3);
            let log = (number - first) * 5 * 10;
            let checkpoints = if first == 0 {
                number - 1
            } else {
                number - first
            };
            assert_eq!(retention.status().bytes, log + checkpoints * 20);
        }
        // It gets old without another one.
        retention.trim(begun + HOUR * 13);
        assert_eq!(retention.numbers(), [10]);
    }

    /// Of a large database that is seldom written two checkpoints are kept, and not one an hour.
    #[test]
    fn a_checkpoint_that_is_longer_than_the_log_that_it_spares_is_not_kept() {
        let (mut retention, begun) = retention(100, None);
        for number in 1..=50 {
            let now = begun + HOUR * number;
            let number = u64::from(number);
            retention = retention.with(&checkpoint(number, 1 + number, 100), now);
        }
        assert_eq!(retention.numbers(), [0, 10, 20, 30, 40, 50]);
        // One that comes within the same segment as the one before spares nothing.
        let now = begun + HOUR * 51;
        retention = retention.with(&checkpoint(51, 51, 0), now);
        retention = retention.with(&checkpoint(52, 51, 0), now);
        assert_eq!(retention.numbers(), [0, 10, 20, 30, 40, 50, 52]);
    }

    #[test]
    fn it_is_no_more_than_it_may_be() {
        let (mut retention, begun) = retention(100, Some(200));
        for number in 1..=20 {
            let now = begun + HOUR * number;
            let number = u64::from(number);
            retention = retention.with(&checkpoint(number, 1 + 5 * number, 20), now);
            assert!(retention.status().bytes <= 200);
        }
        assert_eq!(retention.numbers(), [18, 19, 20]);
        retention.options.bytes = Some(0);
        retention.trim(begun);
        assert_eq!(retention.numbers(), [20]);
        assert!(!retention.give_up_oldest());
    }
}
