//! Says everything about the log of a directory, and where it stops being one.
//!
//! It only reads, and works beside a living owner. That one may write, recycle and replace files
//! meanwhile, which looks like damage. So a fault counts only if it is found twice in a row: a
//! moving one is none.

use crate::control::Slots;
use crate::disk::Disk;
use crate::error::{Corrupt, LogError, Result};
use crate::reader::Item;
use crate::recovery::{LogEnd, Recovery};
use crate::segment::{self, Named, SegmentHeader};

/// So often the log is read; a fault may move once less.
const ATTEMPTS: u32 = 16;

/// What a directory has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Both slots of the control file. `None`: there is none.
    pub slots: Option<Slots>,
    /// Those that recovery needs, as far as they could be read.
    pub segments: Vec<SegmentReport>,
    pub runs: Vec<RunReport>,
    pub files: FilesReport,
    /// The first place at which the log is not what was written.
    pub fault: Option<Corrupt>,
    /// Up to the fault, or to the end.
    pub end: LogEnd,
}

/// What a segment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    pub header: SegmentHeader,
    pub batches: u64,
    pub records: u64,
    /// Bytes of all payloads.
    pub payload: u64,
    /// Sequence number of the last batch; 0: none.
    pub last_sequence: u64,
    /// Epoch of the last batch; 0: none.
    pub last_epoch: u64,
    /// Behind the last batch, in bytes.
    pub end: u64,
}

/// What a run has, as far as its segments are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    pub run: u64,
    pub batches: u64,
    /// Groups: batches with a higher epoch than the one before.
    pub epochs: u64,
    /// Commits that count.
    pub commits: u64,
    /// Commits that do not count: their epoch was not complete when the run ended.
    pub dropped: u64,
    /// Commits up to this timestamp count.
    pub end: u64,
}

/// The files of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesReport {
    /// Numbers of all segments.
    pub segments: Vec<u64>,
    pub spares: u64,
    /// Names that are not ours.
    pub foreign: Vec<String>,
}

/// Reads all that recovery would read. Commits up to `after` are in a checkpoint, so the parts of
/// their large values may be gone.
///
/// # Errors
/// [`LogError::Io`]; [`LogError::Refused`] if the owner is always faster. Damage is in the report.
pub fn check<D: Disk>(disk: &D, after: u64) -> Result<Report> {
    let mut fault = None;
    for _ in 0..ATTEMPTS {
        let report = examine(disk, after)?;
        if report.fault.is_none() || report.fault == fault {
            return Ok(report);
        }
        fault = report.fault;
    }
    let why = "the log changes faster than it can be read: try again, or stop its owner";
    Err(LogError::Refused(why.into()))
}

fn examine<D: Disk>(disk: &D, after: u64) -> Result<Report> {
    let mut report = Report {
        slots: Slots::read(disk)?,
        segments: Vec::new(),
        runs: Vec::new(),
        files: list(disk)?,
        fault: None,
        end: LogEnd::default(),
    };
    let mut recovery = match Recovery::new(disk.clone(), after) {
        Ok(recovery) => recovery,
        Err(error) => return report.end_with(error),
    };
    loop {
        let item = match recovery.step() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(error) => {
                report.end = recovery.end().clone();
                return report.end_with(error);
            }
        };
        let commits = recovery.forget_ready();
        report.add(&item, commits, recovery.end());
    }
    report.end = recovery.end().clone();
    report.add_dropped();
    Ok(report)
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
            None => files.foreign.push(name),
        }
    }
    files.segments.sort_unstable();
    files.foreign.sort_unstable();
    Ok(files)
}

impl Report {
    fn end_with(mut self, error: LogError) -> Result<Self> {
        match error {
            LogError::Corrupt(fault) => {
                self.fault = Some(fault);
                self.add_dropped();
                Ok(self)
            }
            error => Err(error),
        }
    }

    fn add(&mut self, item: &Item, commits: u64, end: &LogEnd) {
        match item {
            Item::Segment(header) => self.add_segment(*header, end),
            Item::Batch(header) => {
                if let Some(segment) = self.segments.last_mut() {
                    segment.batches += 1;
                    segment.records += u64::from(header.records);
                    segment.payload += u64::from(header.payload);
                    segment.last_sequence = header.sequence;
                    segment.last_epoch = header.epoch;
                    segment.end += header.size();
                }
                if let Some(run) = self.runs.last_mut() {
                    run.batches += 1;
                    run.epochs += u64::from(header.epoch > run.end);
                    run.commits += commits;
                    run.end = header.epoch;
                }
            }
        }
    }

    fn add_segment(&mut self, header: SegmentHeader, end: &LogEnd) {
        self.segments.push(SegmentReport {
            header,
            batches: 0,
            records: 0,
            payload: 0,
            last_sequence: 0,
            last_epoch: 0,
            end: crate::BLOCK as u64,
        });
        if self.runs.last().is_none_or(|run| run.run != header.run) {
            self.end.dropped = end.dropped;
            self.add_dropped();
            self.runs.push(RunReport {
                run: header.run,
                end: header.cut,
                ..RunReport::default()
            });
        }
    }

    /// What was dropped since the last time belongs to the last run.
    fn add_dropped(&mut self) {
        let known: u64 = self.runs.iter().map(|run| run.dropped).sum();
        if let Some(run) = self.runs.last_mut() {
            run.dropped += self.end.dropped - known;
        }
    }
}
