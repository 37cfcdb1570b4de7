//! Whether a batch that is not valid is the end of the log.

use super::{Item, LogReader, Open, newest_segment};
use crate::disk::{Disk, read_around};
use crate::error::{LogError, Result};
use crate::format::batch::BatchHeader;
use crate::format::layout::{BLOCK, Invalid};
use crate::format::place::Place;
use crate::format::segment;

/// Read at once while looking for later batches behind the end, in bytes.
const LOOK_BEHIND: usize = 256 * BLOCK;

/// What stands behind the last valid batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tail {
    /// Bytes up to the end of the last batch that was begun there.
    torn: u64,
    /// The greatest sequence number that one of them calls durable.
    durable: u64,
}

impl<D: Disk> LogReader<D> {
    /// A batch is not valid: this is the end, or the log goes on elsewhere, or it is corrupt.
    pub(super) fn end_or_next(&mut self, why: Invalid) -> Result<Option<Item>> {
        let Some(open) = &self.open else {
            return Ok(None);
        };
        if let Some(next) = open.next {
            let why = format!(
                "the batch is not valid ({why}), but segment {} says that this one goes on to {}",
                next.number, next.before_end
            );
            return Err(self.corrupt(why));
        }
        if self.finds_next()? {
            return self.advance();
        }
        match self.end(why) {
            Err(error @ LogError::Corrupt(_)) => self.goes_on()?.ok_or(error).map(Some),
            ended => ended.map(|()| None),
        }
    }

    /// A living writer may have gone on to another segment since this one was opened.
    fn finds_next(&mut self) -> Result<bool> {
        let Some(open) = &self.open else {
            return Ok(false);
        };
        let next = self.next_header(&open.header)?;
        if let (Some(open), true) = (&mut self.open, next.is_some()) {
            open.next = next;
        }
        Ok(next.is_some())
    }

    /// A living writer may have written the batch since it was read, and then what says that the
    /// log does not end here. So a reader that has seen that finds the batch, or it is damaged.
    fn goes_on(&mut self) -> Result<Option<Item>> {
        if self.finds_next()? {
            return self.advance();
        }
        Ok(self.read_batch()?.ok().map(Item::Batch))
    }

    /// The log ends here, unless something says that it must not.
    fn end(&mut self, why: Invalid) -> Result<()> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        if let Some(limit) = self.limit {
            return self.end_at(limit, why);
        }
        let tail = self.look_behind(open)?;
        let number = open.header.number;
        let missing = self.position.sequence + 1;
        if tail.durable >= missing {
            let why = format!(
                "batch {missing} is not valid ({why}), but a later one says that it was durable"
            );
            return Err(self.corrupt(why));
        }
        if self.control.durable_sequence >= missing {
            let why = format!(
                "batch {missing} is not valid ({why}), but the control file says that batch {} was durable",
                self.control.durable_sequence
            );
            return Err(self.corrupt(why));
        }
        let is_closed = self.control.closed && self.control.durable_sequence + 1 == missing;
        if let (Invalid::Unreadable(_), false) = (why, is_closed) {
            return Err(self.corrupt(format!(
                "{why}: batch {missing} may be there, and may have been durable"
            )));
        }
        let newest = newest_segment(&self.disk)?.unwrap_or(0);
        if self.control.newest_segment.max(newest) > number {
            let missing = segment::name(number + 1);
            let why = "the segment is missing, but was begun";
            return Err(LogError::corrupt(missing, 0, why));
        }
        self.torn = Some(tail.torn);
        Ok(())
    }

    /// Nothing more can be read. That is the end if it was asked for the whole segment.
    fn end_at(&mut self, limit: Place, why: Invalid) -> Result<()> {
        if limit.offset == 0 {
            self.torn = Some(0);
            return Ok(());
        }
        let why =
            format!("the batch is not valid ({why}), but the log is to be read up to {limit}");
        Err(self.corrupt(why))
    }

    /// Looks at every block behind the end for headers of batches of this segment.
    fn look_behind(&self, open: &Open<D::File>) -> Result<Tail> {
        let mut tail = Tail::default();
        let mut bytes = vec![0; LOOK_BEHIND];
        let mut at = self.position.offset;
        while at < open.size {
            let read = read_around(&open.file, at, &mut bytes);
            let (read, unreadable) = read.map_err(LogError::io("read", &open.name))?;
            if read == 0 {
                break;
            }
            if unreadable > 0 {
                tracing::warn!(
                    file = open.name,
                    offset = at,
                    unreadable,
                    "the disk cannot read what is behind the end of the log"
                );
            }
            for (offset, block) in (at..).step_by(BLOCK).zip(bytes[..read].chunks(BLOCK)) {
                self.weigh(open, offset, block, &mut tail);
            }
            at += read as u64;
        }
        Ok(tail)
    }

    /// Takes what the header of a batch says into account, if `block` has one. A header lies in
    /// one sector, so it is there as it was written even if the rest of the batch is torn.
    fn weigh(&self, open: &Open<D::File>, offset: u64, block: &[u8], tail: &mut Tail) {
        let Ok(header) = BatchHeader::peek(block) else {
            return;
        };
        let ours = (header.log, header.segment) == (open.header.log, open.header.number);
        if !ours || header.sequence <= self.position.sequence {
            return;
        }
        let end = offset.saturating_add(header.size()).min(open.size);
        tail.torn = tail.torn.max(end - self.position.offset);
        tail.durable = tail.durable.max(header.durable);
    }
}
