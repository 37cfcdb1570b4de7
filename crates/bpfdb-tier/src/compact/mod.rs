//! Rewrites runs of which little is live (docs/decisions/0049-runs-are-read-to-be-rewritten.md).
//!
//! ```text
//! run ──parts──► Finder: which entries do versions name? ──► NewBatch ──► another run, flushed
//!                                                                            │
//! versions ◄── Demoter::demote_all: each that is still the one found ◄── places ──┘
//! ```
//!
//! A step rewrites some parts of a run and ends with a swap. A server that is killed within one leaves each version
//! with the place of before or with the new one, and both runs in the manifest. What a step overlooks (an entry that is
//! too long for a part, or whose head is damaged) keeps its place; the demoter finds it by its key.
//!
//! | module | |
//! |---|---|
//! | `memory` | what program and process share |
//! | `finder` | parts, and the live entries of them |

mod finder;
mod memory;

use std::io;
use std::sync::Arc;

use bpfdb::{ColdPlace, Demoter, Demotion, Engine, Status};
use bpfdb_log::{Disk, DiskFile};

use crate::format::entry;
use crate::runs::{Runs, Source};
use crate::writer::{NewBatch, RunWriter};
use finder::{Finder, Part};

/// Bytes of entries that are written together.
const BATCH: usize = 8 << 20;
/// Parts that a step looks at, at most.
const PARTS_A_STEP: usize = 8;

/// Bytes that are read at once.
pub(crate) const READ: usize = 1 << 20;

/// What was rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Values that have another place now.
    pub moved: u64,
    /// Bytes of files that were read.
    pub bytes_read: u64,
    /// All of the run was looked at.
    pub is_over: bool,
}

/// A run that is being rewritten.
#[derive(Debug)]
struct Current<F> {
    source: Source<F>,
    /// Place of the next entry to look at; `None`: the run ends before.
    next: Option<u64>,
}

/// Rewrites runs, one at a time.
#[derive(Debug)]
pub struct Compactor<D: Disk> {
    engine: Engine,
    runs: Arc<Runs<D>>,
    read: usize,
    /// Made for the first run.
    finder: Option<Finder>,
    /// It could not be made, and is not tried again.
    is_refused: bool,
    current: Option<Current<D::File>>,
}

/// Why a step came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// The run cannot be read, or the program cannot be loaded. The run is not looked at any more.
    #[error("cannot read a file of cold values: {0}")]
    Read(io::Error),
    #[error("cannot write cold values: {0}")]
    Write(io::Error),
    #[error("the engine refuses: {0}")]
    Engine(#[from] Status),
}

/// A value that was found live.
#[derive(Debug)]
struct Moving {
    /// Where its key begins among all, and its length.
    key: (usize, usize),
    id: u64,
    len: u64,
    epoch: u64,
    to: ColdPlace,
}

/// The values of a batch.
#[derive(Debug, Default)]
struct AllMoving {
    keys: Vec<u8>,
    values: Vec<Moving>,
}

impl AllMoving {
    fn push(&mut self, entry: &entry::Entry<'_>, id: u64, to: ColdPlace) {
        let key = (self.keys.len(), entry.key.len());
        self.keys.extend_from_slice(entry.key);
        self.values.push(Moving {
            key,
            id,
            len: entry.value.len() as u64,
            epoch: entry.timestamp,
            to,
        });
    }

    /// Has the versions name the new places; how many.
    fn swap(&self, demoter: &mut Demoter) -> (u64, Result<(), Status>) {
        let demotions = self.values.iter().map(|one| Demotion {
            key: &self.keys[one.key.0..][..one.key.1],
            id: one.id,
            epoch: one.epoch,
            len: one.len,
            to: one.to,
        });
        let demotions: Vec<_> = demotions.collect();
        let mut swapped = Vec::with_capacity(demotions.len());
        let outcome = demoter.demote_all(&demotions, &mut swapped);
        let moved = swapped.into_iter().filter(|is_so| *is_so).count();
        (moved as u64, outcome)
    }
}

impl<D: Disk> Compactor<D> {
    /// For the runs of this engine. Nothing is loaded before it has a run.
    pub fn new(engine: &Engine, runs: Arc<Runs<D>>) -> Self {
        Self {
            engine: engine.clone(),
            runs,
            read: READ,
            finder: None,
            is_refused: false,
            current: None,
        }
    }

    /// Reads so many bytes at once: to be compared.
    #[doc(hidden)]
    pub fn set_read(&mut self, bytes: usize) {
        self.read = bytes;
    }

    /// Begins with a run, to which nothing is written any more.
    ///
    /// # Errors
    /// [`CompactionError::Read`].
    pub fn begin(&mut self, run: u64) -> Result<(), CompactionError> {
        self.prepare()?;
        let source = self.runs.source(run).map_err(CompactionError::Read)?;
        let begin = crate::format::BLOCK as u64;
        self.current = Some(Current {
            next: Finder::has_room(&source, begin).then_some(begin),
            source,
        });
        Ok(())
    }

    /// Loads the program, if that was not done: else the first run does it.
    ///
    /// # Errors
    /// [`CompactionError::Read`].
    pub fn prepare(&mut self) -> Result<(), CompactionError> {
        if self.finder.is_none() {
            let finder = Finder::new(&self.engine);
            self.is_refused = finder.is_err();
            self.finder = Some(finder.map_err(CompactionError::Read)?);
        }
        Ok(())
    }

    /// Whether the kernel takes the program, as far as that is known.
    pub(crate) fn is_on(&self) -> bool {
        !self.is_refused
    }

    /// Looks no further into a run that no version names any more.
    pub(crate) fn leave_unused(&mut self, is_used: impl Fn(u64) -> bool) {
        self.current
            .take_if(|current| !is_used(current.source.id.number));
    }

    /// Whether there is a run that is not over.
    pub(crate) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Rewrites some parts of the run, and has versions name the new places: what the old ones have is given back
    /// after a grace period ([`Demoter::settle`]).
    ///
    /// # Errors
    /// After [`CompactionError::Read`] there is no run any more; after others the part is gone, and the next step
    /// goes on behind it.
    pub fn step(
        &mut self,
        writer: &mut RunWriter<D>,
        demoter: &mut Demoter,
    ) -> Result<Rewritten, CompactionError> {
        let gathered = self.gather(writer);
        give(gathered, writer, demoter)
    }

    /// What is live of some parts.
    pub(crate) fn gather(&mut self, writer: &mut RunWriter<D>) -> Gathered {
        let mut gathered = Gathered::default();
        let (Some(current), Some(finder)) = (&mut self.current, &mut self.finder) else {
            gathered.rewritten.is_over = true;
            return gathered;
        };
        writer.keep_free(0);
        let engine = &self.engine;
        let mut begin = || writer.begin(&engine.run_uses());
        let outcome = current.take_parts(finder, self.read, &mut gathered, &mut begin);
        gathered.rewritten.is_over = current.next.is_none();
        if gathered.rewritten.is_over || matches!(outcome, Err(CompactionError::Read(_))) {
            self.current = None;
        }
        gathered.failed = outcome.err();
        gathered
    }
}

/// Entries that are live, or were when they were found.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Begun when there is something to be written.
    batch: Option<NewBatch>,
    moving: AllMoving,
    rewritten: Rewritten,
    /// Why there are not more.
    failed: Option<CompactionError>,
}

impl Gathered {
    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.moving.values.len()
    }
}

/// Writes them, and has the versions name the new places.
pub(crate) fn give<D: Disk>(
    gathered: Gathered,
    writer: &mut RunWriter<D>,
    demoter: &mut Demoter,
) -> Result<Rewritten, CompactionError> {
    let mut rewritten = gathered.rewritten;
    if let Some(batch) = gathered.batch.filter(|batch| !batch.is_empty()) {
        let written = writer.write(&batch);
        written.map_err(CompactionError::Write)?;
        let (moved, outcome) = gathered.moving.swap(demoter);
        rewritten.moved = moved;
        match outcome {
            // What has moved so far gives memory back.
            Err(Status::OutOfMemory | Status::MemoryPending) if moved > 0 => {}
            outcome => outcome?,
        }
    }
    gathered.failed.map_or(Ok(rewritten), Err)
}

impl<F: DiskFile> Current<F> {
    /// `begin`: begins the batch, before the first entry.
    fn take_parts(
        &mut self,
        finder: &mut Finder,
        read: usize,
        gathered: &mut Gathered,
        begin: &mut dyn FnMut() -> io::Result<NewBatch>,
    ) -> Result<(), CompactionError> {
        for _ in 0..PARTS_A_STEP {
            let bytes = gathered.batch.as_ref().map_or(0, NewBatch::len);
            let Some(at) = self.next.filter(|_| bytes < BATCH) else {
                break;
            };
            let part = finder.look(&self.source, at, read);
            let part = part.map_err(CompactionError::Read)?;
            gathered.rewritten.bytes_read += part.bytes;
            if finder.live().next().is_some() {
                let mut batch = match gathered.batch.take() {
                    Some(batch) => batch,
                    None => begin().map_err(CompactionError::Write)?,
                };
                self.take(finder, &part, &mut batch, &mut gathered.moving);
                gathered.batch = Some(batch);
            }
            // A part that goes no further is the last.
            let goes_on = part.next > at && Finder::has_room(&self.source, part.next);
            self.next = goes_on.then_some(part.next);
        }
        Ok(())
    }

    /// Takes what of a part is live, and whole.
    fn take(&self, finder: &Finder, part: &Part, batch: &mut NewBatch, moving: &mut AllMoving) {
        let run = self.source.id;
        for (at, id) in finder.live() {
            let place = part.start + at as u64;
            let Some(entry) = entry::read(finder.bytes_from(part, at), run, place) else {
                tracing::warn!(run = run.number, offset = place, "a cold value is damaged");
                continue;
            };
            let to = batch.push(&entry);
            moving.push(&entry, id, to);
        }
    }
}
