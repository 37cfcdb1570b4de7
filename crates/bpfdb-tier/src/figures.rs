//! What is told of cold values.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bpfdb::Status;

use crate::park::ParkFigures;
use crate::prefetch::PrefetchFigures;

/// Counted since the start.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) fetches: AtomicU64,
    pub(crate) promotions: AtomicU64,
    pub(crate) demotions: AtomicU64,
    pub(crate) demoted_bytes: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) corrupt: AtomicU64,
    pub(crate) unavailable: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    pub(crate) runs_removed: AtomicU64,
    /// Why nothing can be written now.
    pub(crate) trouble: Mutex<Option<String>>,
}

impl Counts {
    /// A value was read, or could not be.
    pub(crate) fn note_read(&self, outcome: &Result<Vec<u8>, Status>) {
        Self::add(&self.fetches, 1);
        match outcome {
            Err(Status::TierCorrupt) => Self::add(&self.corrupt, 1),
            Err(_) => Self::add(&self.unavailable, 1),
            Ok(_) => {}
        }
    }

    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// The cold values there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub values: u64,
    /// Of these values.
    pub bytes: u64,
    pub runs: u64,
    /// Of the files of runs.
    pub file_bytes: u64,
}

/// For INFO and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub found: Found,
    /// Bytes of memory above which values go to files.
    pub memory: u64,
    /// Since the start: values that were read, that came back to memory, that went to files (and their
    /// bytes), that were rewritten to another file.
    pub fetches: u64,
    pub promotions: u64,
    pub demotions: u64,
    pub demoted_bytes: u64,
    pub moved: u64,
    /// Bytes of files that were read to rewrite what is live of them.
    pub read_bytes: u64,
    /// Reads that ended in TIER_CORRUPT, and in TIER_UNAVAILABLE.
    pub corrupt: u64,
    pub unavailable: u64,
    pub write_errors: u64,
    pub runs_removed: u64,
    pub prefetch: PrefetchFigures,
    pub park: ParkFigures,
    /// Why nothing can be written now.
    pub trouble: Option<String>,
}
