//! Where recovery begins, what is retained before that, and how the rest is given up: rule 4 of
//! `writer.rs`.

use crate::disk::Disk;
use crate::error::{LogError, Result, StepError};
use crate::format::checkpoint::WrittenCheckpoint;
use crate::format::control::Control;
use crate::write::spares::Spares;
use crate::write::writer::{LogWriter, RESERVE};

/// The next segment, and the spare in reserve.
const SPARES_FOR_NEXT: usize = 1 + RESERVE;

impl<D: Disk> LogWriter<D> {
    /// From now on recovery begins with this checkpoint. The segments that it does not need may
    /// be [released](Self::release_before) then, and the checkpoint before it removed.
    ///
    /// # Errors
    /// See [`LogWriter::install_retaining`].
    pub fn install(&mut self, checkpoint: &WrittenCheckpoint) -> Result<()> {
        self.install_retaining(checkpoint, checkpoint.first_segment)
    }

    /// The same. The segments from `first_kept` on are retained, if they are still kept.
    ///
    /// All commits up to its end must be durable, which only the caller knows: if none came after
    /// the last batch, no batch says so.
    ///
    /// # Errors
    /// [`LogError::Refused`]: it is not newer than the one before. [`LogError::Full`]: to be tried
    /// again. [`LogError::Failed`].
    pub fn install_retaining(
        &mut self,
        checkpoint: &WrittenCheckpoint,
        first_kept: u64,
    ) -> Result<()> {
        self.usable()?;
        let now = self.control_now();
        let newest = now.checkpoint.map_or(0, |mark| mark.number);
        let first = checkpoint.first_segment;
        // An earlier attempt has come so far.
        if (now.checkpoint, now.first_needed) == (Some(checkpoint.mark), first) {
            return self.agree();
        }
        if checkpoint.mark.number <= newest || first < now.first_needed || first > self.segment() {
            let why = format!("{checkpoint:?} does not follow checkpoint {newest}");
            return Err(LogError::Refused(why));
        }
        self.write_control(Control {
            first_needed: first,
            checkpoint: Some(checkpoint.mark),
            first_retained: first_retained(first_kept.max(now.first_kept()), first),
            ..now
        })?;
        self.note_cycle(first - now.first_needed);
        self.agree()
    }

    /// Gives up what is retained before this segment, or before the first one that recovery needs:
    /// it may be [recycled](Self::recycle) then, and the checkpoints that need it removed.
    ///
    /// # Errors
    /// [`LogError::Full`], [`LogError::Io`]: to be tried again. [`LogError::Failed`].
    pub fn give_up_before(&mut self, segment: u64) -> Result<()> {
        self.usable()?;
        let now = self.control_now();
        let first = segment.clamp(now.first_kept(), now.first_needed);
        if first > now.first_kept() {
            self.write_control(Control {
                first_retained: first_retained(first, now.first_needed),
                ..now
            })?;
        }
        self.agree()
    }

    /// Makes spares of at most `limit` segments that are neither needed nor retained, or removes
    /// them. `false`: there are no more of them.
    ///
    /// # Errors
    /// Those of [`LogWriter::give_up_before`].
    pub fn recycle(&mut self, limit: u64) -> Result<bool> {
        self.recycle_by(limit, Spares::recycle)
    }

    /// The same on a full disk: only as many become spares as the next segment takes. The others
    /// give their space back.
    ///
    /// # Errors
    /// Those of [`LogWriter::give_up_before`].
    pub fn recycle_sparingly(&mut self, limit: u64) -> Result<bool> {
        self.recycle_by(limit, |spares, number| {
            spares.recycle_up_to(number, SPARES_FOR_NEXT)
        })
    }

    fn recycle_by(
        &mut self,
        limit: u64,
        mut by: impl FnMut(&mut Spares<D>, u64) -> Result<(), StepError>,
    ) -> Result<bool> {
        self.agree()?;
        let first_kept = self.control.now.first_kept();
        let needless = first_kept - self.recycled_before;
        for _ in 0..needless.min(limit) {
            by(&mut self.spares, self.recycled_before)?;
            self.recycled_before += 1;
        }
        Ok(needless > limit)
    }

    /// Gives the space of all spares back that the next segment does not take. `false`: there are
    /// none.
    ///
    /// # Errors
    /// [`LogError::Io`]: to be tried again. [`LogError::Failed`].
    pub fn remove_spares(&mut self) -> Result<bool> {
        self.usable()?;
        Ok(self.spares.remove_beyond(SPARES_FOR_NEXT)?)
    }

    /// Recovery needs so many segments less.
    fn note_cycle(&mut self, segments: u64) {
        if segments > 0 {
            self.spares.note_cycle(segments);
        }
    }

    /// Number of the first segment that recovery needs, or that is retained.
    pub fn first_kept(&self) -> u64 {
        self.control.now.first_kept()
    }

    /// Recovery does not need the segments before this one any more: they become spares, or are
    /// removed. A segment is needed for commits that no checkpoint has, and for the parts of their
    /// large values, which may lie further back.
    ///
    /// # Errors
    /// [`LogError::Refused`]: the segment is not there yet. [`LogError::Full`], [`LogError::Io`]:
    /// to be tried again. [`LogError::Failed`].
    pub fn release_before(&mut self, segment: u64) -> Result<()> {
        self.usable()?;
        if segment > self.segment() {
            let why = format!("segment {segment} was not begun yet");
            return Err(LogError::Refused(why));
        }
        let now = self.control_now();
        if segment > now.first_needed || now.first_retained != 0 {
            self.write_control(Control {
                first_needed: segment.max(now.first_needed),
                first_retained: 0,
                ..now
            })?;
            self.note_cycle(segment.saturating_sub(now.first_needed));
        }
        self.recycle(u64::MAX).map(drop)
    }

    /// Has both slots of the control file name the same beginning of the log.
    fn agree(&mut self) -> Result<()> {
        match self.control.agrees() {
            true => Ok(()),
            false => self.write_control(self.control_now()),
        }
    }
}

/// What the control file says of a first segment that is kept: nothing if a start needs it.
pub(crate) fn first_retained(first_kept: u64, first_needed: u64) -> u64 {
    match first_kept < first_needed {
        true => first_kept,
        false => 0,
    }
}
