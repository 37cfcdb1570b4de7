//! Targets of checkpoints and recovery.

use std::thread;

use super::figures::What;
use super::tables::{Figure, Shown};
use crate::report::Cell;

/// Of the disk's rate, by a checkpoint; or so many nanoseconds of processors for each record.
const WRITTEN: f64 = 0.8;
const PROCESSOR: f64 = 70.0;
/// Times that writers may take during a checkpoint, in those before.
const WRITERS: f64 = 1.3;
/// Recovery of 10 M records with values of up to so many bytes has so many seconds; that of fewer
/// ones has less.
const SHORT: u32 = 16;
const SHORT_SECONDS: f64 = 3.0;
const SHORT_RECORDS: f64 = 10e6;
/// That of longer ones has this part of the disk's rate.
const READ: f64 = 0.8;
/// Records of the log in a second by each processor, in thousands.
const LOG: f64 = 2000.0;
/// Of the time of the better Redis.
const REDIS: f64 = 0.5;
/// Seconds to go on with the data in the kernel.
const GOES_ON: f64 = 1.0;

#[derive(Clone, Copy)]
pub(super) enum Target {
    Written,
    Writers,
    Short,
    Read,
    Log,
    Redis,
    GoesOn,
}

impl Target {
    /// Whether `shown` meets it; nothing where there is none for this size.
    pub(super) fn cell(self, of: &Figure<'_>, shown: Shown) -> Cell {
        let figure = of.shown(shown, 0);
        match self {
            Self::Written => {
                let processor = of.shown(Shown::Is(What::Processor), 0).median();
                let is_met = figure.median() >= WRITTEN || processor <= PROCESSOR;
                Cell::verdict(is_met, format!("≥ {WRITTEN} or ≤ {PROCESSOR} ns a record"))
            }
            Self::Writers => Cell::at_most(&figure, WRITERS),
            Self::Short if of.size <= SHORT => {
                let limit = SHORT_SECONDS * f64::from(of.records) / SHORT_RECORDS;
                Cell::at_most_of(&figure, limit, "s")
            }
            Self::Read if of.size > SHORT => Cell::at_least(&figure, READ),
            Self::Short | Self::Read => "".into(),
            Self::Log => {
                let processors = thread::available_parallelism().map_or(1, usize::from);
                Cell::at_least(&figure, LOG * processors as f64)
            }
            Self::Redis => Cell::at_most(&figure, REDIS),
            Self::GoesOn => Cell::at_most_of(&figure, GOES_ON, "s"),
        }
    }
}
