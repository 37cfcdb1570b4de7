//! Whether an engine and a directory belong together.

use bpfdb::{Log, LogHome};
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

/// Whether an engine with this home may have commits that the directory's files lack: the directory
/// was not closed since, and nobody else has gone on with it.
///
/// # Errors
/// The files cannot be read, or are damaged.
pub fn has_more_than_files<D: Disk>(home: &LogHome, disk: &D) -> Result<bool> {
    match known_end(disk, home) {
        Ok(end) => Ok(!end.closed),
        Err(Error::Stranger(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a directory has must not come after what was written to the engine, in its place.
pub(crate) fn check_unwritten<D: Disk>(log: &Log, disk: &D) -> Result<()> {
    match is_unwritten(log) || read_control(disk)?.is_none() {
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
