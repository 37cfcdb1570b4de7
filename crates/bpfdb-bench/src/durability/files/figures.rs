//! Measured values.

use std::collections::BTreeMap;

use crate::sample::Sample;

/// A figure of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Checkpoint beside writers: seconds, and megabytes per second.
    Busy,
    BusySpeed,
    /// Without writers: the same, and nanoseconds of processors for each record.
    Idle,
    IdleSpeed,
    Processor,
    /// 99th percentiles of writers, in microseconds; those refused, of a million.
    Before,
    During,
    Refused,
    /// Seconds of starts: without data, from a checkpoint, from the log alone.
    EmptyStart,
    SavedStart,
    LogStart,
    /// The same with data in the kernel, beyond one without data.
    GoesOn,
    /// For each record: of files, and of records in them.
    LogBytes,
    Logged,
    SaveBytes,
    /// Megabytes per second of the disk by itself.
    DiskWrites,
    DiskReads,
}

/// By figure, size of the values, and number of the database.
#[derive(Default)]
pub(super) struct Figures(BTreeMap<(What, u32, usize), Sample>);

impl Figures {
    pub(super) fn add(&mut self, what: What, size: u32, which: usize, figure: f64) {
        self.0.entry((what, size, which)).or_default().push(figure);
    }

    /// Empty if it was not measured.
    pub(super) fn sample(&self, what: What, size: u32, which: usize) -> Sample {
        self.0
            .get(&(what, size, which))
            .cloned()
            .unwrap_or_default()
    }
}
