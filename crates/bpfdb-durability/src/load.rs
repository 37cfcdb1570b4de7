//! Gives an engine records on all processors: several workers, each with a session of its own,
//! and one thread that hands them work. ([`crate::in_order`] does it where memory is short.)
//!
//! Writes of one key must keep their order, so they go to one worker, which the key's checksum
//! chooses. Blocks of a checkpoint have each key once, or twice with the same
//! value, and go to the next worker that comes: a block has keys of the same pages of
//! the index, one behind the other. What was handed over before is there when
//! [`with_workers`] has returned, not before.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use bpfdb::{Engine, Operation, Session, Status, ValueType};
use bpfdb_log::checkpoint::{Contents, RawBlock};
use bpfdb_log::record::{Entries, Entry, Value};
use bpfdb_log::{Disk, LargeValue, RecoveredCommit};

use crate::budget::{Budget, Share};
use crate::error::{Error, Result};
use crate::value_type;

/// Bytes of writes that are handed over at once.
const WRITES: usize = 64 << 10;
/// Pieces of work that wait for a worker.
const QUEUE: usize = 4;
/// Bytes of large values that wait for workers or are at one, or one value; and the one that is being
/// read.
const LARGE: usize = 64 << 20;

/// Sessions for as many workers as this machine can run, or as the engine has room for. What they
/// write leaves nothing in the log.
pub(crate) fn sessions(engine: &Engine) -> Result<Vec<Session>> {
    let wanted = thread::available_parallelism().map_or(1, usize::from);
    let mut sessions = vec![engine.session()?];
    while sessions.len() < wanted {
        match engine.session() {
            Ok(session) => sessions.push(session),
            Err(bpfdb::Error::Engine(Status::NoSession)) => break,
            Err(error) => return Err(error.into()),
        }
    }
    for session in &mut sessions {
        session.write_unlogged();
    }
    Ok(sessions)
}

enum Job {
    Block(RawBlock),
    /// Entries without large values.
    Writes(Vec<u8>),
    Large {
        key: Vec<u8>,
        kind: ValueType,
        value: Vec<u8>,
        expires: Option<u64>,
        _share: Share,
    },
}

/// To hand over work.
pub(crate) struct Workers {
    queues: Vec<SyncSender<Job>>,
    /// Writes for each that were not handed over yet.
    writes: Vec<Vec<u8>>,
    next: usize,
    large: Budget,
}

/// Takes what recovery reads.
pub(crate) trait Load {
    /// A block of entries of a checkpoint, none of them a large value.
    fn block(&mut self, block: RawBlock) -> Result<()>;

    /// A large value of a checkpoint.
    fn large(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: Vec<u8>,
        expires: Option<u64>,
    ) -> Result<()>;

    /// A commit, in the order of their timestamps; `disk` has its large values.
    fn commit<D: Disk>(&mut self, commit: &RecoveredCommit, disk: &D) -> Result<()>;
}

/// The first error of a worker.
type Failure = Mutex<Option<Error>>;

/// Runs `feed` with workers, and returns when they have done all that it handed over.
///
/// # Errors
/// The first one of a worker, else that of `feed`.
pub(crate) fn with_workers<T>(
    sessions: &mut [Session],
    feed: impl FnOnce(&mut Workers) -> Result<T>,
) -> Result<T> {
    let failure = Failure::default();
    let fed = thread::scope(|scope| {
        let mut workers = Workers {
            queues: Vec::new(),
            writes: vec![Vec::new(); sessions.len()],
            next: 0,
            large: Budget::new(LARGE),
        };
        for (number, session) in sessions.iter_mut().enumerate() {
            let (send, receive) = sync_channel(QUEUE);
            let failure = &failure;
            thread::Builder::new()
                .name(format!("bpfdb-load-{number}"))
                .spawn_scoped(scope, move || work(session, &receive, failure))
                .map_err(Error::Thread)?;
            workers.queues.push(send);
        }
        let fed = feed(&mut workers)?;
        workers.flush()?;
        Ok(fed)
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => fed,
    }
}

impl Load for Workers {
    fn block(&mut self, block: RawBlock) -> Result<()> {
        self.next = (self.next + 1) % self.queues.len();
        self.send(self.next, Job::Block(block))
    }

    fn large(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: Vec<u8>,
        expires: Option<u64>,
    ) -> Result<()> {
        let worker = self.worker_of(key);
        self.send_writes(worker)?;
        let job = Job::Large {
            key: key.to_vec(),
            kind,
            _share: self.large.take(value.len()),
            value,
            expires,
        };
        self.send(worker, job)
    }

    fn commit<D: Disk>(&mut self, commit: &RecoveredCommit, disk: &D) -> Result<()> {
        let mut large = commit.large_values.iter();
        let mut entries = commit.entries();
        let mut rest = entries.rest();
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|_| CORRUPT)?;
            if let Value::Large { kind, .. } = entry.value {
                let kind = value_type::in_engine(kind);
                let value = large.next().ok_or(CORRUPT)?;
                self.large(entry.key, kind, read(value, disk)?, entry.expires)?;
            } else {
                let raw = &rest[..rest.len() - entries.rest().len()];
                self.write(entry.key, raw)?;
            }
            rest = entries.rest();
        }
        Ok(())
    }
}

/// What follows from an entry that cannot be read, though its record had the right checksum.
pub(crate) const CORRUPT: Error = Error::Refused(Status::Corrupt);

/// The bytes of a large value.
pub(crate) fn read<D: Disk>(value: &LargeValue, disk: &D) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(value.len as usize);
    value.read(disk, |part| bytes.extend_from_slice(part))?;
    Ok(bytes)
}

impl Workers {
    /// An entry, `raw` as it stands in a record. Not one that names a large value.
    fn write(&mut self, key: &[u8], raw: &[u8]) -> Result<()> {
        let worker = self.worker_of(key);
        self.writes[worker].extend_from_slice(raw);
        match self.writes[worker].len() >= WRITES {
            true => self.send_writes(worker),
            false => Ok(()),
        }
    }

    fn worker_of(&self, key: &[u8]) -> usize {
        crc32c::crc32c(key) as usize % self.queues.len()
    }

    fn flush(&mut self) -> Result<()> {
        (0..self.queues.len()).try_for_each(|worker| self.send_writes(worker))
    }

    fn send_writes(&mut self, worker: usize) -> Result<()> {
        if self.writes[worker].is_empty() {
            return Ok(());
        }
        let empty = Vec::with_capacity(WRITES + WRITES / 8);
        let writes = std::mem::replace(&mut self.writes[worker], empty);
        self.send(worker, Job::Writes(writes))
    }

    fn send(&self, worker: usize, job: Job) -> Result<()> {
        // It has said what was wrong, and that counts.
        let gone = |_| Error::Refused(Status::Corrupt);
        self.queues[worker].send(job).map_err(gone)
    }
}

fn work(session: &mut Session, jobs: &Receiver<Job>, failure: &Failure) {
    for job in jobs {
        if let Err(error) = run(session, &job) {
            let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
            return;
        }
    }
}

fn run(session: &mut Session, job: &Job) -> Result<()> {
    match job {
        Job::Block(block) => load_block(session, block),
        Job::Writes(writes) => load(session, Entries::new(writes)).map(drop),
        Job::Large {
            key,
            kind,
            value,
            expires,
            ..
        } => session
            .set_typed(key, *kind, value, *expires)
            .map_err(Error::Refused),
    }
}

/// The entries of a block of a checkpoint.
pub(crate) fn load_block(session: &mut Session, block: &RawBlock) -> Result<()> {
    let Contents::Entries(entries, count) = block.contents()? else {
        return Err(block.corrupt("it has no entries").into());
    };
    let found = load(session, entries)?;
    match found == u64::from(count) {
        true => Ok(()),
        // They were written to an engine that is not in use.
        false => Err(block
            .corrupt(format!("it has {found} entries instead of {count}"))
            .into()),
    }
}

/// How many entries there were; those behind one that is not valid do not count.
fn load(session: &mut Session, entries: Entries<'_>) -> Result<u64> {
    let mut invalid = false;
    let writes = entries.map_while(|entry| {
        let write = entry.ok().as_ref().and_then(operation);
        invalid |= write.is_none();
        write
    });
    let count = session.load(writes).map_err(Error::Refused)?;
    match invalid {
        true => Err(Error::Refused(Status::Corrupt)),
        false => Ok(count),
    }
}

/// The write that an entry is; none, if it is that of a large value.
pub(crate) fn operation<'a>(entry: &Entry<'a>) -> Option<Operation<'a>> {
    match entry.value {
        Value::Deleted => Some(Operation::Delete(entry.key)),
        Value::Inline(value) => Some(Operation::SetEntry(entry.key, value, entry.expires)),
        Value::Typed(kind, value) => {
            let kind = value_type::in_engine(kind);
            Some(Operation::SetTyped(entry.key, kind, value, entry.expires))
        }
        Value::Large { .. } => None,
    }
}
