//! Whether an engine and a directory belong together.

use std::iter;

use bpfdb::{Log, LogHome, PinnedLog};
use bpfdb_log::control::Control;
use bpfdb_log::reader::read_control;
use bpfdb_log::{Disk, LogEnd, Recovery, RunId};

use crate::error::{Error, Result};

/// The end of the log that this engine's memory is a run of.
pub(crate) fn known_end<D: Disk>(disk: &D, home: &LogHome) -> Result<LogEnd> {
    let end = Recovery::end_of(disk.clone())?;
    let Some(control) = end.control else {
        return Err(Error::Stranger("the directory has no log".into()));
    };
    if control.log.0 != home.log {
        return Err(Error::Stranger("it belongs to another one".into()));
    }
    let last = end.segment.map_or(0, |segment| segment.run);
    if last != home.run {
        let why = format!(
            "it is run {} of the log, whose last run is {last}",
            home.run
        );
        return Err(Error::Stranger(why));
    }
    let last = end
        .segment
        .map_or(RunId::default(), |segment| segment.run_id);
    if last.0 != home.run_id {
        let why = format!(
            "run {} of the log is another one there: it is another copy of the directory",
            home.run
        );
        return Err(Error::Stranger(why));
    }
    Ok(end)
}

/// What the files of a directory lack of an engine that is pinned, of the last run that the directory
/// had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Nothing, or the engine is none of that run.
    Nothing,
    /// Commits that are in the kernel only. There, the next owner makes them durable; recovery from
    /// the files goes on without them.
    Commits,
    /// What was in the files once: they are an older copy, or have lost their end.
    Batches,
}

/// Compares an engine that is pinned with the files of a directory.
///
/// # Errors
/// The files cannot be read, or are damaged.
pub fn lack_of_files<D: Disk>(pinned: &PinnedLog, disk: &D) -> Result<Lack> {
    let control = read_control(disk)?;
    if control.is_none_or(|control| control.log.0 != pinned.home.log) {
        return Ok(Lack::Nothing);
    }
    let end = match known_end(disk, &pinned.home) {
        Ok(end) => end,
        Err(Error::Stranger(_)) => return Ok(Lack::Nothing),
        Err(error) => return Err(error),
    };
    let mut written = end.positions.iter().copied().chain(iter::repeat(0));
    let mut ends = pinned.ends.iter().zip(&mut written);
    Ok(if end.sequence < pinned.batch {
        Lack::Batches
    } else if ends.any(|(&end, written)| end > written) || has_undecided(&end) {
        Lack::Commits
    } else {
        Lack::Nothing
    })
}

/// Whether the log ends with a commit that only its next batch would have made count: one that came
/// between the end of a group's epoch and the look at its ring.
fn has_undecided(end: &LogEnd) -> bool {
    let checkpoint = end.control.and_then(|control| control.checkpoint);
    let counts = checkpoint.map_or(0, |mark| mark.end).max(end.epoch);
    end.greatest_timestamp > counts
}

/// What a directory has must not come after what was written to the engine, in its place.
pub(crate) fn check_unwritten<D: Disk>(log: &Log, disk: &D) -> Result<()> {
    // An attempt to begin a log, for which there was no space, may have left a control file.
    let is_log = |control: Control| control.newest_segment > 0 || control.checkpoint.is_some();
    match is_unwritten(log) || !read_control(disk)?.is_some_and(is_log) {
        true => Ok(()),
        false => Err(Error::Stranger("it was written to without this log".into())),
    }
}

/// Whether only recovery has written to the engine, which leaves nothing in the rings.
pub(crate) fn is_unwritten(log: &Log) -> bool {
    (0..log.rings()).all(|ring| log.reserved(ring) == 0)
}

/// The log must have what the rings do not have any more. It has not if it is an older copy of the
/// directory, or if its last batches have been damaged since; then the memory is all there is.
pub(crate) fn check_rings(log: &Log, end: &LogEnd) -> Result<()> {
    let given_up = log.batch();
    if end.sequence < given_up {
        let why = format!(
            "it ends with batch {}, but had batch {given_up}: it is an older copy, or its end is damaged",
            end.sequence
        );
        return Err(Error::Stranger(why));
    }
    let mut positions = end.positions.iter().enumerate();
    match positions.find(|&(ring, &position)| ring >= log.rings() || position > log.reserved(ring))
    {
        None => Ok(()),
        Some((ring, _)) => Err(Error::Stranger(format!("ring {ring} never had so much"))),
    }
}

/// Later timestamps are no log's: the engine's clock would not have room for more.
const TIMESTAMP_MAX: u64 = 1 << 53;

pub(crate) fn check_time(end: &LogEnd) -> Result<()> {
    match end.greatest_timestamp {
        ..TIMESTAMP_MAX => Ok(()),
        timestamp => Err(Error::Stranger(format!(
            "its timestamps are beyond any clock, up to {timestamp}"
        ))),
    }
}
