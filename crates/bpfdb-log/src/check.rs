//! Says everything about the log of a directory, and where it stops being one.
//!
//! It only reads, and works beside a living owner. That one may write, recycle and replace files
//! meanwhile, which looks like damage. So a fault counts only if it is found twice in a row: a
//! moving one is none.

use std::collections::VecDeque;

use crate::batch::BatchHeader;
use crate::control::Slots;
use crate::disk::{Disk, DiskFile};
use crate::error::{Corrupt, LogError, Result};
use crate::place::Place;
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
    /// Up to here the log is whole: where [`crate::Cut`] can end it. `None`: none of it is.
    pub whole_up_to: Option<Place>,
    /// The last batch of which something on the disk says that it is durable.
    pub durable: DurableReport,
    /// Up to the fault, or to the end.
    pub end: LogEnd,
}

/// What a segment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    pub header: SegmentHeader,
    pub batches: u64,
    pub records: u64,
    /// Commits of which the epoch is complete with a batch of this segment.
    pub commits: u64,
    /// Bytes of all payloads.
    pub payload: u64,
    /// Sequence number of the last batch; 0: none.
    pub last_sequence: u64,
    /// Epoch of the first batch; 0: none.
    pub first_epoch: u64,
    /// Epoch of the last batch; 0: none.
    pub last_epoch: u64,
    /// Wall clock of the last batch, nanoseconds of UNIX time; 0: none.
    pub last_wall: u64,
    /// Behind the last batch, in bytes.
    pub end: u64,
    /// Of the file, in bytes.
    pub size: u64,
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
    /// The earliest and the latest wall clock of its batches, nanoseconds of UNIX time.
    pub walls: Option<(u64, u64)>,
    /// Batches with an earlier wall clock than the one before: it was set back.
    pub clock_steps_back: u64,
    /// Wall clock of its last batch.
    pub last_wall: u64,
}

/// What is durable for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableReport {
    /// Sequence number of the batch; 0: none.
    pub sequence: u64,
    /// All commits up to this timestamp.
    pub epoch: u64,
}

/// The files of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesReport {
    /// Numbers of all segments.
    pub segments: Vec<u64>,
    pub spares: u64,
    /// Of segments and spares, in bytes.
    pub size: u64,
    /// Names that are not ours.
    pub foreign: Vec<String>,
}

/// Reads all that recovery would read. Commits up to `after` are in a checkpoint, so the parts of
/// their large values may be gone.
///
/// # Errors
/// [`LogError::Io`]; [`LogError::Refused`] if the owner is always faster. Damage is in the report.
pub fn check<D: Disk>(disk: &D, after: u64) -> Result<Report> {
    check_and_tell(disk, after, |_| ())
}

/// The same, and tells how far it has come, again and again, and from the beginning if it must.
///
/// # Errors
/// See [`check`].
pub fn check_and_tell<D: Disk>(
    disk: &D,
    after: u64,
    mut tell: impl FnMut(Place),
) -> Result<Report> {
    let mut fault = None;
    for _ in 0..ATTEMPTS {
        let report = examine(disk, after, &mut tell)?;
        if report.fault.is_none() || report.fault == fault {
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

impl Report {
    fn add_segment(&mut self, header: SegmentHeader, size: u64, end: &LogEnd) {
        self.segments.push(SegmentReport {
            header,
            batches: 0,
            records: 0,
            commits: 0,
            payload: 0,
            last_sequence: 0,
            first_epoch: 0,
            last_epoch: 0,
            last_wall: 0,
            end: crate::BLOCK as u64,
            size,
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

impl SegmentReport {
    fn add(&mut self, header: &BatchHeader, commits: u64) {
        if self.batches == 0 {
            self.first_epoch = header.epoch;
        }
        self.batches += 1;
        self.records += u64::from(header.records);
        self.commits += commits;
        self.payload += u64::from(header.payload);
        self.last_sequence = header.sequence;
        self.last_epoch = header.epoch;
        self.last_wall = header.wall;
        self.end += header.size();
    }
}

impl RunReport {
    fn add(&mut self, header: &BatchHeader, commits: u64) {
        self.batches += 1;
        self.epochs += u64::from(header.epoch > self.end);
        self.commits += commits;
        self.end = header.epoch;
        self.clock_steps_back += u64::from(header.wall < self.last_wall);
        self.last_wall = header.wall;
        let (first, last) = self.walls.unwrap_or((header.wall, header.wall));
        self.walls = Some((first.min(header.wall), last.max(header.wall)));
    }
}
