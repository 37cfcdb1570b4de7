//! Follows a log while it is written: the commits that are durable, in the order of their
//! timestamps, and more of them whenever there are more.
//!
//! # Rules
//!
//! 1. A commit is passed on when its batch, and that which ends its epoch, are known to be durable
//!    ([`reader::ahead`](crate::read::reader)). So what was passed on is never taken back by a
//!    crash.
//! 2. Nothing is skipped without an error. A log that has given up its first segments is complete
//!    only behind some timestamp: commits up to there are not passed on, and a caller that asks for them is
//!    refused. What is retained for recovery to an earlier time is passed on too.
//! 3. The owner may give up a segment that is being read. What was read of it until then is true,
//!    because checksums hold it together; then [`LogError::Gone`] comes.

use crate::disk::Disk;
use crate::error::{LogError, Result};
use crate::format::control::Control;
use crate::format::segment::SegmentHeader;
use crate::read::reader::{Ahead, Item, read_control};
use crate::read::recovered::{LargeValue, RecoveredCommit};
use crate::read::recovery::Recovery;
use crate::read::retained::Beginnings;

/// A group's records lie in batches of its own epoch and of those around it. So where the log's
/// beginning is gone, the epochs that end the first so many groups may lack commits: a part of a
/// group carries the epoch before, and a commit may lie in the batch before that of its epoch.
const UNSURE_EPOCHS: u32 = 3;

/// Reads a log that grows.
pub struct Follower<D: Disk> {
    disk: D,
    recovery: Recovery<D>,
    first_segment: u64,
    /// The first timestamp that is wanted.
    from: Option<u64>,
    /// The log has all commits with a later timestamp, as far as is known.
    complete_after: u64,
    /// So many epochs of the beginning are still to be left out.
    unsure: u32,
    /// Whether nothing was read yet.
    is_new: bool,
    epoch: u64,
    /// Batches that are there, and not known to be durable.
    unconfirmed: u64,
    failed: bool,
}

impl<D: Disk> Follower<D> {
    /// Begins with the commits of timestamp `from`; `None`: with the first that the log has.
    /// `checkpoint`: up to this timestamp a checkpoint has all commits, and the log all others.
    ///
    /// # Errors
    /// [`LogError::Refused`] if there is no log; those of [`read_control`].
    pub fn new(disk: D, from: Option<u64>, checkpoint: Option<u64>) -> Result<Self> {
        let control = read_control(&disk)?;
        let control =
            control.ok_or_else(|| LogError::Refused("there is no log in this directory".into()))?;
        let from = from.filter(|from| *from > 0);
        let view = begin(&disk, control, from)?;
        let mark = view.needed_checkpoint();
        let checkpoint = checkpoint.or(mark.map(|mark| mark.start));
        if let (Some(timestamp), Some(checkpoint)) = (from, checkpoint)
            && timestamp <= checkpoint
        {
            return Err(LogError::Gone {
                timestamp,
                complete_after: Some(checkpoint),
            });
        }
        Ok(Self {
            first_segment: view.first_needed,
            // Until it is known where the log is complete, nothing counts.
            recovery: Recovery::of(
                disk.clone(),
                Some(view),
                checkpoint.unwrap_or(u64::MAX),
                None,
            ),
            disk,
            from,
            complete_after: checkpoint.unwrap_or(0),
            unsure: if checkpoint.is_some() {
                0
            } else {
                UNSURE_EPOCHS
            },
            is_new: checkpoint.is_none(),
            epoch: 0,
            unconfirmed: 0,
            failed: false,
        })
    }

    /// The next commit. `None`: nothing more is durable by now; ask again later.
    ///
    /// # Errors
    /// [`LogError::Gone`] if it is not in the log any more; those of reading. After an error it is
    /// of no use.
    pub fn next_commit(&mut self) -> Result<Option<RecoveredCommit>> {
        if self.failed {
            return Err(LogError::Refused("reading has failed before".into()));
        }
        let next = self.find_next();
        self.failed = next.is_err();
        next.map_err(|error| self.explain(error))
    }

    /// The log has all commits with a timestamp behind this one, as far as is known by now.
    pub fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// Batches that are there behind what is durable. A crash may take them.
    pub fn unconfirmed(&self) -> u64 {
        self.unconfirmed
    }

    /// Passes the bytes of a large value to `take`; see [`LargeValue::read`].
    ///
    /// # Errors
    /// [`LogError::Gone`] if the owner gave up the segment meanwhile; those of reading.
    pub fn read_large(&self, value: &LargeValue, take: impl FnMut(&[u8])) -> Result<()> {
        value.read(&self.disk, take).map_err(|error| {
            match self.was_given_up(value.first_segment()) {
                true => LogError::Gone {
                    timestamp: self.epoch,
                    complete_after: None,
                },
                false => error,
            }
        })
    }

    fn find_next(&mut self) -> Result<Option<RecoveredCommit>> {
        loop {
            while let Some(commit) = self.recovery.pop_ready() {
                if self.is_wanted(&commit)? {
                    return Ok(Some(commit));
                }
            }
            if !self.read_on()? {
                return Ok(None);
            }
        }
    }

    fn is_wanted(&self, commit: &RecoveredCommit) -> Result<bool> {
        if self.from.is_some_and(|from| commit.timestamp < from) {
            return Ok(false);
        }
        match commit.is_whole() {
            true => Ok(true),
            false => Err(LogError::Gone {
                timestamp: commit.timestamp,
                complete_after: None,
            }),
        }
    }

    /// Reads one more segment's header, or batch. `false`: nothing is durable.
    fn read_on(&mut self) -> Result<bool> {
        let item = match self.recovery.look_ahead()? {
            Ahead::Nothing(unconfirmed) => {
                self.unconfirmed = unconfirmed;
                return Ok(false);
            }
            Ahead::Replaced(header) => Some(Item::Segment(header)),
            Ahead::Durable => self.recovery.step()?,
        };
        if let Some(Item::Segment(header)) = item {
            self.see_segment(&header)?;
        }
        self.see_epoch()?;
        Ok(item.is_some())
    }

    /// The log's very beginning is complete, and so is what follows a cut.
    fn see_segment(&mut self, header: &SegmentHeader) -> Result<()> {
        let is_first = std::mem::replace(&mut self.is_new, false) && header.before == 0;
        if self.unsure > 0 && (is_first || header.cut != 0) {
            self.unsure = 0;
            self.settle(header.cut)?;
        }
        Ok(())
    }

    fn see_epoch(&mut self) -> Result<()> {
        let epoch = self.recovery.end().epoch;
        if epoch > self.epoch {
            self.epoch = epoch;
            if self.unsure > 0 {
                self.unsure -= 1;
                self.settle(epoch)?;
            }
        }
        Ok(())
    }

    /// Commits up to `timestamp` may be missing.
    fn settle(&mut self, timestamp: u64) -> Result<()> {
        self.complete_after = timestamp;
        if self.unsure == 0 {
            self.recovery.skip_up_to(timestamp);
        }
        match self.from {
            Some(from) if from <= timestamp => Err(LogError::Gone {
                timestamp: from,
                complete_after: Some(timestamp),
            }),
            _ => Ok(()),
        }
    }

    /// What looks like damage is none if the segment is not needed any more.
    fn explain(&self, error: LogError) -> LogError {
        let segment = self.recovery.end().segment;
        let segment = segment.map_or(self.first_segment, |header| header.number);
        match error {
            LogError::Corrupt(_) | LogError::Io { .. } if self.was_given_up(segment) => {
                LogError::Gone {
                    timestamp: self.epoch.saturating_add(1),
                    complete_after: None,
                }
            }
            error => error,
        }
    }

    fn was_given_up(&self, segment: u64) -> bool {
        let control = read_control(&self.disk).ok().flatten();
        control.is_some_and(|control| control.first_kept() > segment)
    }
}

/// The log from the latest beginning on behind which it has the commit `from`, or else from the
/// oldest.
fn begin<D: Disk>(disk: &D, control: Control, from: Option<u64>) -> Result<Control> {
    let beginnings = Beginnings::find(disk, &control)?;
    let beginning = match from {
        Some(from) => beginnings.for_commit(from).or(beginnings.list.first()),
        None => beginnings.list.first(),
    };
    // The checkpoint is not needed to read what is after it.
    Ok(beginning.map_or(control, |beginning| beginning.view(&control)))
}
