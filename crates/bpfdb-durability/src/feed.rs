//! Takes records out of the rings, in the form of the files.

use std::thread;
use std::time::Duration;

use bpfdb::{LargeRef, Log, LogValue, LogWrite};
use bpfdb_log::record::{Entry, Part, Value, encode_commit, encode_part};

use crate::error::{Error, Result};

/// Bytes of records after which a part of a group is written, in order to give up room.
const PART_BYTES: usize = 4 << 20;
/// Looks at a record that a program is filling, one after the other, before the thread rests.
const SPINS_AWAKE: u32 = 200;
/// A program that does not seal for so long was interrupted: others may need this processor.
const REST: Duration = Duration::from_micros(20);
/// Looks in all, a minute's or more: no program runs so long, whatever has interrupted it.
const SPINS: u32 = 1_000_000;

/// The rings, and how far they were taken out.
#[derive(Debug)]
pub(crate) struct Feed {
    log: Log,
    /// For each ring, behind the last record that was taken.
    taken: Vec<u64>,
    /// For each ring, the end of the group that is being taken.
    ends: Vec<u64>,
    /// No record that was taken has a later timestamp.
    latest: u64,
    pub(crate) records: Vec<u8>,
    pub(crate) count: u32,
    /// Held by the records that were taken.
    large: Vec<LargeRef>,
}

impl Feed {
    /// `taken`: what the files have already, for each ring; empty: nothing. `latest`: no record
    /// of it has a later timestamp.
    pub(crate) fn new(log: Log, taken: &[u64], latest: u64) -> Self {
        // Room that was given up behind that had nothing but void records.
        let begin = |ring| {
            taken
                .get(ring)
                .copied()
                .unwrap_or(0)
                .max(log.given_up(ring))
        };
        let taken: Vec<u64> = (0..log.rings()).map(begin).collect();
        Self {
            ends: taken.clone(),
            taken,
            log,
            latest,
            records: Vec::new(),
            count: 0,
            large: Vec::new(),
        }
    }

    pub(crate) fn positions(&self) -> &[u64] {
        &self.taken
    }

    /// Closes an epoch: the group that is taken next has all its commits.
    pub(crate) fn begin_group(&mut self) -> u64 {
        let epoch = self.log.close_epoch();
        self.note_ends();
        epoch
    }

    /// What is reserved by now belongs to the group, be some of it later than its epoch.
    fn note_ends(&mut self) {
        for (ring, end) in self.ends.iter_mut().enumerate() {
            *end = self.log.reserved(ring);
        }
    }

    /// Was a commit taken that is later than this epoch? It was made beside the end of its group,
    /// and does not count before a batch says that a later epoch is complete.
    pub(crate) fn is_ahead_of(&self, epoch: u64) -> bool {
        self.latest > epoch
    }

    /// Takes some of the group; true: that was the rest of it.
    pub(crate) fn take(&mut self) -> Result<bool> {
        for ring in 0..self.taken.len() {
            while self.taken[ring] < self.ends[ring] {
                if self.records.len() >= PART_BYTES {
                    return Ok(false);
                }
                self.take_record(ring)?;
            }
        }
        Ok(true)
    }

    /// What was taken is durable, the log's last batch is `sequence`: its room is free.
    pub(crate) fn give_up(&mut self, sequence: u64) -> Result<()> {
        self.log.note_batch(sequence);
        for large in self.large.drain(..) {
            self.log.release(&large)?;
        }
        for (ring, &position) in self.taken.iter().enumerate() {
            self.log.give_up(ring, position);
        }
        self.records.clear();
        self.count = 0;
        Ok(())
    }

    fn take_record(&mut self, ring: usize) -> Result<()> {
        let position = self.taken[ring];
        let sealed = self.wait_for(ring, position)?;
        if let Some(stamp) = sealed.stamp {
            let writes: Vec<LogWrite<'_>> = self.log.writes(ring, position, sealed.bytes).collect();
            for write in &writes {
                if let LogValue::Large(large) = &write.value {
                    self.count += put_parts(&self.log, large, &mut self.records)?;
                    self.large.push(*large);
                }
            }
            let entries: Vec<Entry<'_>> = writes.iter().map(entry).collect();
            encode_commit(stamp, &entries, &mut self.records);
            self.latest = self.latest.max(stamp);
            self.count += 1;
        }
        self.taken[ring] += sealed.bytes;
        Ok(())
    }

    /// The record at a position that is reserved: a program that runs seals it.
    fn wait_for(&self, ring: usize, position: u64) -> Result<bpfdb::Sealed> {
        for spin in 0..SPINS {
            if let Some(sealed) = self.log.sealed(ring, position) {
                return Ok(sealed);
            }
            if spin >= SPINS_AWAKE {
                thread::sleep(REST);
            } else {
                std::hint::spin_loop();
            }
        }
        Err(Error::NotSealed { ring, position })
    }
}

/// A large value, in the parts in which it is read; how many.
fn put_parts(log: &Log, large: &LargeRef, records: &mut Vec<u8>) -> Result<u32> {
    let (mut offset, mut parts) = (0, 0);
    let mut bytes = Vec::new();
    while log.read_large(large, offset, &mut bytes)? > 0 {
        let part = Part {
            id: large.id,
            offset,
            bytes: &bytes,
        };
        encode_part(&part, records);
        offset += bytes.len() as u64;
        parts += 1;
        bytes.clear();
    }
    Ok(parts)
}

fn entry<'a>(write: &LogWrite<'a>) -> Entry<'a> {
    let value = match write.value {
        LogValue::Deleted => Value::Deleted,
        LogValue::Bytes(bytes) => Value::Inline(bytes),
        LogValue::Large(large) => Value::Large {
            id: large.id,
            len: large.bytes,
        },
    };
    Entry {
        key: write.key,
        value,
        expires: (write.expires != 0).then_some(write.expires),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between the end of the epoch and the look at the rings.
    #[test]
    fn a_commit_that_is_later_than_its_group_is_known() {
        let options = bpfdb::Options {
            memory_limit: 64 << 20,
            log_ring: 1 << 20,
            ..bpfdb::Options::default()
        };
        let engine = bpfdb::Engine::create(&options).expect("the engine starts");
        let mut session = engine.session().expect("session");
        let log = engine.log().expect("mapped").expect("there is a log");
        let mut feed = Feed::new(log, &[], 0);
        session.set(b"in time", b"1").expect("set");
        let first = feed.begin_group();
        assert!(feed.take().expect("taken"));
        assert!(!feed.is_ahead_of(first));
        feed.give_up(0).expect("written");

        let second = feed.log.close_epoch();
        session.set(b"late", b"2").expect("set");
        feed.note_ends();
        assert!(feed.take().expect("taken"));
        assert_eq!(feed.count, 1);
        assert!(feed.is_ahead_of(second));
        feed.give_up(0).expect("written");
        // The next group has nothing, and makes that commit durable all the same.
        let third = feed.begin_group();
        assert!(feed.take().expect("taken"));
        assert_eq!(feed.count, 0);
        assert!(!feed.is_ahead_of(third));
    }
}
