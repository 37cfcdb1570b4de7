//! Says everything about the log of a directory, and where it stops being one.
//!
//! It only reads, and works beside a living owner. That one may write, recycle and replace files
//! meanwhile, which looks like damage. So a fault counts only if it is found twice in a row, the
//! second time while no segment came or went; or, beside an owner that never rests, several times
//! in a row. A moving one is none.

mod report;
mod retained;

use std::collections::VecDeque;

use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, Result};
use crate::format::control::Slots;
use crate::format::place::Place;
use crate::format::segment::{self, Named};
use crate::read::reader::Item;
use crate::read::recovery::{LogEnd, Recovery};
pub use report::{DurableReport, FilesReport, Report, RunReport, SegmentReport};
pub use retained::{RetainedReport, check_retained};

/// So often the log is read; a fault may move once less.
const ATTEMPTS: u32 = 16;
/// A fault that is found so often in a row is none that the owner makes. Twice may be chance: a
/// segment was begun after the reader had looked for it, and the next time recycled before.
const SURE: u32 = 4;

/// Reads all that recovery would read. Commits up to `after` are in a checkpoint, so the parts of
/// their large values may be gone.
///
/// # Errors
/// [`LogError::Io`]; [`LogError::Refused`] if the owner is always faster. Damage is in the report.
pub fn check<D: Disk>(disk: &D, after: u64) -> Result<Report> {
    check_and_tell(disk, after, |_| ())
}

/// The same, and reports how far it has come, again and again, and from the beginning if it must.
///
/// # Errors
/// See [`check`].
pub fn check_and_tell<D: Disk>(
    disk: &D,
    after: u64,
    mut tell: impl FnMut(Place),
) -> Result<Report> {
    let mut fault = None;
    let mut times = 0;
    for _ in 0..ATTEMPTS {
        let report = examine(disk, after, &mut tell)?;
        times = if report.fault == fault { times + 1 } else { 1 };
        let is_known = times >= SURE || times >= 2 && !has_moved(disk, &report)?;
        if report.fault.is_none() || is_known {
            return Ok(report);
        }
        fault = report.fault;
    }
    let why = "the log changes faster than it can be read: try again, or stop its owner";
    Err(LogError::Refused(why.into()))
}

fn examine<D: Disk>(disk: &D, after: u64, tell: &mut impl FnMut(Place)) -> Result<Report> {
    let mut examination = Examination::new(disk)?;
    let mut recovery = match Recovery::new(disk.clone(), after) {
        Ok(recovery) => recovery,
        Err(error) => return examination.end_with(error),
    };
    loop {
        let item = match recovery.step() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(error) => {
                examination.report.end = recovery.end().clone();
                return examination.end_with(error);
            }
        };
        let commits = recovery.forget_ready();
        examination.add(disk, &item, commits, recovery.end())?;
        if let Some(place) = recovery.place() {
            examination.report.whole_up_to = Some(place);
            tell(place);
        }
    }
    examination.report.end = recovery.end().clone();
    Ok(examination.finish())
}

/// Has a segment come or gone since this examination began?
fn has_moved<D: Disk>(disk: &D, report: &Report) -> Result<bool> {
    Ok(Slots::read(disk)? != report.slots || list(disk)?.segments != report.files.segments)
}

fn list<D: Disk>(disk: &D) -> Result<FilesReport> {
    let names = match disk.list(segment::FOLDER) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(LogError::io("list", segment::FOLDER))?,
    };
    let mut files = FilesReport::default();
    for name in names {
        match Named::parse(&name) {
            Some(Named::Segment(number)) => files.segments.push(number),
            Some(Named::Spare(_)) => files.spares += 1,
            None => {
                files.foreign.push(name);
                continue;
            }
        }
        files.size += size_of(disk, &format!("{}/{name}", segment::FOLDER))?;
    }
    files.segments.sort_unstable();
    files.foreign.sort_unstable();
    Ok(files)
}

/// 0 if it has just gone.
fn size_of<D: Disk>(disk: &D, name: &str) -> Result<u64> {
    let file = disk.open(name).map_err(LogError::io("open", name))?;
    let size = file.map_or(Ok(0), |file| file.size());
    size.map_err(LogError::io("find the size of", name))
}

/// A report that is being made.
struct Examination {
    report: Report,
    /// Sequence numbers and epochs of the batches that nothing calls durable yet.
    doubtful: VecDeque<DurableReport>,
}

impl Examination {
    fn new<D: Disk>(disk: &D) -> Result<Self> {
        let report = Report {
            slots: Slots::read(disk)?,
            segments: Vec::new(),
            runs: Vec::new(),
            files: list(disk)?,
            fault: None,
            whole_up_to: None,
            durable: DurableReport::default(),
            end: LogEnd::default(),
        };
        Ok(Self {
            report,
            doubtful: VecDeque::new(),
        })
    }

    fn end_with(mut self, error: LogError) -> Result<Report> {
        match error {
            LogError::Corrupt(fault) => {
                self.report.fault = Some(fault);
                Ok(self.finish())
            }
            error => Err(error),
        }
    }

    fn finish(mut self) -> Report {
        let control = self.report.slots.as_ref().and_then(Slots::newest);
        self.confirm(control.map_or(0, |control| control.durable_sequence));
        self.report.add_dropped();
        self.report
    }

    /// The batches up to this sequence number are durable.
    fn confirm(&mut self, sequence: u64) {
        while let Some(batch) = self.doubtful.front()
            && batch.sequence <= sequence
        {
            self.report.durable = *batch;
            self.doubtful.pop_front();
        }
    }

    fn add<D: Disk>(&mut self, disk: &D, item: &Item, commits: u64, end: &LogEnd) -> Result<()> {
        match item {
            Item::Segment(header) => {
                self.confirm(header.first_sequence - 1);
                let size = size_of(disk, &segment::name(header.number))?;
                self.report.add_segment(*header, size, end);
            }
            Item::Batch(header) => {
                self.doubtful.push_back(DurableReport {
                    sequence: header.sequence,
                    epoch: header.epoch,
                });
                self.confirm(header.durable);
                if let Some(segment) = self.report.segments.last_mut() {
                    segment.add(header, commits);
                }
                if let Some(run) = self.report.runs.last_mut() {
                    run.add(header, commits);
                }
            }
        }
        Ok(())
    }
}
