//! Recovery to a point in time.
//!
//! A commit has a timestamp, which orders it. An epoch has the time of the wall clock at which its
//! group was written. The wall clock is set by people and programs, and may go back: then several
//! epochs have the same time. The *last* of them counts, and all before it. So a clock that was
//! ahead for a while does no harm to a time before or after that. One that was behind has a time
//! before mean more than was there then, and never less: a timestamp distinguishes them.

use crate::disk::Disk;
use crate::error::{LogError, Result};
use crate::format::checkpoint::{self, Mark};
use crate::format::control::Control;
use crate::format::layout::BLOCK;
use crate::format::moment::Moment;
use crate::format::place::Place;
use crate::read::reader::{Item, LogReader, read_control};
use crate::read::retained::{Beginning, Beginnings};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The commits with a timestamp up to this.
    Timestamp(u64),
    /// The commits up to the last epoch whose wall clock is not later: nanoseconds of UNIX time.
    Wall(u64),
}

impl Until {
    /// The timestamp that this means for a log. It reads all of it, if it must look for a time.
    ///
    /// # Errors
    /// [`LogError::TooEarly`] if no epoch is so early; those of reading.
    pub fn timestamp<D: Disk>(self, disk: &D) -> Result<u64> {
        self.timestamp_of(disk, read_control(disk)?)
    }

    /// The same. `control` is that of [`read_control`].
    pub(crate) fn timestamp_of<D: Disk>(self, disk: &D, control: Option<Control>) -> Result<u64> {
        match (self, control) {
            (Self::Timestamp(timestamp), _) => Ok(timestamp),
            (Self::Wall(_), None) => Ok(0),
            (Self::Wall(wall), Some(control)) => {
                let mark = control.needed_checkpoint();
                let end = mark.map(|mark| end_of(disk, mark)).transpose()?;
                last_epoch(disk, control, end.as_slice(), wall)
            }
        }
    }

    /// The same, of everything that is there from the oldest of these beginnings on. The latest one
    /// is searched first: damage of what is older than the time does no harm.
    pub(crate) fn timestamp_among<D: Disk>(
        self,
        disk: &D,
        control: &Control,
        beginnings: &Beginnings,
    ) -> Result<u64> {
        match self {
            Self::Wall(wall) if !beginnings.list.is_empty() => {
                let found = last_epoch_among(disk, control, &beginnings.list, wall);
                // The earliest epoch of the log may be one that no beginning is as early as.
                found.map_err(|error| match (error, beginnings.earliest()) {
                    (LogError::TooEarly(first), Some(earliest)) => {
                        LogError::TooEarly(first.max(earliest))
                    }
                    (error, _) => error,
                })
            }
            until => until.timestamp_of(disk, Some(*control)),
        }
    }
}

fn end_of<D: Disk>(disk: &D, mark: Mark) -> Result<Moment> {
    let (_, footer) = checkpoint::read_ends(disk, mark.number)?;
    Ok(Moment {
        epoch: mark.end,
        wall: footer.wall,
    })
}

/// `ends`: of checkpoints. All commits up to there were durable when one was complete, and that may
/// be later than the last batch: then nothing was written in between.
fn last_epoch<D: Disk>(disk: &D, control: Control, ends: &[Moment], wall: u64) -> Result<u64> {
    let mut search = Search::new(wall);
    for end in ends {
        search.see(end.epoch, end.wall);
    }
    search.see_log(LogReader::new(disk.clone(), control))?;
    search.found()
}

/// What is before a beginning has no epoch that is later than those behind it.
fn last_epoch_among<D: Disk>(
    disk: &D,
    control: &Control,
    beginnings: &[Beginning],
    wall: u64,
) -> Result<u64> {
    let mut search = Search::new(wall);
    let mut searched_from = None;
    for beginning in beginnings.iter().rev() {
        let Moment { epoch, wall } = beginning.earliest;
        if epoch > 0 {
            search.see(epoch, wall);
        }
        let first = Some(beginning.first_segment);
        let (disk, view) = (disk.clone(), beginning.view(control));
        match searched_from {
            None => search.see_log(LogReader::new(disk, view))?,
            Some(segment) if searched_from != first => {
                let offset = BLOCK as u64;
                search.see_log(LogReader::up_to(disk, view, Place { segment, offset }))?;
            }
            Some(_) => {}
        }
        searched_from = first;
        if search.found.is_some() {
            break;
        }
    }
    search.found()
}

/// Looks for the last epoch whose wall clock is not later than a time.
struct Search {
    wall: u64,
    found: Option<u64>,
    /// The earliest epoch.
    first: Option<Moment>,
}

impl Search {
    fn new(wall: u64) -> Self {
        Self {
            wall,
            found: None,
            first: None,
        }
    }

    fn see(&mut self, epoch: u64, wall: u64) {
        if self.first.is_none_or(|first| epoch < first.epoch) {
            self.first = Some(Moment { epoch, wall });
        }
        if wall <= self.wall {
            self.found = self.found.max(Some(epoch));
        }
    }

    fn see_log<D: Disk>(&mut self, mut reader: LogReader<D>) -> Result<()> {
        let mut last = 0;
        while let Some(item) = reader.advance()? {
            match item {
                Item::Batch(header) if header.epoch > last => {
                    last = header.epoch;
                    self.see(header.epoch, header.wall);
                }
                // An epoch that ended with its run is no new one.
                Item::Segment(header) => last = last.max(header.cut),
                Item::Batch(_) => {}
            }
        }
        Ok(())
    }

    fn found(self) -> Result<u64> {
        match (self.found, self.first) {
            (Some(epoch), _) => Ok(epoch),
            (None, None) => Ok(0),
            (None, Some(first)) => Err(LogError::TooEarly(first)),
        }
    }
}
