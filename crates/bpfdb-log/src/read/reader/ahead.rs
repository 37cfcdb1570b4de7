//! The part of a growing log that is durable by now, for a reader that follows its writer.
//!
//! # Rules
//!
//! 1. A batch is durable when something that was written later says so: a later batch, the header
//!    of the next segment, or the control file. That a batch is valid is not enough: its flush may
//!    not be over, and may fail; or it is of a group that found no space and is written again, in
//!    the same place, with other commits.
//! 2. The control file is read first, then the header of the next segment, then the batch. So a
//!    batch that is durable by the first is read as it stays, and the one in this segment is not
//!    taken for the one that is in the next.
//! 3. A header is flushed before its file has the name of a segment. So it is always durable.

use super::{LogReader, read_control};
use crate::disk::Disk;
use crate::error::{LogError, Result};
use crate::format::control::Control;
use crate::format::layout::BLOCK;
use crate::format::segment::{self, SegmentHeader, read_header};

/// So many batches are found to be durable at once, if they are: each of them is read twice, and
/// not three times.
const LOOK_AHEAD: u64 = 64;

/// What a look ahead finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// The next item is durable.
    Durable,
    /// The segment that was entered had no batches, and another took its place, which is entered
    /// now.
    Replaced(SegmentHeader),
    /// Nothing is durable behind what was read. So many batches are there, and may become so.
    Nothing(u64),
}

impl<D: Disk> LogReader<D> {
    /// Looks whether there is more that is durable. Where this says no, it may be asked again.
    pub(crate) fn look_ahead(&mut self) -> Result<Ahead> {
        if self.known_durable <= self.position.sequence {
            self.renew_control()?;
        }
        let Some(open) = &self.open else {
            let number = self.control.first_needed;
            if self.first_kept > number {
                let why = "the segment was removed";
                return Err(LogError::corrupt(segment::name(number), 0, why));
            }
            let first = read_header(&self.disk, number)?;
            return Ok(first.map_or(Ahead::Nothing(0), |_| Ahead::Durable));
        };
        let before = open.header;
        if self.position.offset == BLOCK as u64
            && let Some(header) = read_header(&self.disk, before.number)?
        {
            // The file may be another one even if it has the same header.
            self.open_segment(header)?;
            if header != before {
                return Ok(Ahead::Replaced(header));
            }
        }
        if self.next_is_durable()? {
            return Ok(Ahead::Durable);
        }
        let (durable, batches) = self.claims()?;
        self.known_durable = self.known_durable.max(durable);
        Ok(match self.known_durable > self.position.sequence {
            true => Ahead::Durable,
            false => Ahead::Nothing(batches),
        })
    }

    fn renew_control(&mut self) -> Result<()> {
        match read_control(&self.disk)? {
            Some(control) if control.log == self.control.log => {
                self.known_durable = self.known_durable.max(control.durable_sequence);
                // What it begins with may be retained, though no start needs it.
                self.first_kept = control.first_kept();
                self.control = Control {
                    first_needed: self.control.first_needed,
                    checkpoint: self.control.checkpoint,
                    ..control
                };
                Ok(())
            }
            _ => Err(LogError::Refused(
                "another log has taken the place of the one that was read".into(),
            )),
        }
    }

    /// Whether control file or next segment say so.
    fn next_is_durable(&mut self) -> Result<bool> {
        let next = match &self.open {
            Some(open) if open.next.is_none() => self.next_header(&open.header)?,
            Some(open) => open.next,
            None => None,
        };
        match (&mut self.open, next) {
            (Some(open), Some(next)) => {
                open.next = Some(next);
                self.known_durable = self.known_durable.max(next.first_sequence - 1);
            }
            (Some(open), None) if self.first_kept > open.header.number => {
                let missing = segment::name(open.header.number + 1);
                let why = "the segment was removed";
                return Err(LogError::corrupt(missing, 0, why));
            }
            _ => {}
        }
        let ends_here = next.is_some_and(|next| next.before_end == self.position.offset);
        Ok(ends_here || self.known_durable > self.position.sequence)
    }

    /// The greatest sequence number that one of the next batches of this segment calls durable, or
    /// 0; and how many of them are valid.
    fn claims(&self) -> Result<(u64, u64)> {
        let (mut position, mut bytes) = (self.position, Vec::new());
        let (mut durable, mut batches) = (0, 0);
        while durable < self.position.sequence + LOOK_AHEAD
            && let Ok(header) = self.read_at(&mut position, &mut bytes)?
        {
            durable = durable.max(header.durable);
            batches += 1;
        }
        Ok((durable, batches))
    }
}
