//! Reads the log from the first segment that is needed to its end, batch by batch.
//!
//! # Where the log ends
//!
//! Within a segment batches follow each other by sequence number and checksum. What ends them is
//! one of three:
//!
//! 1. The next segment's header names the place. This counts, whatever stands behind the place;
//!    if a batch before it is not valid, the log is corrupt.
//! 2. There is no next segment, and a batch is not valid. Then the log ends here, unless
//!    something says that this batch was durable once: the control file, or the header of a batch
//!    that was written later to this segment. Then the log is corrupt.
//! 3. There is no next segment, but the control file knows of one, or a later one exists: corrupt.
//!
//! A batch that the disk does not give back is none that a crash tore: it may have been durable
//! although nothing says so. Then the log is corrupt, unless it was closed there. Behind the end
//! what cannot be read is passed over.
//!
//! Beside a living writer what speaks against an end may be younger than what it speaks of: before
//! the log is called corrupt, what is missing is looked for again. Reading changes nothing,
//! so that is all that a reader must know of the writer; see [`crate::check()`] and
//! [`crate::Follower`].
//!
//! A reader may be given an end, a [`Place`]. Then neither what stands behind it nor what speaks of
//! it counts. So the part of a log that is whole can be read although the rest is corrupt.

mod ahead;
mod end;

use crate::disk::{Disk, DiskFile, is_unreadable};
use crate::error::{LogError, Result};
use crate::format::batch::{BatchHeader, BatchView};
use crate::format::checkpoint;
use crate::format::control::{self, Control, Slots};
use crate::format::layout::{BLOCK, Invalid};
use crate::format::place::Place;
use crate::format::segment::{self, SegmentHeader, read_header};
pub(crate) use ahead::Ahead;

/// What comes next in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A segment begins.
    Segment(SegmentHeader),
    /// A batch; [`LogReader::batch`] has all of it.
    Batch(BatchHeader),
}

/// The end of what was read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Behind the last batch, in bytes.
    pub offset: u64,
    /// Sequence number of the last batch.
    pub sequence: u64,
    /// Checksum of the last batch; 0: there is none.
    pub checksum: u32,
}

struct Open<F> {
    header: SegmentHeader,
    name: String,
    file: F,
    size: u64,
    /// Header of the next segment, which says where this one ends.
    next: Option<SegmentHeader>,
}

/// An iterator over segments and batches.
pub struct LogReader<D: Disk> {
    disk: D,
    control: Control,
    open: Option<Open<D::File>>,
    position: Position,
    /// The last batch, as read.
    bytes: Vec<u8>,
    /// Checksum of the batch before that one.
    seed: u32,
    torn: Option<u64>,
    /// The end that it was given.
    limit: Option<Place>,
    /// Batches up to this sequence number are durable, as far as was looked ahead.
    known_durable: u64,
    /// The first segment that is not given up, as far as was looked ahead.
    first_kept: u64,
}

/// The control slot that counts. `None`: this directory never had a log.
///
/// # Errors
/// [`LogError::Corrupt`] if there are segments, or checkpoints, and no slot is valid.
pub fn read_control<D: Disk>(disk: &D) -> Result<Option<Control>> {
    if let Some(control) = Slots::read(disk)?.as_ref().and_then(Slots::newest) {
        return Ok(Some(control));
    }
    let rest = match (newest_segment(disk)?, checkpoint::numbers(disk)?.is_empty()) {
        (None, true) => return Ok(None),
        (Some(_), _) => "segments",
        (None, false) => "checkpoints",
    };
    // A living writer may have made it since it was looked for.
    let slots = Slots::read(disk)?;
    if let Some(control) = slots.as_ref().and_then(Slots::newest) {
        return Ok(Some(control));
    }
    let why = slots.map_or("it is missing".into(), |slots| {
        slots.why_invalid().to_string()
    });
    let why = format!("there are {rest}, but no valid slot: {why}");
    Err(LogError::corrupt(control::NAME, 0, why))
}

/// Number of the newest segment in the folder.
fn newest_segment<D: Disk>(disk: &D) -> Result<Option<u64>> {
    Ok(segment::numbers(disk)?.last().copied())
}

impl<D: Disk> LogReader<D> {
    /// `control` is that of [`read_control`].
    pub fn new(disk: D, control: Control) -> Self {
        Self {
            disk,
            control,
            open: None,
            position: Position {
                offset: 0,
                sequence: 0,
                checksum: 0,
            },
            bytes: Vec::new(),
            seed: 0,
            torn: None,
            limit: None,
            known_durable: 0,
            first_kept: 0,
        }
    }

    /// Ends at `limit`, which must be the end of a batch, or of a segment's header. An offset of 0
    /// is the end of the segment before, wherever that is: then that one is read as far as it goes.
    pub(crate) fn up_to(disk: D, control: Control, limit: Place) -> Self {
        Self {
            limit: Some(limit),
            ..Self::new(disk, control)
        }
    }

    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Header of the segment that is being read.
    pub fn segment(&self) -> Option<&SegmentHeader> {
        self.open.as_ref().map(|open| &open.header)
    }

    /// Name of the segment that is being read.
    pub fn file_name(&self) -> String {
        let number = self.segment().map(|header| header.number);
        segment::name(number.unwrap_or(self.control.first_needed))
    }

    pub fn position(&self) -> Position {
        self.position
    }

    /// Checksum of the batch before the one that [`LogReader::advance`] returned last; 0: there is
    /// none.
    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    /// Bytes that a crash left behind the end of the log, once that is reached.
    pub fn torn_bytes(&self) -> u64 {
        self.torn.unwrap_or(0)
    }

    /// The batch that [`LogReader::advance`] returned last.
    ///
    /// # Panics
    /// If it returned no batch.
    pub fn batch(&self) -> BatchView<'_> {
        BatchView::split(&self.bytes).expect("it was verified when it was read")
    }

    /// The next segment or batch. `None`: this is the end.
    ///
    /// # Errors
    /// [`LogError::Corrupt`], [`LogError::Io`]. It is of no use afterwards.
    pub fn advance(&mut self) -> Result<Option<Item>> {
        if self.torn.is_some() {
            return Ok(None);
        }
        let Some(open) = &self.open else {
            return self.begin();
        };
        let place = Place {
            segment: open.header.number,
            offset: self.position.offset,
        };
        if let Some(limit) = self.limit
            && place.segment == limit.segment
            && place.offset >= limit.offset
        {
            self.torn = Some(0);
            return match place == limit {
                true => Ok(None),
                false => Err(LogError::Refused(format!("no batch ends at {limit}"))),
            };
        }
        if open.next.map(|next| next.before_end) == Some(self.position.offset) {
            let next = open.next.expect("compared just now");
            return self.enter(next).map(Some);
        }
        match self.read_batch()? {
            Ok(header) => Ok(Some(Item::Batch(header))),
            Err(why) => self.end_or_next(why),
        }
    }

    fn begin(&mut self) -> Result<Option<Item>> {
        let first = self.control.first_needed;
        let Some(header) = self.first_header(first)? else {
            self.torn = Some(0);
            return Ok(None);
        };
        self.position.sequence = header.first_sequence - 1;
        self.position.checksum = header.before_checksum;
        if header.log != self.control.log {
            return Err(self.foreign(first));
        }
        self.open_segment(header).map(Some)
    }

    /// The header of the first segment. `None`: no segment was begun.
    fn first_header(&self, first: u64) -> Result<Option<SegmentHeader>> {
        if let Some(header) = read_header(&self.disk, first)? {
            return Ok(Some(header));
        }
        let newest = newest_segment(&self.disk)?.unwrap_or(0);
        if self.control.newest_segment.max(newest) < first {
            return Ok(None);
        }
        // A living writer may have begun it since it was looked for.
        let header = read_header(&self.disk, first)?;
        let missing = || LogError::corrupt(segment::name(first), 0, "the segment is missing");
        header.ok_or_else(missing).map(Some)
    }

    fn foreign(&self, number: u64) -> LogError {
        let why = format!("the segment is not of the log {}", self.control.log);
        LogError::corrupt(segment::name(number), 0, why)
    }

    fn open_segment(&mut self, header: SegmentHeader) -> Result<Item> {
        let name = segment::name(header.number);
        let file = self.disk.open(&name).map_err(LogError::io("open", &name))?;
        let file = file
            .ok_or_else(|| LogError::corrupt(&name, 0, "the segment vanished while it was read"))?;
        let size = file
            .size()
            .map_err(LogError::io("find the size of", &name))?;
        // If the next segment is damaged, what this one has is read before that is reported.
        let next = match self.next_header(&header) {
            Err(LogError::Corrupt(_)) => None,
            next => next?,
        };
        self.position.offset = BLOCK as u64;
        self.open = Some(Open {
            header,
            name,
            file,
            size,
            next,
        });
        Ok(Item::Segment(header))
    }

    /// The header of the segment behind this one, if it is there.
    fn next_header(&self, this: &SegmentHeader) -> Result<Option<SegmentHeader>> {
        if self.limit.is_some_and(|limit| limit.hides(this.number + 1)) {
            return Ok(None);
        }
        let Some(next) = read_header(&self.disk, this.number + 1)? else {
            return Ok(None);
        };
        let name = segment::name(next.number);
        if next.log != this.log {
            return Err(self.foreign(next.number));
        }
        if next.before != this.number || next.before_end < BLOCK as u64 {
            let why = "it does not say where the segment before it ends";
            return Err(LogError::corrupt(name, 0, why));
        }
        let goes_on = next.run == this.run && next.run_id == this.run_id && next.cut == 0;
        if next.run <= this.run && !goes_on {
            let why = format!("its run {} does not follow {}", next.run, this.run);
            return Err(LogError::corrupt(name, 0, why));
        }
        Ok(Some(next))
    }

    /// Goes on in the next segment, which says that this one ends here.
    fn enter(&mut self, next: SegmentHeader) -> Result<Item> {
        let Position {
            sequence, checksum, ..
        } = self.position;
        if next.first_sequence != sequence + 1 || next.before_checksum != checksum {
            let why = format!(
                "it follows batch {} with checksum {:08x}, but the segment before it ends with {sequence}, {checksum:08x}",
                next.first_sequence - 1,
                next.before_checksum,
            );
            return Err(LogError::corrupt(segment::name(next.number), 0, why));
        }
        self.open_segment(next)
    }

    /// Reads and verifies the batch at this position.
    fn read_batch(&mut self) -> Result<Result<BatchHeader, Invalid>> {
        let (mut position, mut bytes) = (self.position, std::mem::take(&mut self.bytes));
        let read = self.read_at(&mut position, &mut bytes);
        if let Ok(Ok(_)) = read {
            self.seed = self.position.checksum;
        }
        (self.position, self.bytes) = (position, bytes);
        read
    }

    /// Reads and verifies the batch at `position`, which is behind it then.
    fn read_at(
        &self,
        position: &mut Position,
        bytes: &mut Vec<u8>,
    ) -> Result<Result<BatchHeader, Invalid>> {
        let Some(open) = &self.open else {
            return Ok(Err(Invalid::Short));
        };
        let offset = position.offset;
        // What a header says is no reason to ask for more memory than the file has bytes.
        let end = open.next.map_or(open.size, |next| next.before_end);
        let end = end.min(open.size);
        if let Err(why) = open.read(offset, BLOCK as u64, end, bytes)? {
            return Ok(Err(why));
        }
        let size = match open.expect(position.sequence + 1, bytes) {
            Ok(header) => header.size(),
            Err(why) => return Ok(Err(why)),
        };
        if let Err(why) = open.read(offset, size, end, bytes)? {
            return Ok(Err(why));
        }
        Ok(BatchView::decode(bytes, position.checksum).map(|batch| {
            *position = Position {
                offset: offset + size,
                sequence: batch.header.sequence,
                checksum: batch.header.checksum,
            };
            batch.header
        }))
    }

    fn corrupt(&self, why: String) -> LogError {
        LogError::corrupt(self.file_name(), self.position.offset, why)
    }
}

impl<F: DiskFile> Open<F> {
    /// The header of the batch with this sequence number, if that is what `bytes` begins with.
    fn expect(&self, sequence: u64, bytes: &[u8]) -> Result<BatchHeader, Invalid> {
        let header = BatchHeader::peek(bytes)?;
        let expected = (self.header.log, self.header.number, sequence);
        match (header.log, header.segment, header.sequence) == expected {
            true => Ok(header),
            false => Err(Invalid::Field("place in the log")),
        }
    }

    /// Reads `size` bytes, unless they go beyond `end`.
    fn read(
        &self,
        offset: u64,
        size: u64,
        end: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Result<(), Invalid>> {
        let fits = offset.checked_add(size).is_some_and(|last| last <= end);
        let (true, Ok(size)) = (fits, usize::try_from(size)) else {
            return Ok(Err(Invalid::Short));
        };
        bytes.resize(size, 0);
        match self.file.read_whole(offset, bytes) {
            Ok(read) if read == size => Ok(Ok(())),
            Ok(_) => Ok(Err(Invalid::Short)),
            Err(error) if is_unreadable(&error) => Ok(Err(Invalid::Unreadable(error.kind()))),
            Err(error) => Err(LogError::io("read", &self.name)(error)),
        }
    }
}
