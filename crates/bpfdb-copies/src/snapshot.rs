//! All keys and values of an engine, as they were at one moment.
//!
//! A read-only transaction sees one moment, and costs writers little (decision 13). SCAN gives
//! its keys; they are read in batches.
//!
//! Invariants
//!  1. Each key is given once. SCAN gives a key twice if two index pages are merged under it:
//!     `seen` has the keys that may come again (see `bpfdb::scan_region`).
//!  2. What is given is what the snapshot sees; if the engine ends it, the next read fails, and
//!     so does the copy. It is never given in part as if it were whole.
//!  3. A value that is not large is read at once, as a collection always is; a large string in parts, by the same snapshot,
//!     in which it does not change.
//!  4. The pages of large collections are no keys: their elements are given with the head. Nor are rows of
//!     ordered tables, and the nodes of their indexes: no session writes those one by one.

use std::collections::HashSet;
use std::ops::Range;

use bpfdb::{DatabaseOrder, Engine, Entry, Operation, Session, Status, ValueType, abi};

use crate::collection::content_of_key;
use crate::error::{Error, Result};
use crate::header::Header;
use crate::large;
use crate::limits::TIME_MAX;
use crate::sink::{Key, Sink};

/// Keys that a step of the scan asks for.
const KEYS: usize = 2048;
/// Bytes of a large value that are read at once.
const PART: u64 = 1 << 20;
/// Room for a value at first, bytes, and at most: longer ones are read one by one.
const ROOM_MIN: usize = 64;
const ROOM_MAX: usize = 8192;
/// Bytes of a request around key and value, at most: head, and both rounded up.
const OVERHEAD: usize = size_of::<abi::bpfdb_request>() + 32;
const IO_SIZE: usize = abi::BPFDB_IO_SIZE as usize;
const BATCH_MAX: usize = abi::BPFDB_BATCH_MAX as usize;

/// Called now and then with how many keys were given. An error ends it.
pub type Progress<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

/// A moment, as long as this is there.
#[derive(Debug)]
pub struct Snapshot {
    session: Session,
    header: Header,
    /// Copies have the databases by the numbers that clients know.
    order: DatabaseOrder,
    /// Room that a value gets in a batch, bytes.
    room: usize,
}

/// Keys, one behind the other.
#[derive(Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Invariant 1.
#[derive(Debug, Default)]
struct Seen {
    /// By the step that runs.
    now: HashSet<Box<[u8]>>,
    /// By steps before, in the region where that one began.
    before: HashSet<Box<[u8]>>,
    region: u64,
}

impl Seen {
    /// A step is over; the next one begins here.
    fn begin(&mut self, cursor: u64) {
        let region = bpfdb::scan_region(cursor);
        if region != self.region {
            // Of these none comes again; of the last step's, those may that lie in the region.
            self.before.clear();
        }
        self.region = region;
        self.before.extend(self.now.drain());
    }

    fn is_new(&mut self, key: &[u8]) -> bool {
        !self.before.contains(key) && !self.now.contains(key) && self.now.insert(key.into())
    }
}

impl Snapshot {
    /// Takes it. The engine may be this process's, or [attached](Engine::attach).
    pub fn take(engine: &Engine) -> Result<Self> {
        let stats = engine.stats()?;
        let ordered = abi::BPFDB_KEYSPACE_ORDERED..=abi::BPFDB_KEYSPACE_NODES;
        let left_out: u64 = ordered.map(|of| stats.keyspaces[of as usize]).sum();
        let mut session = engine.session()?;
        session.begin_read_only().map_err(Error::Snapshot)?;
        let order = DatabaseOrder::read(&mut session).map_err(Error::Snapshot)?;
        let header = Header {
            time: engine.now_ms(),
            timestamp: session.snapshot(),
            keys: stats.records.saturating_sub(left_out),
            expiring: stats.expiring,
        };
        Ok(Self {
            session,
            header,
            order,
            room: ROOM_MIN,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Gives everything to `sink`, and ends the snapshot: how many keys there were.
    pub fn copy_to(mut self, sink: &mut dyn Sink, progress: Progress<'_>) -> Result<u64> {
        let (mut keys, mut seen) = (Keys::default(), Seen::default());
        let (mut cursor, mut given) = (0, 0);
        let order_key = DatabaseOrder::key();
        loop {
            keys.clear();
            let next = self
                .session
                .scan_each(cursor, KEYS, |key| {
                    let is_key = key != order_key
                        && !large::is_page(key)
                        && !bpfdb::is_of_ordered_table(key);
                    if is_key && seen.is_new(key) {
                        keys.push(key);
                    }
                })
                .map_err(Error::Snapshot)?;
            given = self.give(&keys, given, sink, progress)?;
            progress(given)?;
            if next == 0 {
                break;
            }
            seen.begin(next);
            cursor = next;
        }
        self.session.commit().map_err(Error::Snapshot)?;
        Ok(given)
    }

    /// `given` keys were before these; how many there are then. It may be stopped after each MiB.
    fn give(
        &mut self,
        keys: &Keys,
        mut given: u64,
        sink: &mut dyn Sink,
        progress: Progress<'_>,
    ) -> Result<u64> {
        let mut next = 0;
        let mut told = Told {
            sink,
            progress,
            order: self.order,
            given,
            bytes: 0,
        };
        while next < keys.len() {
            let range = self.batch_from(keys, next);
            next = range.end;
            given += self.give_batch(keys, range, &mut told)?;
            told.given = given;
        }
        Ok(given)
    }

    /// As many keys as the session's buffer has room for, with their values.
    fn batch_from(&self, keys: &Keys, first: usize) -> Range<usize> {
        let (mut end, mut bytes) = (first, 0);
        while end < keys.len() && end - first < BATCH_MAX {
            bytes += OVERHEAD + keys.get(end).len() + self.room;
            if bytes > IO_SIZE && end > first {
                break;
            }
            end += 1;
        }
        first..end
    }

    fn give_batch(&mut self, keys: &Keys, range: Range<usize>, sink: &mut dyn Sink) -> Result<u64> {
        let reads: Vec<Operation<'_>> = range
            .clone()
            .map(|number| Operation::GetAny(keys.get(number)))
            .collect();
        let batch = self.session.prepare(&reads, self.room)?;
        self.session.run(&batch)?;
        let found: Vec<Found> = (0..batch.len())
            .map(|i| Found {
                is_large: self.session.status_of(&batch, i) == Status::FoundLarge,
                kind: self.session.type_of(&batch, i),
                entry: self.session.entry_of(&batch, i),
            })
            .collect();
        let mut given = 0;
        for (found, number) in found.into_iter().zip(range) {
            let name = keys.get(number);
            given += u64::from(match found.entry {
                Ok(None) => false,
                Ok(Some(entry)) => {
                    let entry = large::whole(&mut self.session, found.kind, entry)?;
                    give_entry(name, found.kind, &entry, sink)?;
                    true
                }
                // Too long for its room, or it could not be read beside others.
                Err(_) => self.give_alone(name, !found.is_large, sink)?,
            });
        }
        Ok(given)
    }

    /// False: there is no such key.
    fn give_alone(&mut self, name: &[u8], adapts: bool, sink: &mut dyn Sink) -> Result<bool> {
        let Some(head) = self.session.head(name).map_err(Error::Snapshot)? else {
            return Ok(false);
        };
        let kind = head.value_type;
        content_of_key(name, kind)?;
        if kind != ValueType::STRING && head.value.is_none() {
            return self.give_large_collection(name, kind, sink);
        }
        if kind != ValueType::STRING
            && let Some(value) = head.value
        {
            let expires_at = head.expires_at;
            let entry = Entry { value, expires_at };
            let entry = large::whole(&mut self.session, kind, entry)?;
            give_entry(name, kind, &entry, sink)?;
            return Ok(true);
        }
        let key = Key {
            name,
            kind,
            len: head.len,
            expires_at: time_of(head.expires_at),
        };
        sink.key(&key)?;
        if let Some(value) = head.value {
            if adapts && value.len() <= ROOM_MAX {
                self.room = self.room.max(value.len().next_power_of_two());
            }
            if !value.is_empty() {
                sink.part(&value)?;
            }
            return Ok(true);
        }
        self.give_parts(name, head.len, sink)?;
        Ok(true)
    }

    /// Whole: no form of a copy could do with a part of it.
    fn give_large_collection(
        &mut self,
        name: &[u8],
        kind: ValueType,
        sink: &mut dyn Sink,
    ) -> Result<bool> {
        let entry = self
            .session
            .entry_of_any_type(name)
            .map_err(Error::Snapshot)?;
        // A snapshot's value does not go away.
        let entry = entry.ok_or(Error::Snapshot(Status::Corrupt))?;
        give_entry(name, kind, &entry, sink)?;
        Ok(true)
    }

    fn give_parts(&mut self, name: &[u8], len: u64, sink: &mut dyn Sink) -> Result<()> {
        let mut at = 0;
        while at < len {
            let end = (at + PART).min(len);
            let part = self.session.get_range(name, |_| at..end);
            let part = part.map_err(Error::Snapshot)?.unwrap_or_default();
            if part.len() as u64 != end - at {
                return Err(Error::Snapshot(Status::Corrupt));
            }
            sink.part(&part)?;
            at = end;
        }
        Ok(())
    }
}

/// What a batch found of a key.
#[derive(Debug)]
struct Found {
    entry: Result<Option<Entry>, Status>,
    kind: ValueType,
    is_large: bool,
}

/// Tells after each MiB of values how many keys were before.
struct Told<'a> {
    sink: &'a mut dyn Sink,
    progress: Progress<'a>,
    order: DatabaseOrder,
    given: u64,
    /// Since the last report.
    bytes: usize,
}

impl Sink for Told<'_> {
    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        let name = self.order.to_first(key.name);
        let name = name.ok_or(Error::Snapshot(Status::Corrupt))?;
        self.sink.key(&Key {
            name: &name,
            ..*key
        })
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        const BYTES: usize = 1 << 20;
        self.sink.part(bytes)?;
        self.bytes += bytes.len();
        if self.bytes < BYTES {
            return Ok(());
        }
        self.bytes = 0;
        (self.progress)(self.given)
    }
}

/// An embedding program may have set a time that no client can.
fn time_of(expires_at: Option<u64>) -> Option<u64> {
    expires_at.map(|time| time.min(TIME_MAX))
}

fn give_entry(name: &[u8], kind: ValueType, entry: &Entry, sink: &mut dyn Sink) -> Result<()> {
    content_of_key(name, kind)?;
    sink.key(&Key {
        name,
        kind,
        len: entry.value.len() as u64,
        expires_at: time_of(entry.expires_at),
    })?;
    if entry.value.is_empty() {
        return Ok(());
    }
    sink.part(&entry.value)
}

#[cfg(test)]
mod tests {
    use super::Seen;
    use bpfdb::abi::BPFDB_DIRECTORY_BITS_MAX;

    /// A cursor in a region.
    fn cursor(region: u64, inside: u64) -> u64 {
        region << BPFDB_DIRECTORY_BITS_MAX | inside
    }

    #[test]
    fn a_key_that_comes_again_is_found_out() {
        let mut seen = Seen::default();
        assert!(seen.is_new(b"a"));
        assert!(!seen.is_new(b"a"), "in the same step");
        seen.begin(cursor(0, 5));
        assert!(!seen.is_new(b"a"), "in the next step");
        seen.begin(cursor(0, 9));
        assert!(!seen.is_new(b"a"), "later in the same region");
        assert!(seen.is_new(b"b"));
        seen.begin(cursor(3, 1));
        assert!(!seen.is_new(b"b"), "of the step that reached the region");
    }

    #[test]
    fn what_is_behind_takes_no_memory() {
        let mut seen = Seen::default();
        for region in 0..100_u64 {
            assert!(seen.is_new(&region.to_le_bytes()));
            seen.begin(cursor(region + 1, 0));
            assert!(seen.before.len() <= 1);
        }
    }
}
