//! Gives an engine what a data directory has: the checkpoint that counts, then the log after it.
//!
//! The engine is not in use meanwhile, so no reader sees some writes of a transaction without the
//! others; and what cannot be recovered leaves no half-recovered engine in use.

use std::ops::ControlFlow;

use bpfdb::{Engine, Session};
use bpfdb_log::checkpoint::{CheckpointReader, Contents, RawBlock};
use bpfdb_log::record::Value;
use bpfdb_log::{Disk, LogEnd, LogError, Recovery};

use crate::error::{Error, Result};
use crate::in_order::{InOrder, may_help};
use crate::load::{Load, sessions, with_workers};
use crate::value_type;

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
    /// That are to be read, as far as is known.
    pub bytes_in_all: u64,
    /// Entries of the checkpoint, and writes of the log. They count again if recovery begins anew, because
    /// memory was short.
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
    /// What was done in vain before this attempt.
    before: RecoveryProgress,
    tell: Tell<'a>,
}

/// On all processors; if memory is short of what that takes, once more and in order.
///
/// `segment_size`: of the log, in bytes.
pub(crate) fn restore<D: Disk>(
    engine: &Engine,
    disk: &D,
    segment_size: u64,
    tell: Tell<'_>,
) -> Result<(Restored, LogEnd)> {
    let mut restore = Restore {
        engine,
        disk,
        segment_size,
        restored: Restored::default(),
        progress: RecoveryProgress::default(),
        before: RecoveryProgress::default(),
        tell,
    };
    let mut sessions = sessions(engine)?;
    let end = match restore.on_all_processors(&mut sessions) {
        Err(Error::Refused(status)) if may_help(status) => {
            tracing::warn!(%status, "recovery begins anew, one commit after the other");
            restore.begin_anew();
            restore.in_order(&mut sessions[0])
        }
        end => end,
    }?;
    restore.restored.dropped = end.dropped;
    restore.restored.torn_bytes = end.torn_bytes;
    Ok((restore.restored, end))
}

impl<D: Disk> Restore<'_, D> {
    fn on_all_processors(&mut self, sessions: &mut [Session]) -> Result<LogEnd> {
        let mut recovery = Recovery::new(self.disk.clone(), 0)?;
        if let Some(mut checkpoint) = self.begin(&recovery)? {
            with_workers(sessions, |workers| self.load(&mut checkpoint, workers))?;
        }
        with_workers(sessions, |workers| self.replay(&mut recovery, workers))?;
        self.finish(recovery)
    }

    fn in_order(&mut self, session: &mut Session) -> Result<LogEnd> {
        let mut loader = InOrder::begin(self.engine, session)?;
        let mut recovery = Recovery::new(self.disk.clone(), 0)?;
        if let Some(mut checkpoint) = self.begin(&recovery)? {
            self.load(&mut checkpoint, &mut loader)?;
        }
        self.replay(&mut recovery, &mut loader)?;
        self.finish(recovery)
    }

    /// What was read up to here is read again.
    fn begin_anew(&mut self) {
        self.restored = Restored::default();
        self.before = std::mem::take(&mut self.progress);
    }

    /// The checkpoint that is to be loaded first, if there is one.
    fn begin(&mut self, recovery: &Recovery<D>) -> Result<Option<CheckpointReader<D>>> {
        let Some(control) = recovery.control() else {
            return Ok(None);
        };
        let segments = (control.newest_segment + 1).saturating_sub(control.first_needed);
        self.progress.bytes_in_all = segments.saturating_mul(self.segment_size);
        let Some(mark) = control.checkpoint else {
            return Ok(None);
        };
        let checkpoint = CheckpointReader::open(self.disk, control.log, mark)?;
        let bytes = checkpoint.footer().bytes;
        self.progress.bytes_in_all = self.progress.bytes_in_all.saturating_add(bytes);
        if !self.engine.set_placement(&checkpoint.header().placement)? {
            tracing::debug!("the checkpoint's records come in any order");
        }
        self.engine.presize(checkpoint.footer().entries)?;
        self.restored.checkpoint_entries = checkpoint.footer().entries;
        Ok(Some(checkpoint))
    }

    fn load(&mut self, from: &mut CheckpointReader<D>, loader: &mut impl Load) -> Result<()> {
        while let Some(block) = from.next_block()? {
            self.progress.records += u64::from(block.header.entries);
            if block.is_large() {
                load_large(from, &block, loader)?;
            } else {
                loader.block(block)?;
            }
            self.progress.bytes = from.position();
            self.tell()?;
        }
        Ok(())
    }

    /// Applies the commits that the checkpoint does not have, of each key in the order of their
    /// timestamps: so its last write stays.
    fn replay(&mut self, recovery: &mut Recovery<D>, loader: &mut impl Load) -> Result<()> {
        let before = self.progress.bytes;
        let first = recovery.control().map_or(0, |control| control.first_needed);
        while let Some(commit) = recovery.next() {
            let commit = commit?;
            loader.commit(&commit, self.disk)?;
            let writes = commit.entries().count() as u64;
            self.restored.commits += 1;
            self.restored.writes += writes;
            self.progress.records += writes;
            if self.restored.commits.is_multiple_of(COMMITS_TOLD) {
                let (segment, offset) = Recovery::position(recovery);
                let segments = segment.saturating_sub(first);
                let read = segments.saturating_mul(self.segment_size);
                self.progress.bytes = before.saturating_add(read).saturating_add(offset);
                self.tell()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, recovery: Recovery<D>) -> Result<LogEnd> {
        let end = recovery.finish()?;
        self.progress.bytes = self.progress.bytes_in_all;
        self.tell()?;
        Ok(end)
    }

    fn tell(&mut self) -> Result<()> {
        let (before, now) = (self.before, self.progress);
        let progress = RecoveryProgress {
            bytes: before.bytes.saturating_add(now.bytes),
            bytes_in_all: before.bytes.saturating_add(now.bytes_in_all),
            records: before.records + now.records,
        };
        match (self.tell)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }
}

/// Reads the blocks that have the bytes of a large value.
fn load_large<D: Disk>(
    from: &mut CheckpointReader<D>,
    first: &RawBlock,
    loader: &mut impl Load,
) -> Result<()> {
    let Contents::Large(entry) = first.contents()? else {
        return Err(misplaced(first).into());
    };
    let Value::Large { kind, len, .. } = entry.value else {
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
        true => loader.large(entry.key, value_type::in_engine(kind), value, entry.expires),
        false => Err(misplaced(first).into()),
    }
}

fn misplaced(block: &RawBlock) -> LogError {
    block.corrupt("the bytes of a large value are not where they should be")
}
