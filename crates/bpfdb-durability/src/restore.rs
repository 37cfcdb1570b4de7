//! Gives an engine what a data directory has: the checkpoint that counts, then the log after it.
//!
//! Nobody uses the engine meanwhile, so nobody sees some writes of a transaction without the
//! others; and what cannot be recovered leaves no half-recovered engine in use.

use std::ops::ControlFlow;

use bpfdb::{Engine, Session, Status};
use bpfdb_log::checkpoint::{CheckpointReader, Contents, RawBlock};
use bpfdb_log::record::Value;
use bpfdb_log::{Disk, LogEnd, LogError, RecoveredCommit, Recovery};

use crate::error::{Error, Result};
use crate::load::{Workers, sessions, with_workers};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Entries of the checkpoint that it began with.
    pub checkpoint_entries: u64,
    /// Of the log.
    pub commits: u64,
    /// Of these commits.
    pub writes: u64,
    /// Commits that were never durable, and bytes behind the last one that was.
    pub dropped: u64,
    pub torn_bytes: u64,
}

/// How far recovery is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// That were read, of checkpoint and log.
    pub bytes: u64,
    /// That are to be read, as far as can be told.
    pub bytes_in_all: u64,
    /// Entries of the checkpoint, and writes of the log.
    pub records: u64,
}

/// Called now and then, by the thread that recovers; says whether it goes on.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(RecoveryProgress) -> ControlFlow<()>;

/// Commits between two calls of that.
const COMMITS_TOLD: u64 = 4096;

/// Recovery that goes on.
struct Restore<'a, D: Disk> {
    engine: &'a Engine,
    disk: &'a D,
    segment_size: u64,
    restored: Restored,
    progress: RecoveryProgress,
    tell: Tell<'a>,
}

/// `segment_size`: of the log, in bytes.
pub(crate) fn restore<D: Disk>(
    engine: &Engine,
    disk: &D,
    segment_size: u64,
    tell: Tell<'_>,
) -> Result<(Restored, LogEnd)> {
    let recovery = Recovery::new(disk.clone(), 0)?;
    let mut restore = Restore {
        engine,
        disk,
        segment_size,
        restored: Restored::default(),
        progress: RecoveryProgress::default(),
        tell,
    };
    let mut sessions = sessions(engine)?;
    restore.begin(&recovery, &mut sessions)?;
    let end = restore.replay(recovery, &mut sessions)?;
    restore.restored.dropped = end.dropped;
    restore.restored.torn_bytes = end.torn_bytes;
    Ok((restore.restored, end))
}

impl<D: Disk> Restore<'_, D> {
    /// Loads the checkpoint, if there is one.
    fn begin(&mut self, recovery: &Recovery<D>, sessions: &mut [Session]) -> Result<()> {
        let Some(control) = recovery.control() else {
            return Ok(());
        };
        let segments = (control.newest_segment + 1).saturating_sub(control.first_needed);
        self.progress.bytes_in_all = segments.saturating_mul(self.segment_size);
        let Some(mark) = control.checkpoint else {
            return Ok(());
        };
        let mut checkpoint = CheckpointReader::open(self.disk, control.log, mark)?;
        let bytes = checkpoint.footer().bytes;
        self.progress.bytes_in_all = self.progress.bytes_in_all.saturating_add(bytes);
        if !self.engine.set_placement(&checkpoint.header().placement)? {
            tracing::debug!("the checkpoint's records come in any order");
        }
        self.engine.presize(checkpoint.footer().entries)?;
        with_workers(sessions, |workers| self.load(&mut checkpoint, workers))?;
        self.restored.checkpoint_entries = checkpoint.footer().entries;
        Ok(())
    }

    fn load(&mut self, from: &mut CheckpointReader<D>, workers: &mut Workers) -> Result<()> {
        while let Some(block) = from.next_block()? {
            self.progress.records += u64::from(block.header.entries);
            if block.is_large() {
                load_large(from, &block, workers)?;
            } else {
                workers.block(block)?;
            }
            self.progress.bytes = from.position();
            self.tell()?;
        }
        Ok(())
    }

    /// Applies the commits that the checkpoint does not have, of each key in the order of their
    /// timestamps: so its last write stays.
    fn replay(&mut self, mut recovery: Recovery<D>, sessions: &mut [Session]) -> Result<LogEnd> {
        let before = self.progress.bytes;
        let first = recovery.control().map_or(0, |control| control.first_needed);
        with_workers(sessions, |workers| {
            while let Some(commit) = recovery.next() {
                self.apply(&commit?, workers)?;
                if self.restored.commits.is_multiple_of(COMMITS_TOLD) {
                    let (segment, offset) = recovery.position();
                    let segments = segment.saturating_sub(first);
                    let read = segments.saturating_mul(self.segment_size);
                    self.progress.bytes = before.saturating_add(read).saturating_add(offset);
                    self.tell()?;
                }
            }
            Ok(())
        })?;
        let end = recovery.finish()?;
        self.progress.bytes = self.progress.bytes_in_all;
        self.tell()?;
        Ok(end)
    }

    fn tell(&mut self) -> Result<()> {
        match (self.tell)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }

    fn apply(&mut self, commit: &RecoveredCommit, workers: &mut Workers) -> Result<()> {
        let mut large = commit.large_values.iter();
        let mut entries = commit.entries();
        let mut rest = entries.rest();
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|_| Error::Refused(Status::Corrupt))?;
            if let Value::Large { .. } = entry.value {
                let value = large.next().ok_or(Error::Refused(Status::Corrupt))?;
                let mut bytes = Vec::with_capacity(value.len as usize);
                value.read(self.disk, |part| bytes.extend_from_slice(part))?;
                workers.large(entry.key, bytes, entry.expires)?;
            } else {
                let raw = &rest[..rest.len() - entries.rest().len()];
                workers.write(entry.key, raw)?;
            }
            rest = entries.rest();
            self.restored.writes += 1;
        }
        self.restored.commits += 1;
        self.progress.records += commit.entries().count() as u64;
        Ok(())
    }
}

/// Reads the blocks that have the bytes of a large value.
fn load_large<D: Disk>(
    from: &mut CheckpointReader<D>,
    first: &RawBlock,
    workers: &mut Workers,
) -> Result<()> {
    let Contents::Large(entry) = first.contents()? else {
        return Err(misplaced(first).into());
    };
    let Value::Large { len, .. } = entry.value else {
        return Err(misplaced(first).into());
    };
    let mut value = Vec::new();
    while (value.len() as u64) < len {
        let block = from.next_block()?.ok_or_else(|| misplaced(first))?;
        match block.contents()? {
            Contents::LargeBytes(bytes) => value.extend_from_slice(bytes),
            _ => return Err(misplaced(&block).into()),
        }
    }
    match value.len() as u64 == len {
        true => workers.large(entry.key, value, entry.expires),
        false => Err(misplaced(first).into()),
    }
}

fn misplaced(block: &RawBlock) -> LogError {
    block.corrupt("the bytes of a large value are not where they should be")
}
