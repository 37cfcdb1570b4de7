//! What is retained of a log besides what a start needs: older checkpoints, and the segments from
//! the oldest of them on. Recovery to an earlier time begins there.
//!
//! ```text
//! segments      3 ─── 4 ─── 5 ─── 6 ─── 7 ─── 8 ───►
//!               ▲ first kept            ▲ first needed
//! checkpoints   2           4           5: this one counts
//!               └───────────┴───────────┴── a beginning each
//! ```
//!
//! # Rules
//!
//! 1. Recovery at a start looks at nothing of this.
//! 2. A **beginning** is a checkpoint, and the segments from its first one on. With it every point
//!    from the checkpoint's end on can be had, up to the end of the log.
//! 3. A checkpoint that does not count any more is a beginning if the segments from its first one
//!    on are kept, and if everything up to its end became durable in its run. So a file that
//!    was written and never counted is none, unless it might have counted.
//! 4. Segments are given up oldest first, after the control file has said so. A checkpoint whose
//!    first segment is not kept is a file that was not removed in time.

use crate::disk::Disk;
use crate::error::{Corrupt, LogError, Result};
use crate::format::checkpoint::{self, CheckpointReader, Mark};
use crate::format::control::Control;
use crate::format::layout::BLOCK;
use crate::format::moment::Moment;
use crate::format::segment::{self, SegmentHeader, read_header};

/// From where the log can be read so that it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// `None`: the very beginning of the log, where nothing was there; or what a copy began with.
    pub mark: Option<Mark>,
    pub first_segment: u64,
    /// The earliest point that can be had from here.
    pub earliest: Moment,
    /// Of the checkpoint's file.
    pub bytes: u64,
}

impl Beginning {
    /// The log as it would be if this beginning counted.
    pub(crate) fn view(&self, control: &Control) -> Control {
        Control {
            first_needed: self.first_segment,
            first_retained: 0,
            checkpoint: self.mark,
            ..*control
        }
    }

    /// Reads all of its checkpoint, if it has one; also whether its blocks follow each other as they
    /// should.
    pub(crate) fn verify<D: Disk>(&self, disk: &D, control: &Control) -> Result<()> {
        let Some(mark) = self.mark else {
            return Ok(());
        };
        CheckpointReader::open(disk, control.log, mark)?.verify()
    }

    /// Number of its checkpoint; 0: it has none.
    pub fn number(&self) -> u64 {
        self.mark.map_or(0, |mark| mark.number)
    }
}

/// The beginnings of a log, oldest first. The last one is that of a start, unless its checkpoint is
/// damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginnings {
    pub list: Vec<Beginning>,
    /// Checkpoints that are of no use because they are damaged, or could not be read.
    pub damaged: Vec<Corrupt>,
    /// Numbers of those that could not be read: perhaps they can another time.
    pub unread: Vec<u64>,
}

impl Beginnings {
    /// # Errors
    /// [`LogError::Io`]: the checkpoints cannot be listed.
    pub fn find<D: Disk>(disk: &D, control: &Control) -> Result<Self> {
        let mut found = Self::default();
        if control.first_kept() == 1 {
            found.list.push(Beginning {
                mark: None,
                first_segment: 1,
                earliest: control.complete_from,
                bytes: 0,
            });
        }
        // Also if no segment is retained: an older one may begin in the segment where this does.
        if let Some(mark) = control.needed_checkpoint() {
            found.add_older(disk, control, mark.number)?;
            if let Some((beginning, _)) = found.read(disk, mark.number)? {
                found.list.push(Beginning {
                    mark: Some(mark),
                    first_segment: control.first_needed,
                    ..beginning
                });
            }
        }
        Ok(found)
    }

    /// `None`: it is damaged, or cannot be read.
    fn read<D: Disk>(
        &mut self,
        disk: &D,
        number: u64,
    ) -> Result<Option<(Beginning, checkpoint::Header)>> {
        let error = match read(disk, number) {
            Ok(found) => return Ok(Some(found)),
            Err(error) => error,
        };
        if matches!(error, LogError::Io { .. }) {
            self.unread.push(number);
        }
        self.damaged.push(error.damage()?);
        Ok(None)
    }

    /// Checkpoints that counted before the one with this number.
    fn add_older<D: Disk>(&mut self, disk: &D, control: &Control, counts: u64) -> Result<()> {
        let mut cuts = None;
        for number in checkpoint::numbers(disk)? {
            if number >= counts {
                break;
            }
            let Some((beginning, header)) = self.read(disk, number)? else {
                continue;
            };
            let segments = control.first_kept().max(2)..=control.first_needed;
            let is_ours = header.log == control.log && segments.contains(&beginning.first_segment);
            if is_ours && may_count(disk, control, &beginning, header.run, &mut cuts) {
                self.list.push(beginning);
            }
        }
        Ok(())
    }

    /// The beginnings from which this point can be had, the latest first.
    pub(crate) fn for_timestamp(&self, timestamp: u64) -> impl Iterator<Item = &Beginning> {
        let list = self.list.iter().rev();
        list.filter(move |beginning| beginning.earliest.epoch <= timestamp)
    }

    /// The latest beginning behind which the log has this commit.
    pub(crate) fn for_commit(&self, timestamp: u64) -> Option<&Beginning> {
        let first = |beginning: &Beginning| beginning.earliest.epoch;
        let start = |beginning: &Beginning| {
            let mark = beginning.mark.map(|mark| mark.start);
            mark.unwrap_or(first(beginning))
        };
        let mut list = self.list.iter().rev();
        list.find(|beginning| start(beginning) < timestamp)
    }

    /// The earliest point that can be had; `None`: there is no log, or none that can be begun.
    pub fn earliest(&self) -> Option<Moment> {
        self.list.first().map(|beginning| beginning.earliest)
    }

    /// Whether a log that is read from this view of it is still there.
    pub(crate) fn has(&self, view: &Control) -> bool {
        let mut list = self.list.iter();
        list.any(|beginning| {
            beginning.first_segment == view.first_needed && beginning.mark == view.checkpoint
        })
    }
}

fn read<D: Disk>(disk: &D, number: u64) -> Result<(Beginning, checkpoint::Header)> {
    let (header, footer) = checkpoint::read_ends(disk, number)?;
    let beginning = Beginning {
        mark: Some(checkpoint::mark_of(number, &header, &footer)?),
        first_segment: header.first_segment,
        earliest: Moment {
            epoch: footer.end,
            wall: footer.wall,
        },
        bytes: footer.bytes.saturating_add(BLOCK as u64),
    };
    Ok((beginning, header))
}

/// What the header of a segment says.
struct Cut {
    run: u64,
    /// In the first segment of a run, up to where its predecessor became durable. Else 0, and where
    /// that was not known.
    epoch: u64,
}

/// Whether everything up to the end of a checkpoint of this run became durable: the next run says
/// up to where its predecessor did. Of the last run a later checkpoint counts, so it did.
///
/// If the next run does not say so, or cannot be read, that is not known. Then it may: what is retained
/// is not given up because of a header.
fn may_count<D: Disk>(
    disk: &D,
    control: &Control,
    beginning: &Beginning,
    run: u64,
    cuts: &mut Option<Vec<Option<Cut>>>,
) -> bool {
    if run == control.run {
        return true;
    }
    let cuts = cuts.get_or_insert_with(|| read_cuts(disk, control));
    let is_up_to_run = |cut: &Option<Cut>| cut.as_ref().is_some_and(|cut| cut.run <= run);
    let behind = cuts
        .iter()
        .rposition(is_up_to_run)
        .map_or(0, |last| last + 1);
    match cuts.get(behind) {
        Some(Some(next)) if next.epoch != 0 => next.epoch >= beginning.earliest.epoch,
        _ => true,
    }
}

/// Of each segment, in order; `None`: it cannot be read. One that is damaged is found when the log is
/// read.
fn read_cuts<D: Disk>(disk: &D, control: &Control) -> Vec<Option<Cut>> {
    let kept = control.first_kept()..=control.newest_segment;
    let numbers = segment::numbers(disk).unwrap_or_default().into_iter();
    let headers = numbers
        .filter(|number| kept.contains(number))
        .map(|number| read_header(disk, number).ok().flatten());
    let cut = |header: SegmentHeader| Cut {
        run: header.run,
        epoch: header.cut,
    };
    headers.map(|header| header.map(cut)).collect()
}
