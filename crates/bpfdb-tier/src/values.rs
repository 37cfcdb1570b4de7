//! Reading of cold values for the engine's sessions, and which of them come back to memory.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bpfdb::{ColdPlace, ColdRead, ColdValues, Status};
use bpfdb_log::Disk;
use rustc_hash::FxBuildHasher;

use crate::figures::Counts;
use crate::reads::Reads;
use crate::runs::Runs;

/// Keys that were read lately, by their hashes.
const RECENT: usize = 1 << 14;
/// Values that wait until they can come back. What else is wanted meanwhile is so when it is read again.
const WANTED: usize = 256;

/// Reads the runs of an engine.
pub struct RunValues<D: Disk> {
    runs: Arc<Runs<D>>,
    reads: Arc<Reads>,
    counts: Arc<Counts>,
    hasher: FxBuildHasher,
    /// Of the key that was read last at each place: the rest of its hash.
    recent: Vec<AtomicU32>,
    /// Memory is taken up to its bound.
    is_full: AtomicBool,
    /// Stored keys of values that transactions have read.
    wanted: Mutex<Vec<Vec<u8>>>,
}

impl<D: Disk> fmt::Debug for RunValues<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunValues").finish_non_exhaustive()
    }
}

impl<D: Disk> RunValues<D> {
    pub fn new(runs: Arc<Runs<D>>, counts: Arc<Counts>) -> Self {
        Self {
            runs,
            reads: Arc::new(Reads::new(Arc::clone(&counts))),
            counts,
            hasher: FxBuildHasher,
            recent: (0..RECENT).map(|_| AtomicU32::new(0)).collect(),
            is_full: AtomicBool::new(false),
            wanted: Mutex::default(),
        }
    }

    /// Those that go on beside who needs them.
    pub(crate) fn reads(&self) -> &Arc<Reads> {
        &self.reads
    }

    /// From now on only what is read twice comes back to memory, or everything that is read.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
        self.runs.set_full(is_full);
    }

    /// Those that are to come back now.
    pub(crate) fn take_wanted(&self) -> Vec<Vec<u8>> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *wanted)
    }

    /// What the kernel has answered by itself lately counts as read.
    fn note_parked(&self, key: &[u8], place: ColdPlace) {
        if self.runs.was_parked_for(place) {
            self.was_read(key);
        }
    }

    /// Whether the key was read, and another one of its place has not been since; it counts as read now.
    fn was_read(&self, key: &[u8]) -> bool {
        let hash = self.hasher.hash_one(key);
        let mark = (hash >> 32) as u32 | 1;
        self.recent[hash as usize % RECENT].swap(mark, Ordering::Relaxed) == mark
    }
}

impl<D> RunValues<D>
where
    D: Disk + Send + Sync + 'static,
    D::File: Send + Sync,
{
    /// What reads need now and then: room for those that the kernel begins, where nothing has asked for what was read; and threads
    /// for those that wait behind a slow one.
    pub(crate) fn look_after_reads(&self) {
        self.runs.take_completions();
        self.reads.hurry(&self.runs);
    }
}

impl<D> ColdValues for RunValues<D>
where
    D: Disk + Send + Sync + 'static,
    D::File: Send + Sync,
{
    fn fetch(&self, key: &[u8], len: u64, place: ColdPlace) -> Result<Vec<u8>, Status> {
        self.note_parked(key, place);
        let value = self.runs.read_value(key, len, place);
        self.counts.note_read(&value);
        value
    }

    fn begin(
        &self,
        key: &[u8],
        len: u64,
        place: ColdPlace,
        session: u32,
    ) -> Option<Arc<dyn ColdRead>> {
        self.note_parked(key, place);
        self.reads.begin(&self.runs, (key, len, place), session)
    }

    fn admits(&self, key: &[u8], _len: u64) -> bool {
        self.was_read(key) || !self.is_full.load(Ordering::Relaxed)
    }

    fn promoted(&self) {
        Counts::add(&self.counts.promotions, 1);
    }

    fn wanted(&self, key: &[u8]) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.len() < WANTED && !wanted.iter().any(|other| other == key) {
            wanted.push(key.to_vec());
        }
    }
}
