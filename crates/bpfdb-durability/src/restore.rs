//! Gives an engine what a log has.

use bpfdb::{Engine, Session, Status};
use bpfdb_log::record::Value;
use bpfdb_log::{Disk, LogEnd, RecoveredCommit, Recovery};

use crate::error::{Error, Result};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    pub commits: u64,
    pub writes: u64,
    /// Commits that were never durable, and bytes behind the last one that was.
    pub dropped: u64,
    pub torn_bytes: u64,
}

/// Commits are applied in the order of their timestamps, so the last write of a key stays.
/// Nobody else uses the engine meanwhile.
pub(crate) fn restore<D: Disk>(engine: &Engine, disk: &D) -> Result<(Restored, LogEnd)> {
    let mut session = engine.session()?;
    session.write_unlogged();
    let mut restored = Restored::default();
    let mut recovery = Recovery::new(disk.clone(), 0)?;
    for commit in recovery.by_ref() {
        let commit = commit?;
        restored.commits += 1;
        restored.writes += apply(&mut session, &commit, disk)?;
    }
    let end = recovery.finish()?;
    restored.dropped = end.dropped;
    restored.torn_bytes = end.torn_bytes;
    Ok((restored, end))
}

/// How many writes it had.
fn apply<D: Disk>(session: &mut Session, commit: &RecoveredCommit, disk: &D) -> Result<u64> {
    let mut large = commit.large_values.iter();
    let mut writes = 0;
    for entry in commit.entries() {
        let entry = entry.map_err(|_| Error::Refused(Status::Corrupt))?;
        let done = match entry.value {
            Value::Deleted => session.delete(entry.key).map(drop),
            Value::Inline(bytes) => session.set_entry(entry.key, bytes, entry.expires).map(drop),
            Value::Large { .. } => {
                let value = large.next().ok_or(Error::Refused(Status::Corrupt))?;
                let mut bytes = Vec::with_capacity(value.len as usize);
                value.read(disk, |part| bytes.extend_from_slice(part))?;
                session
                    .set_entry(entry.key, &bytes, entry.expires)
                    .map(drop)
            }
        };
        done.map_err(Error::Refused)?;
        writes += 1;
    }
    Ok(writes)
}
