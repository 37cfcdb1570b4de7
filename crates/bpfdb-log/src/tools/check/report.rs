//! The report of a check.

use crate::error::Corrupt;
use crate::format::batch::BatchHeader;
use crate::format::control::Slots;
use crate::format::layout::BLOCK;
use crate::format::place::Place;
use crate::format::segment::SegmentHeader;
use crate::read::recovery::LogEnd;

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

impl Report {
    pub(super) fn add_segment(&mut self, header: SegmentHeader, size: u64, end: &LogEnd) {
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
            end: BLOCK as u64,
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
    pub(super) fn add_dropped(&mut self) {
        let known: u64 = self.runs.iter().map(|run| run.dropped).sum();
        if let Some(run) = self.runs.last_mut() {
            run.dropped += self.end.dropped - known;
        }
    }
}

impl SegmentReport {
    pub(super) fn add(&mut self, header: &BatchHeader, commits: u64) {
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
    pub(super) fn add(&mut self, header: &BatchHeader, commits: u64) {
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
