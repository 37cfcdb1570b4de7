//! Contents of a log behind a place in a log that is to be cut there, as far as it can be read.
//!
//! Nothing holds these batches together: one of them is damaged, or the file that had one is gone.
//! So each is looked for at every block, and is *readable* if its checksum is right, seeded with
//! that which the header of the batch before it has.

use crate::disk::{Disk, DiskFile, read_around};
use crate::error::{LogError, Result};
use crate::format::batch::{BatchHeader, BatchView};
use crate::format::control::Control;
use crate::format::layout::BLOCK;
use crate::format::place::Place;
use crate::format::record::{Record, Records};
use crate::format::segment::{self, read_header};
use crate::read::recovery::LogEnd;

/// A header that cannot be verified is not believed if its epoch is so far above all others: a
/// clock that began behind it would have less room.
const BELIEVED: u64 = 1 << 36;

/// What a cut takes away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Batches that can be read.
    pub batches: u64,
    /// Batches of which the header is there, and the rest is damaged or does not follow.
    pub unreadable: u64,
    /// Bytes of blocks that the disk does not give back: any batch may be there.
    pub unreadable_bytes: u64,
    /// Commits in the batches that can be read, and those before the place that would only have
    /// counted with them.
    pub commits: u64,
    /// Records in the others, as their headers say.
    pub unreadable_records: u64,
    /// The earliest and the latest epoch.
    pub epochs: Option<(u64, u64)>,
    /// The earliest and the latest wall clock, nanoseconds of UNIX time.
    pub walls: Option<(u64, u64)>,
    /// Bytes of all these batches.
    pub bytes: u64,
    /// Numbers of the segments behind that of the place.
    pub segments: Vec<u64>,
    /// Whether the control file says that a part of it was durable.
    pub was_durable: bool,
    /// Start and end of the checkpoint that recovery begins with, if commits between may be among
    /// what is lost. It means nothing without them: a key that one of them wrote may be missing,
    /// be it as old as the database, and a transaction may be there in part.
    pub breaks_checkpoint: Option<(u64, u64)>,
    /// The greatest timestamp in it that is to be believed; 0: none.
    pub greatest_timestamp: u64,
}

impl Lost {
    /// `end`: what is left, which ends at `place`. `held`: commits in it that wait for their epoch.
    pub(crate) fn survey<D: Disk>(
        disk: &D,
        control: &Control,
        place: Place,
        end: &LogEnd,
        held: u64,
    ) -> Result<Self> {
        let mut segments = segment::numbers(disk)?;
        segments.retain(|number| *number > place.segment);
        let lost = Self {
            commits: held,
            was_durable: control.durable_sequence > end.sequence,
            greatest_timestamp: end.greatest_timestamp,
            segments: segments.clone(),
            ..Self::default()
        };
        let mut survey = Survey {
            disk,
            control,
            before: (end.sequence, end.checksum),
            floor: end.sequence,
            lost,
            doubtful_epochs: Vec::new(),
            earliest: u64::MAX,
        };
        if held > 0 {
            survey.earliest = end.epoch + 1;
        }
        survey.visit(place.segment, place.offset)?;
        for number in segments {
            survey.visit(number, BLOCK as u64)?;
        }
        Ok(survey.finish(end))
    }

    fn note(&mut self, header: &BatchHeader) {
        let widen = |range: Option<(u64, u64)>, value: u64| {
            let (first, last) = range.unwrap_or((value, value));
            Some((first.min(value), last.max(value)))
        };
        self.epochs = widen(self.epochs, header.epoch);
        self.walls = widen(self.walls, header.wall);
        self.bytes = self.bytes.saturating_add(header.size());
    }
}

struct Survey<'a, D: Disk> {
    disk: &'a D,
    control: &'a Control,
    /// Sequence number and checksum of the batch that was seen last.
    before: (u64, u32),
    /// Batches up to this sequence number are not lost.
    floor: u64,
    lost: Lost,
    doubtful_epochs: Vec<u64>,
    /// The earliest commit in the batches that can be read.
    earliest: u64,
}

impl<D: Disk> Survey<'_, D> {
    /// Looks at every block of a segment, from `offset` to where it ends.
    fn visit(&mut self, number: u64, mut offset: u64) -> Result<()> {
        let name = segment::name(number);
        let Some(file) = self.disk.open(&name).map_err(LogError::io("open", &name))? else {
            return Ok(());
        };
        let size = file
            .size()
            .map_err(LogError::io("find the size of", &name))?;
        let end = self.end_of(number)?.unwrap_or(size).min(size);
        let mut bytes = Vec::new();
        while offset < end {
            let seen = self.look_at(&file, number, offset, end, &mut bytes);
            offset += seen.map_err(LogError::io("read", &name))?.max(BLOCK as u64);
        }
        Ok(())
    }

    /// Where the next segment says that this one ends.
    fn end_of(&self, number: u64) -> Result<Option<u64>> {
        match read_header(self.disk, number + 1) {
            Ok(Some(next)) if next.log == self.control.log => Ok(Some(next.before_end)),
            Ok(_) | Err(LogError::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the batch that begins at a block into account, if one does. Returns its size if it can
    /// be read.
    fn look_at(
        &mut self,
        file: &D::File,
        number: u64,
        offset: u64,
        end: u64,
        bytes: &mut Vec<u8>,
    ) -> std::io::Result<u64> {
        bytes.resize(BLOCK, 0);
        let (read, unreadable) = read_around(file, offset, bytes)?;
        self.lost.unreadable_bytes += unreadable;
        let Ok(header) = BatchHeader::peek(&bytes[..read]) else {
            return Ok(0);
        };
        let is_ours = (header.log, header.segment) == (self.control.log, number);
        if !is_ours || header.sequence <= self.floor {
            return Ok(0);
        }
        let follows = header.sequence.checked_sub(1) == Some(self.before.0);
        let seed = self.before.1;
        self.before = (header.sequence, header.checksum);
        self.lost.note(&header);
        if follows && offset.saturating_add(header.size()) <= end {
            bytes.resize(header.size() as usize, 0);
            // What cannot be read is zeros, and the checksum is wrong.
            let (read, _) = read_around(file, offset, bytes)?;
            if let Ok(batch) = BatchView::decode(&bytes[..read], seed) {
                self.count(&batch);
                return Ok(header.size());
            }
        }
        self.lost.unreadable += 1;
        self.lost.unreadable_records += u64::from(header.records);
        self.doubtful_epochs.push(header.epoch);
        Ok(0)
    }

    fn count(&mut self, batch: &BatchView<'_>) {
        self.lost.batches += 1;
        let mut greatest = self.lost.greatest_timestamp.max(batch.header.epoch);
        for (_, record) in Records::new(batch.payload).flatten() {
            if let Record::Commit(commit) = record {
                self.lost.commits += 1;
                greatest = greatest.max(commit.timestamp);
                self.earliest = self.earliest.min(commit.timestamp);
            }
        }
        self.lost.greatest_timestamp = greatest;
    }

    /// Whether commits up to the end of the checkpoint may be lost. All of them were durable when
    /// the control file named it; the log may end before that timestamp because there were none.
    fn may_have_commits_to(&self, mark_end: u64, end: &LogEnd) -> bool {
        let lost = &self.lost;
        match self.control.durable_sequence {
            // It was made anew, and does not know.
            0 => lost.batches + lost.unreadable + lost.unreadable_bytes > 0,
            durable if durable <= end.sequence => false,
            durable => {
                lost.unreadable + lost.unreadable_bytes > 0
                    || durable > self.before.0
                    || self.earliest <= mark_end
            }
        }
    }

    fn finish(mut self, end: &LogEnd) -> Lost {
        let mark = self.control.checkpoint;
        let broken =
            mark.filter(|mark| end.epoch < mark.end && self.may_have_commits_to(mark.end, end));
        self.lost.breaks_checkpoint = broken.map(|mark| (mark.start, mark.end));
        let limit = self.lost.greatest_timestamp.saturating_add(BELIEVED);
        let epochs = self.doubtful_epochs.iter().copied();
        let believed = epochs.filter(|epoch| *epoch <= limit).max();
        self.lost.greatest_timestamp = self.lost.greatest_timestamp.max(believed.unwrap_or(0));
        self.lost
    }
}
