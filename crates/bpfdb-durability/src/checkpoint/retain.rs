//! Does what `retention.rs` decides: by the log's writer, which alone changes the control file.
//! What it gives up of checkpoints the thread of checkpoints removes, or on a full disk the writer.

use std::time::{Duration, Instant};

use bpfdb_log::checkpoint::{self, WrittenCheckpoint};
use bpfdb_log::control::Control;
use bpfdb_log::{Disk, LogError, LogId, LogWriter};

use super::retention::{Retention, RetentionOptions, RetentionStatus};
use super::shared::Shared;
use crate::opening::Opening;

/// Between two looks whether something is old enough.
const LOOK: Duration = Duration::from_secs(1);

/// Segments that are recycled between two groups: a group does not wait for more.
const RECYCLED_AT_ONCE: u64 = 8;

impl Shared {
    // ---- For all callers -------------------------------------------------------------

    pub(crate) fn retention_status(&self) -> RetentionStatus {
        self.lock().retaining.retention.status()
    }

    pub(crate) fn set_retention(&self, options: RetentionOptions) {
        let retaining = &mut self.lock().retaining;
        retaining.retention.options = options;
        if let Some(past) = Instant::now().checked_sub(LOOK) {
            retaining.looked = past;
        }
    }

    // ---- For the writer of the log ----------------------------------------------------

    /// Has the control file name a checkpoint, and what is retained with it.
    pub(super) fn install_now<D: Disk>(
        &self,
        log: &mut LogWriter<D>,
        written: &WrittenCheckpoint,
    ) -> Result<(), LogError> {
        let next = self
            .lock()
            .retaining
            .retention
            .with(written, Instant::now());
        let first_kept = next.first_kept().unwrap_or(written.first_segment);
        log.install_retaining(written, first_kept)?;
        self.lock().retaining.replace(next);
        self.recycle(log);
        Ok(())
    }

    /// A group is durable: gives up what is retained no longer, a bit at a time.
    pub(super) fn retain<D: Disk>(&self, log: &mut LogWriter<D>) {
        let now = Instant::now();
        let due = {
            let retaining = &mut self.lock().retaining;
            let is_due = now.saturating_duration_since(retaining.looked) >= LOOK;
            if is_due {
                retaining.looked = now;
                retaining.try_again();
            }
            is_due
        };
        if due {
            let mut next = self.lock().retaining.retention.clone();
            next.trim(now);
            self.give_up(next, log.first_kept(), |first| log.give_up_before(first));
            self.tell();
        }
        if self.lock().retaining.wants_room {
            self.make_room(log);
        } else {
            self.recycle(log);
        }
    }

    /// The disk is full: gives up the oldest of what is retained, unless something that was given
    /// up before takes space still. `false`: there is nothing. To be called again while what failed
    /// fails, so no more goes than that needs.
    pub(crate) fn make_room<D: Disk>(&self, log: &mut LogWriter<D>) -> bool {
        {
            let retaining = &mut self.lock().retaining;
            retaining.gives_back = true;
            retaining.try_again();
        }
        let mut made = self.give_back(log);
        // What is given up while nothing can be removed gives no space.
        if !made && !self.lock().retaining.is_stuck {
            made = self.give_up_oldest(log.first_kept(), |first| log.give_up_before(first))
                && self.give_back(log);
        }
        let retaining = &mut self.lock().retaining;
        retaining.gives_back = retaining.recycles;
        // A checkpoint begins anew then: not before it has all of the space.
        if !retaining.recycles && std::mem::take(&mut retaining.wants_room) {
            retaining.room = Some(made);
        }
        self.tell();
        made
    }

    /// Gives the space back of some of what was given up, and for a checkpoint that of spares.
    /// `false`: there was none.
    fn give_back<D: Disk>(&self, log: &mut LogWriter<D>) -> bool {
        let (superseded, wants_room) = {
            let retaining = &mut self.lock().retaining;
            (retaining.take_superseded(), retaining.wants_room)
        };
        remove(log.disk(), &superseded);
        let recycled = self.recycle(log);
        let spared = wants_room
            && log.remove_spares().unwrap_or_else(|error| {
                tracing::warn!(%error, "spares of the log are still there");
                false
            });
        recycled || spared || !superseded.is_empty()
    }

    /// The same for a log that cannot be opened because the disk is full.
    pub(crate) fn make_room_to_open<D: Disk>(&self, opening: &mut Opening<D>) -> bool {
        let first_kept = opening.first_kept();
        let made = self.give_up_oldest(first_kept, |first| opening.give_up_before(first));
        remove(opening.disk(), &self.take_superseded());
        self.tell();
        made
    }

    /// `log_first`: the first segment that the log keeps. `by` has the control file say which one it
    /// is from now on.
    fn give_up_oldest(&self, log_first: u64, by: impl FnOnce(u64) -> Result<(), LogError>) -> bool {
        let mut next = self.lock().retaining.retention.clone();
        let before = next.status();
        let has_more = next.keeps_less_than(log_first) || next.give_up_oldest();
        let made = has_more && self.give_up(next, log_first, by);
        if made {
            let now = self.retention_status();
            tracing::warn!(
                bytes = before.bytes - now.bytes,
                earliest_timestamp = now.earliest.epoch,
                "the disk is full: the oldest of what was retained for recovery is removed"
            );
        }
        made
    }

    /// `false`: the control file cannot say so now.
    fn give_up(
        &self,
        next: Retention,
        log_first: u64,
        by: impl FnOnce(u64) -> Result<(), LogError>,
    ) -> bool {
        let first = next.first_kept();
        let is_same = next.numbers() == self.lock().retaining.retention.numbers();
        if is_same && !next.keeps_less_than(log_first) {
            return true;
        }
        match by(first.unwrap_or(u64::MAX)) {
            Ok(()) => {
                self.lock().retaining.replace(next);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "what need not be retained any more is still there");
                false
            }
        }
    }

    /// Some of the segments that were given up. `false`: there were none, or they are still there.
    fn recycle<D: Disk>(&self, log: &mut LogWriter<D>) -> bool {
        let (recycles, gives_back) = {
            let retaining = &self.lock().retaining;
            (retaining.recycles, retaining.gives_back)
        };
        if !recycles {
            return false;
        }
        let recycled = match gives_back {
            true => log.recycle_sparingly(RECYCLED_AT_ONCE),
            false => log.recycle(RECYCLED_AT_ONCE),
        };
        let retaining = &mut self.lock().retaining;
        let is_new = !std::mem::replace(&mut retaining.is_stuck, recycled.is_err());
        let succeeded = recycled.is_ok();
        let goes_on = recycled.unwrap_or_else(|error| {
            if is_new {
                tracing::warn!(%error, "segments that are not needed any more are still there");
            }
            false
        });
        retaining.recycles = goes_on;
        retaining.gives_back &= goes_on;
        succeeded
    }

    // ---- For the thread of checkpoints --------------------------------------------------

    /// Numbers of the checkpoints that must stay.
    pub(super) fn retained_numbers(&self) -> Vec<u64> {
        let state = self.lock();
        let retained = state.retaining.retention.numbers().into_iter();
        retained.chain(state.perhaps).collect()
    }

    pub(super) fn take_superseded(&self) -> Vec<u64> {
        self.lock().retaining.take_superseded()
    }

    /// There is no space for a checkpoint: has the oldest given up of what is retained, if there is
    /// anything. `false`: another attempt is of no use.
    pub(super) fn await_room(&self) -> bool {
        let mut state = self.lock();
        state.retaining.wants_room = true;
        loop {
            if let Some(made) = state.retaining.room.take() {
                return made;
            }
            if state.is_over() {
                state.retaining.wants_room = false;
                return false;
            }
            state = self.wait(state);
        }
    }
}

/// Removes checkpoints that are not needed any more. What stays does no harm, and is removed by
/// the next.
pub(super) fn remove<D: Disk>(disk: &D, numbers: &[u64]) {
    for &number in numbers {
        if let Err(error) = checkpoint::remove(disk, number) {
            tracing::warn!(%error, "an old checkpoint is still there");
        }
    }
}

/// What a directory retains, as an earlier owner left it. `None`: it never had a log.
pub(super) fn found<D: Disk>(
    disk: &D,
    control: Option<&Control>,
    options: RetentionOptions,
    segment_size: u64,
    wall: u64,
) -> Result<Retention, LogError> {
    // That of a log that is made now.
    let new = Control::new(LogId::default());
    let mut retention = Retention::new(options, segment_size);
    retention.adopt(disk, control.unwrap_or(&new), wall)?;
    Ok(retention)
}
