//! A stream of transactions that only read, next to the client that is
//! measured: without it nothing would ever need an older version.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use bpfdb::{Engine, Session, Status};

use crate::records::key_of;

/// Transactions open at the same time, begun one after the other.
const OPEN: usize = 8;
/// Reads in a transaction before the next one begins.
const READS: usize = 4;

/// Begins, reads and ends transactions until it is stopped; how many
/// ended well.
pub(super) fn stream(engine: &Engine, draws: &[u32], stop: &AtomicBool) -> Result<u64> {
    // In single-version mode there are no snapshots to read from without
    // stopping all writers: its readers lock, one transaction at a time.
    let locking = engine.config().versions == 1;
    let open = if locking { 1 } else { OPEN };
    let mut sessions = (0..open)
        .map(|_| engine.session())
        .collect::<bpfdb::Result<VecDeque<_>>>()?;
    let mut keys = draws.iter().cycle();
    let mut ended = 0;

    while !stop.load(Ordering::Relaxed) {
        let Some(mut oldest) = sessions.pop_front() else {
            break;
        };
        ended += u64::from(end(&mut oldest)?);
        begin(&mut oldest, locking)?;
        for key in keys.by_ref().take(READS) {
            match oldest.get(&key_of(*key)) {
                Ok(_) => {}
                // The transaction has failed; it is ended in its turn.
                Err(Status::Conflict) if locking => break,
                Err(status) => bail!("a read of the stream: {status}"),
            }
        }
        sessions.push_back(oldest);
    }
    Ok(ended)
}

fn begin(session: &mut Session, locking: bool) -> Result<()> {
    if locking {
        session.begin()?;
    } else {
        session.begin_read_only()?;
    }
    Ok(())
}

/// Whether there was a transaction and it ended well.
fn end(session: &mut Session) -> Result<bool> {
    match session.commit() {
        Ok(()) => Ok(true),
        Err(Status::WrongState | Status::RolledBack) => Ok(false),
        Err(status) => bail!("the end of a transaction of the stream: {status}"),
    }
}
