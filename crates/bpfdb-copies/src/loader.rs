//! Writes keys into an engine, many in one call.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Database, DatabaseOrder, Engine, Operation, Session, Status, ValueType, abi};

use crate::error::{Error, Result};
use crate::sink::{Key, Sink};
use crate::snapshot::Progress;

/// Keys in one call: few enough that their batch is soon done.
const KEYS: usize = 512;
/// Bytes of a request around key and value, at most.
const OVERHEAD: usize = size_of::<abi::bpfdb_request>() + 32;
const IO_SIZE: usize = abi::BPFDB_IO_SIZE as usize;
const VALUE_MAX: u64 = abi::BPFDB_VALUE_MAX as u64;
/// For how long a key is tried again that is locked, or for which memory is being
/// added, or the log has no room.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);
/// Keys that a scan asks for.
const SCANNED: usize = 512;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub written: u64,
    /// Keys that had expired, and were left out.
    pub expired: u64,
}

/// A key in `bytes`, with its value behind it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    start: usize,
    name: usize,
    value: usize,
    kind: ValueType,
    expires_at: Option<u64>,
}

/// Takes the keys of a file.
pub(crate) struct Loader<'a> {
    engine: &'a Engine,
    session: Session,
    order: DatabaseOrder,
    progress: Progress<'a>,
    /// Keys and values that wait.
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    /// Bytes of the value that are to come.
    left: u64,
    loaded: Loaded,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        mut session: Session,
        progress: Progress<'a>,
    ) -> Result<Self> {
        let order = DatabaseOrder::read(&mut session).map_err(Error::Snapshot)?;
        Ok(Self {
            engine,
            session,
            order,
            progress,
            bytes: Vec::new(),
            waiting: Vec::new(),
            left: 0,
            loaded: Loaded::default(),
        })
    }

    pub(crate) fn loaded(&self) -> Loaded {
        self.loaded
    }

    /// Writes what waits.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let bytes = std::mem::take(&mut self.bytes);
        let outcome = self.write(&waiting, &bytes);
        self.waiting = waiting;
        self.bytes = bytes;
        self.waiting.clear();
        self.bytes.clear();
        // After a large value.
        self.bytes.shrink_to(2 * IO_SIZE);
        outcome?;
        (self.progress)(self.loaded.written + self.loaded.expired)
    }

    fn write(&mut self, waiting: &[Waiting], bytes: &[u8]) -> Result<()> {
        let now = self.engine.now_ms();
        let is_over = |one: &&Waiting| one.expires_at.is_some_and(|time| time <= now);
        let (over, lasting): (Vec<&Waiting>, Vec<&Waiting>) = waiting.iter().partition(is_over);
        self.loaded.expired += over.len() as u64;
        if let [one] = lasting[..] {
            return self.write_alone(one.operation(bytes));
        }
        let operations: Vec<_> = lasting.iter().map(|one| one.operation(bytes)).collect();
        if operations.is_empty() {
            return Ok(());
        }
        let batch = self.session.prepare(&operations, 0)?;
        self.session.run(&batch)?;
        let failed: Vec<bool> = (0..batch.len())
            .map(|i| self.session.status_of(&batch, i).is_error())
            .collect();
        self.loaded.written += failed.iter().filter(|failed| !**failed).count() as u64;
        // As often as it takes, or until the error is one that stays.
        for (operation, _) in operations
            .into_iter()
            .zip(failed)
            .filter(|(_, failed)| *failed)
        {
            self.write_alone(operation)?;
        }
        Ok(())
    }

    fn write_alone(&mut self, operation: Operation<'_>) -> Result<()> {
        let Operation::SetTyped(name, kind, value, expires_at) = operation else {
            unreachable!("what waits is set");
        };
        let session = &mut self.session;
        patiently(name, || session.set_typed(name, kind, value, expires_at))?;
        self.loaded.written += 1;
        Ok(())
    }

    /// Must what waits be written before a value of this length is added?
    fn is_full(&self, name: usize, value: u64) -> bool {
        let bytes = self.bytes.len() + name + value as usize;
        let requests = self.waiting.len() + 1;
        requests > KEYS || value > VALUE_MAX || bytes + requests * OVERHEAD > IO_SIZE
    }

    fn complete(&mut self) -> Result<()> {
        let is_large = (self.waiting.last()).is_some_and(|one| one.value as u64 > VALUE_MAX);
        if is_large { self.finish() } else { Ok(()) }
    }
}

impl Waiting {
    fn operation<'b>(&self, bytes: &'b [u8]) -> Operation<'b> {
        let (name, rest) = bytes[self.start..].split_at(self.name);
        Operation::SetTyped(name, self.kind, &rest[..self.value], self.expires_at)
    }
}

impl Sink for Loader<'_> {
    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        let Some(name) = self.order.from_first(key.name) else {
            return Err(Error::Refused(
                "a key of a database that there is not".into(),
            ));
        };
        let key = &Key {
            name: &name,
            ..*key
        };
        if self.is_full(key.name.len(), key.len) && !self.waiting.is_empty() {
            self.finish()?;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key.name);
        self.bytes.reserve(key.len as usize);
        self.waiting.push(Waiting {
            start,
            name: key.name.len(),
            value: key.len as usize,
            kind: key.kind,
            expires_at: key.expires_at,
        });
        self.left = key.len;
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        self.left -= bytes.len() as u64;
        if self.left == 0 {
            self.complete()
        } else {
            Ok(())
        }
    }
}

/// Tries again while the error is one that passes.
fn patiently<T>(name: &[u8], mut try_it: impl FnMut() -> Result<T, Status>) -> Result<T> {
    let begin = Instant::now();
    loop {
        match try_it() {
            Ok(done) => return Ok(done),
            Err(status) if passes(status) && begin.elapsed() < PATIENCE => thread::sleep(PAUSE),
            Err(status) => {
                return Err(Error::Write {
                    key: name.escape_ascii().to_string(),
                    status,
                });
            }
        }
    }
}

fn passes(status: Status) -> bool {
    matches!(
        status,
        Status::Conflict
            | Status::VersionsFull
            | Status::MemoryPending
            | Status::Exhausted
            | Status::LogFull
            | Status::LogClosed
    )
}

/// What the engine has at this moment.
pub(crate) fn look(session: &mut Session) -> Result<Found> {
    session.begin_read_only().map_err(Error::Snapshot)?;
    let (mut cursor, mut found) = (0, Found::Nothing);
    loop {
        let next = session.scan_each(cursor, 1, |key| {
            if Database::split(key).is_some() {
                found = Found::Keys;
            } else if key == bpfdb::FUNCTIONS_KEY && found == Found::Nothing {
                found = Found::Functions;
            }
        });
        cursor = next.map_err(Error::Snapshot)?;
        if found == Found::Keys || cursor == 0 {
            break;
        }
    }
    session.commit().map_err(Error::Snapshot)?;
    Ok(found)
}

/// What a database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// And no keys.
    Functions,
    Keys,
}

/// Deletes every key that is there from now to the end. Ordered tables stay: their rows go with their index
/// only.
///
/// # Errors
/// [`Error::Flushing`] says how many were deleted.
pub(crate) fn flush(session: &mut Session, progress: Progress<'_>) -> Result<()> {
    let (mut cursor, mut deleted) = (0, 0);
    loop {
        let step = flush_some(session, cursor, progress);
        let (next, keys) = step.map_err(|cause| Error::Flushing {
            deleted,
            cause: Box::new(cause),
        })?;
        deleted += keys as u64;
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

/// Where the scan goes on, and how many keys it found.
fn flush_some(session: &mut Session, cursor: u64, progress: Progress<'_>) -> Result<(u64, usize)> {
    // Nothing is written yet.
    progress(0)?;
    let (next, mut keys) = session.scan(cursor, SCANNED).map_err(Error::Snapshot)?;
    // A running server knows which databases were exchanged, and goes by that.
    let order = DatabaseOrder::key();
    keys.retain(|key| *key != order && !bpfdb::is_of_ordered_table(key));
    delete(session, &keys)?;
    Ok((next, keys.len()))
}

fn delete(session: &mut Session, keys: &[Vec<u8>]) -> Result<()> {
    // As many as the session's buffer has room for, however long they are.
    for keys in keys.chunks(IO_SIZE / (OVERHEAD + crate::limits::KEY_MAX)) {
        let deletes: Vec<_> = keys.iter().map(|key| Operation::Delete(key)).collect();
        let batch = session.prepare(&deletes, 0)?;
        session.run(&batch)?;
        for (number, key) in keys.iter().enumerate() {
            if session.status_of(&batch, number).is_error() {
                patiently(key, || session.delete(key))?;
            }
        }
    }
    Ok(())
}
