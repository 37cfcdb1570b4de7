//! Gives an engine records one commit after the other, so that it needs no more memory than it needed
//! when they were written. ([`crate::load`] does it on all processors, if there is more.)
//!
//! Several workers do not keep step: one may give the engine new values while another has not come
//! to what was deleted before these. And a value that several keys shared, or one that was given
//! another time to expire, is in the log as often as it was named. So here
//!
//! 1. all of a commit is there before the next one begins;
//! 2. a large value that a key has already is shared with it, as COPY, RENAME and EXPIRE have done;
//! 3. of one commit, what is deleted goes before what comes; so does the value that a large one
//!    replaces: it is not read meanwhile;
//! 4. memory that is on its way is waited for.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Operation, Session, Status, ValueType};
use bpfdb_log::checkpoint::RawBlock;
use bpfdb_log::record::{Entry, Value};
use bpfdb_log::{Disk, RecoveredCommit};

use crate::error::{Error, Result};
use crate::load::{CORRUPT, Load, load_block, operation, read};
use crate::value_type;

/// How long memory is waited for. The engine gives back what is free within some milliseconds; a large
/// index takes seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(2);
/// Keys deleted at a time.
const STEP: usize = 512;

/// Whether something that was refused may succeed later: for want of memory, or because another operator was
/// in the way, which may have been without a processor.
fn may_pass(status: Status) -> bool {
    matches!(
        status,
        Status::OutOfMemory | Status::MemoryPending | Status::Conflict | Status::Exhausted
    )
}

/// The same of what is loaded. A crowded page of the index may be one that could not be split for want of
/// memory: on all processors, and here while values go to files.
pub(crate) fn may_help(status: Status) -> bool {
    may_pass(status) || status == Status::IndexCrowded
}

/// One session that does everything.
pub(crate) struct InOrder<'a> {
    engine: &'a Engine,
    session: &'a mut Session,
    /// Keys that had a large value.
    large: HashMap<Sum, Vec<Vec<u8>>>,
}

impl<'a> InOrder<'a> {
    /// Empties the engine of what an attempt before has left.
    pub(crate) fn begin(engine: &'a Engine, session: &'a mut Session) -> Result<Self> {
        let mut loader = Self {
            engine,
            session,
            large: HashMap::new(),
        };
        let mut cursor = 0;
        loop {
            let scanned = loader.session.scan(cursor, STEP);
            let (next, keys) = scanned.map_err(Error::Refused)?;
            let deletions: Vec<_> = keys.iter().map(|key| Operation::Delete(key)).collect();
            loader.write(&deletions)?;
            cursor = next;
            if next == 0 {
                break;
            }
        }
        engine.sweep()?;
        Ok(loader)
    }

    fn write(&mut self, writes: &[Operation<'_>]) -> Result<()> {
        self.while_refused(may_help, |session| {
            let written = session.load(writes.iter().copied());
            written.map(drop).map_err(Error::Refused)
        })
    }

    /// Does it again while it is refused for a moment.
    fn patiently<T>(&mut self, work: impl FnMut(&mut Session) -> Result<T>) -> Result<T> {
        self.while_refused(may_pass, work)
    }

    /// Does it again while it is refused with a status that `passes`. What it did before that it does twice,
    /// and what is there in the end is the same.
    fn while_refused<T>(
        &mut self,
        passes: impl Fn(Status) -> bool,
        mut work: impl FnMut(&mut Session) -> Result<T>,
    ) -> Result<T> {
        let begun = Instant::now();
        loop {
            match work(self.session) {
                Err(Error::Refused(status)) if passes(status) && begun.elapsed() < PATIENCE => {
                    self.engine.sweep()?;
                    thread::sleep(PAUSE);
                }
                done => return done,
            }
        }
    }

    /// Gives a key a large value that another key has, or that it has itself. False: none has.
    fn share(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires: Option<u64>,
    ) -> Result<bool> {
        let sum = sum(kind, value);
        let Some(mut keys) = self.large.remove(&sum) else {
            return Ok(false);
        };
        let mut shared = false;
        while let Some(from) = keys.last() {
            if self.patiently(|session| has(session, from, kind, value))? {
                shared = self.share_with(from, key, expires)?;
                break;
            }
            keys.pop();
        }
        if shared && !keys.iter().any(|known| known == key) {
            keys.push(key.to_vec());
        }
        self.large.insert(sum, keys);
        Ok(shared)
    }

    fn share_with(&mut self, from: &[u8], to: &[u8], expires: Option<u64>) -> Result<bool> {
        let shared = self.patiently(|session| share(session, from, to, expires));
        if !matches!(shared, Err(Error::Refused(Status::IndexCrowded))) {
            return shared;
        }
        // What is loaded makes room in the index, where a transaction does not.
        self.write(&[Operation::SetEntry(to, b"", None)])?;
        self.patiently(|session| share(session, from, to, expires))
    }

    fn replace(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires: Option<u64>,
    ) -> Result<()> {
        self.write(&[Operation::Delete(key)])?;
        self.patiently(|session| {
            let set = session.set_typed(key, kind, value, expires);
            set.map_err(Error::Refused)
        })?;
        let keys = self.large.entry(sum(kind, value)).or_default();
        keys.push(key.to_vec());
        Ok(())
    }
}

impl Load for InOrder<'_> {
    fn block(&mut self, block: RawBlock) -> Result<()> {
        self.while_refused(may_help, |session| load_block(session, &block))
    }

    fn large(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: Vec<u8>,
        expires: Option<u64>,
    ) -> Result<()> {
        match self.share(key, kind, &value, expires)? {
            true => Ok(()),
            false => self.replace(key, kind, &value, expires),
        }
    }

    fn commit<D: Disk>(&mut self, commit: &RecoveredCommit, disk: &D) -> Result<()> {
        let entries: Result<Vec<Entry<'_>>, _> = commit.entries().collect();
        let entries = entries.map_err(|_| CORRUPT)?;
        let large: Vec<_> = entries.iter().filter_map(with_large).collect();
        if large.len() != commit.large_values.len() {
            return Err(CORRUPT);
        }
        // Before what it is shared with is deleted. One value at a time is in this process's memory.
        let mut left = Vec::new();
        for ((entry, kind), value) in large.into_iter().zip(&commit.large_values) {
            if !self.share(entry.key, kind, &read(value, disk)?, entry.expires)? {
                left.push((entry, kind, value));
            }
        }
        let (deletions, writes): (Vec<_>, Vec<_>) = (entries.iter())
            .filter_map(operation)
            .partition(|write| matches!(write, Operation::Delete(_)));
        self.write(&deletions)?;
        self.write(&writes)?;
        // Several of them may be the same value.
        for (entry, kind, value) in left {
            self.large(entry.key, kind, read(value, disk)?, entry.expires)?;
        }
        Ok(())
    }
}

/// Type, length and checksum of a value.
type Sum = (ValueType, usize, u32);

fn sum(kind: ValueType, value: &[u8]) -> Sum {
    (kind, value.len(), crc32c::crc32c(value))
}

/// The entry and the type of its value, if that is a large one.
fn with_large<'a, 'b>(entry: &'b Entry<'a>) -> Option<(&'b Entry<'a>, ValueType)> {
    match entry.value {
        Value::Large { kind, .. } => Some((entry, value_type::in_engine(kind))),
        _ => None,
    }
}

/// Whether this key has this value.
fn has(session: &mut Session, key: &[u8], kind: ValueType, value: &[u8]) -> Result<bool> {
    let head = session.head(key).map_err(Error::Refused)?;
    if !head.is_some_and(|head| (head.value_type, head.len) == (kind, value.len() as u64)) {
        return Ok(false);
    }
    let found = session.typed_entry(key).map_err(Error::Refused)?;
    Ok(found.is_some_and(|(found, entry)| found == kind && entry.value == value))
}

/// Gives `to` the large value of `from`, in a transaction of its own.
fn share(session: &mut Session, from: &[u8], to: &[u8], expires: Option<u64>) -> Result<bool> {
    let shared = (session.begin())
        .and_then(|()| session.share_large(from, to, expires))
        .and_then(|shared| session.commit().map(|_| shared));
    if shared.is_err() {
        // It may be over already.
        let _ = session.rollback();
    }
    shared.map_err(Error::Refused)
}
