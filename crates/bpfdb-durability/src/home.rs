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

/// Whether an engine that is pinned has records which the directory's files lack, though it is of the
/// last run that the directory had.
///
/// # Errors
/// The files cannot be read, or are damaged.
pub fn has_more_than_files<D: Disk>(pinned: &PinnedLog, disk: &D) -> Result<bool> {
    let control = read_control(disk)?;
    if control.is_none_or(|control| control.log.0 != pinned.home.log) {
        return Ok(false);
    }
    match known_end(disk, &pinned.home) {
        Ok(end) => {
            let written = end.positions.iter().copied().chain(iter::repeat(0));
            Ok(pinned
                .ends
                .iter()
                .zip(written)
                .any(|(&end, written)| end > written))
        }
        Err(Error::Stranger(_)) => Ok(false),
        Err(error) => Err(error),
    }
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

/// Whether nobody has written to the engine but recovery, which leaves nothing in the rings.
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
