//! Takes records out of the rings, in the form of the files.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb::{LargeRef, Log, LogHome, LogValue, LogWrite};
use bpfdb_log::record::{Entry, Part, Value, encode_commit, encode_part};

use crate::error::{Error, Result};
use crate::{home, value_type};

/// Bytes of records after which a part of a group is written, in order to give up room.
const PART_BYTES: usize = 4 << 20;
/// Looks at a record that a program is filling, one after the other, before the thread rests.
const SPINS_AWAKE: u32 = 200;
/// A program that does not seal for so long was interrupted: others may need this processor.
const REST: Duration = Duration::from_micros(20);
/// After so many looks, some seconds', it is reported.
const SPINS_TOLD: u32 = 50_000;
/// Looks after which the log is given up that is to end, some ten seconds'.
const SPINS_AT_END: u32 = 200_000;

/// The rings, and how far they were taken out.
#[derive(Debug)]
pub(crate) struct Feed {
    log: Log,
    /// For each ring, behind the last record that was taken.
    taken: Vec<u64>,
    /// For each ring, the end of the group that is being taken.
    ends: Vec<u64>,
    /// From what was taken to there.
    group_bytes: u64,
    /// No record that was taken has a later timestamp.
    latest: u64,
    pub(crate) records: Vec<u8>,
    pub(crate) count: u32,
    /// Held by the records that were taken.
    large: Vec<LargeRef>,
    /// For records, to be used again.
    memory: Vec<Vec<u8>>,
    begun: Option<Begun>,
}

/// What was taken for a group that is under way to the disk.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    records: Vec<u8>,
    count: u32,
    large: Vec<LargeRef>,
    /// For each ring, behind the last record of the group.
    positions: Vec<u64>,
}

impl Taken {
    /// Records, and their bytes.
    pub(crate) fn size(&self) -> (u32, usize) {
        (self.count, self.records.len())
    }
}

/// A record of which some large values were taken, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Begun {
    ring: usize,
    /// So many large values are whole.
    whole: usize,
    /// Bytes of the next one.
    bytes: u64,
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
            group_bytes: 0,
            taken,
            log,
            latest,
            records: Vec::new(),
            count: 0,
            large: Vec::new(),
            memory: Vec::new(),
            begun: None,
        }
    }

    /// The log is open, as this run: what the files have of the rings is durable. Before anything
    /// is taken.
    pub(crate) fn begin_run(&self, home: &LogHome) -> Result<()> {
        self.log.set_home(home);
        for (ring, &end) in self.taken.iter().enumerate() {
            release(&self.log, ring, end)?;
        }
        Ok(())
    }

    pub(crate) fn positions(&self) -> &[u64] {
        &self.taken
    }

    /// See [`home::is_unwritten`].
    pub(crate) fn is_unwritten(&self) -> bool {
        home::is_unwritten(&self.log)
    }

    /// Closes an epoch, and takes nothing.
    pub(crate) fn close_epoch(&self) -> u64 {
        self.log.close_epoch()
    }

    /// Closes an epoch: the group that is taken next has all its commits.
    pub(crate) fn begin_group(&mut self) -> u64 {
        let epoch = self.log.close_epoch();
        self.note_ends();
        epoch
    }

    /// What is reserved by now belongs to the group, be some of it later than its epoch.
    fn note_ends(&mut self) {
        self.group_bytes = 0;
        for (ring, end) in self.ends.iter_mut().enumerate() {
            *end = self.log.reserved(ring);
            self.group_bytes += *end - self.taken[ring];
        }
    }

    /// The part of a ring that the group takes, from 0 to 1: of the fullest.
    pub(crate) fn filled(&self) -> f64 {
        self.most() as f64 / self.log.ring_bytes() as f64
    }

    /// Bytes of the rings that the group takes. To be asked before the next one begins.
    pub(crate) fn group_bytes(&self) -> u64 {
        self.group_bytes
    }

    fn most(&self) -> u64 {
        let rings = self.ends.iter().zip(&self.taken);
        rings.map(|(end, taken)| end - taken).max().unwrap_or(0)
    }

    /// Was a commit taken that is later than this epoch? It was made beside the end of its group,
    /// and does not count before a batch says that a later epoch is complete.
    pub(crate) fn is_ahead_of(&self, epoch: u64) -> bool {
        self.latest > epoch
    }

    /// Takes some of the group; true: that was the rest of it. `stop`: the log is to end.
    ///
    /// # Errors
    /// [`Error::NotSealed`], when the log is to end; [`Error::NotHeld`].
    pub(crate) fn take(&mut self, stop: &AtomicBool) -> Result<bool> {
        for ring in 0..self.taken.len() {
            while self.taken[ring] < self.ends[ring] {
                if self.records.len() >= PART_BYTES || !self.take_record(ring, stop)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Commits up to this timestamp are durable: for other processes, and for programs.
    pub(crate) fn note_durable(&self, timestamp: u64) {
        self.log.note_durable(timestamp);
    }

    /// What was taken is durable, the log's last batch is `sequence`: its room is free.
    pub(crate) fn give_up(&mut self, sequence: u64) -> Result<()> {
        let taken = self.set_aside();
        self.give_up_taken(taken, sequence)
    }

    /// What was taken is on its way: what is taken from now on is of another group.
    pub(crate) fn set_aside(&mut self) -> Taken {
        Taken {
            records: std::mem::replace(&mut self.records, self.memory.pop().unwrap_or_default()),
            count: std::mem::take(&mut self.count),
            large: std::mem::take(&mut self.large),
            positions: self.taken.clone(),
        }
    }

    /// What was set aside is durable, and all that was before it; the log's last batch then is
    /// `sequence`: its room is free.
    pub(crate) fn give_up_taken(&mut self, mut taken: Taken, sequence: u64) -> Result<()> {
        self.log.note_batch(sequence);
        for large in taken.large.drain(..) {
            self.log.release(&large)?;
        }
        for (ring, &position) in taken.positions.iter().enumerate() {
            self.log.give_up(ring, position);
        }
        taken.records.clear();
        self.memory.push(taken.records);
        Ok(())
    }

    /// What was set aside is to be written once more, the earliest of it first: before what was
    /// taken since.
    pub(crate) fn take_back(&mut self, groups: impl DoubleEndedIterator<Item = Taken>) {
        for mut taken in groups.rev() {
            taken.records.append(&mut self.records);
            taken.large.append(&mut self.large);
            self.records = taken.records;
            self.large = taken.large;
            self.count += taken.count;
        }
    }

    /// False: only some of its large values, and the next call goes on. Its position is that of a
    /// record which was not taken, until all of it was.
    fn take_record(&mut self, ring: usize, stop: &AtomicBool) -> Result<bool> {
        let position = self.taken[ring];
        let sealed = self.wait_for(ring, position, stop)?;
        if let Some(stamp) = sealed.stamp {
            let large = large_values(&self.log, ring, position, sealed.bytes);
            if !self.take_large(ring, &large)? {
                return Ok(false);
            }
            self.large.extend(large);
            let writes = self.log.writes(ring, position, sealed.bytes);
            let entries: Result<Vec<Entry<'_>>> = writes.map(|write| entry(&write)).collect();
            let entries = entries?;
            encode_commit(stamp, &entries, &mut self.records);
            self.latest = self.latest.max(stamp);
            self.count += 1;
        }
        self.taken[ring] += sealed.bytes;
        Ok(true)
    }

    /// Takes the large values of a record, in the parts in which they are read. They may be as
    /// large as memory, and must not be there twice: so this ends with false when there is enough
    /// for a part of the group. What was begun of another ring's record is begun anew.
    fn take_large(&mut self, ring: usize, values: &[LargeRef]) -> Result<bool> {
        let begun = self.begun.take().filter(|begun| begun.ring == ring);
        let (whole, mut offset) = begun.map_or((0, 0), |begun| (begun.whole, begun.bytes));
        let mut bytes = Vec::new();
        let mut seen: HashSet<u64> = values[..whole].iter().map(|value| value.id).collect();
        for (n, value) in values.iter().enumerate().skip(whole) {
            // Several writes of a commit may share one value, whose parts are taken once.
            if !seen.insert(value.id) {
                continue;
            }
            while self.log.read_large(value, offset, &mut bytes)? > 0 {
                let (id, part) = (value.id, &bytes[..]);
                encode_part(
                    &Part {
                        id,
                        offset,
                        bytes: part,
                    },
                    &mut self.records,
                );
                self.count += 1;
                offset += bytes.len() as u64;
                bytes.clear();
                if self.records.len() >= PART_BYTES {
                    self.begun = Some(Begun {
                        ring,
                        whole: n,
                        bytes: offset,
                    });
                    return Ok(false);
                }
            }
            check_whole(value, offset)?;
            offset = 0;
        }
        Ok(true)
    }

    /// The record at a position that is reserved: a program that runs seals it. It may have been
    /// preempted, and get no processor for as long as others want them: that is no failure.
    fn wait_for(&self, ring: usize, position: u64, stop: &AtomicBool) -> Result<bpfdb::Sealed> {
        let (mut looks, mut looks_at_end) = (0_u32, 0);
        loop {
            if let Some(sealed) = self.log.sealed(ring, position) {
                return Ok(sealed);
            }
            looks = looks.saturating_add(1);
            if looks < SPINS_AWAKE {
                std::hint::spin_loop();
                continue;
            }
            if looks == SPINS_TOLD {
                tracing::warn!(
                    ring,
                    position,
                    "a program has begun a commit and not finished it: it was preempted, and the log waits for it"
                );
            }
            if stop.load(Ordering::Acquire) {
                looks_at_end += 1;
                if looks_at_end > SPINS_AT_END {
                    return Err(Error::NotSealed { ring, position });
                }
            }
            thread::sleep(REST);
        }
    }
}

/// The large values that a sealed record of so many bytes holds.
fn large_values(log: &Log, ring: usize, position: u64, bytes: u64) -> Vec<LargeRef> {
    let writes = log.writes(ring, position, bytes);
    let large = writes.filter_map(|write| match write.value {
        LogValue::Large(_, large) => Some(large),
        _ => None,
    });
    large.collect()
}

/// Recovery refuses a log with a commit of which a part is missing: so none is written.
fn check_whole(value: &LargeRef, taken: u64) -> Result<()> {
    match taken == value.bytes {
        true => Ok(()),
        false => Err(Error::NotHeld {
            id: value.id,
            bytes: value.bytes,
            taken,
        }),
    }
}

/// Gives back what the records before `end` hold, of which the room was not given up: an owner
/// that was killed in between has perhaps not done it. It is done once, by either of them, and there
/// is no way back: so these records must be durable.
fn release(log: &Log, ring: usize, end: u64) -> Result<()> {
    let mut position = log.given_up(ring);
    while position < end
        && let Some(sealed) = log.sealed(ring, position)
    {
        if sealed.stamp.is_some() {
            for large in large_values(log, ring, position, sealed.bytes) {
                log.release(&large)?;
            }
        }
        position += sealed.bytes;
    }
    Ok(())
}

fn entry<'a>(write: &LogWrite<'a>) -> Result<Entry<'a>> {
    let value = match write.value {
        LogValue::Deleted => Value::Deleted,
        LogValue::Bytes(bytes) => Value::Inline(bytes),
        LogValue::Invalid(form) => return Err(Error::Form(form)),
        LogValue::Typed(kind, bytes) => Value::Typed(value_type::in_log(kind)?, bytes),
        LogValue::Large(kind, large) => Value::Large {
            kind: value_type::in_log(kind)?,
            id: large.id,
            len: large.bytes,
        },
    };
    Ok(Entry {
        key: write.key,
        value,
        expires: (write.expires != 0).then_some(write.expires),
    })
}

#[cfg(test)]
mod tests {
    use bpfdb::{LogHome, PinnedLog};
    use bpfdb_log::simulation::SimulatedDisk;
    use bpfdb_log::{Batch, LogWriter, Recovery, Start};

    use super::*;
    use crate::{Lack, lack_of_files};

    /// No caller wants the log to end.
    static GOES_ON: AtomicBool = AtomicBool::new(false);

    fn engine() -> bpfdb::Engine {
        let options = bpfdb::Options {
            memory_limit: 128 << 20,
            log_ring: 1 << 20,
            ..bpfdb::Options::default()
        };
        bpfdb::Engine::create(&options).expect("the engine starts")
    }

    fn feed(engine: &bpfdb::Engine, taken: &[u64]) -> Feed {
        let log = engine.log().expect("mapped").expect("there is a log");
        Feed::new(log, taken, 0)
    }

    /// Between the end of the epoch and the look at the rings.
    #[test]
    fn a_commit_that_is_later_than_its_group_is_known() {
        let engine = engine();
        let mut session = engine.session().expect("session");
        let mut feed = feed(&engine, &[]);
        session.set(b"in time", b"1").expect("set");
        let first = feed.begin_group();
        assert!(feed.take(&GOES_ON).expect("taken"));
        assert!(!feed.is_ahead_of(first));
        feed.give_up(0).expect("written");

        let second = feed.log.close_epoch();
        session.set(b"late", b"2").expect("set");
        feed.note_ends();
        assert!(feed.take(&GOES_ON).expect("taken"));
        assert_eq!(feed.count, 1);
        assert!(feed.is_ahead_of(second));
        feed.give_up(0).expect("written");
        // The next group has nothing, and makes that commit durable all the same.
        let third = feed.begin_group();
        assert!(feed.take(&GOES_ON).expect("taken"));
        assert_eq!(feed.count, 0);
        assert!(!feed.is_ahead_of(third));
    }

    /// Groups that were on their way together, and found no space: nothing of them is lost, and
    /// their room is not free.
    #[test]
    fn what_was_set_aside_is_taken_back_in_order() {
        let engine = engine();
        let mut session = engine.session().expect("session");
        let mut feed = feed(&engine, &[]);
        let mut groups = Vec::new();
        for number in 0..3 {
            session.set(b"key", &[number]).expect("set");
            feed.begin_group();
            assert!(feed.take(&GOES_ON).expect("taken"));
            groups.push(feed.set_aside());
            assert_eq!((feed.count, feed.records.len()), (0, 0));
        }
        session.set(b"key", b"3").expect("set");
        feed.begin_group();
        assert!(feed.take(&GOES_ON).expect("taken"));
        let positions = feed.positions().to_vec();
        let first = groups.remove(0);
        let end = first.positions.clone();
        feed.give_up_taken(first, 1).expect("written");
        let given_up = |feed: &Feed| -> Vec<u64> {
            (0..feed.log.rings())
                .map(|ring| feed.log.given_up(ring))
                .collect()
        };
        assert_eq!(given_up(&feed), end);
        feed.take_back(groups.into_iter());
        assert_eq!((feed.count, feed.positions()), (3, &positions[..]));
        let records = bpfdb_log::record::Records::new(&feed.records);
        let stamps = records.map(|record| match record.expect("valid").1 {
            bpfdb_log::record::Record::Commit(commit) => commit.timestamp,
            other => panic!("{other:?}"),
        });
        let stamps: Vec<u64> = stamps.collect();
        assert!(stamps.is_sorted() && stamps.len() == 3, "{stamps:?}");
        feed.give_up(2).expect("written");
        assert_eq!(given_up(&feed), positions);
    }

    /// The owner was killed before the next group. The files have such a commit, and do not count it;
    /// recovery would drop it.
    #[test]
    fn a_commit_that_is_later_than_the_last_group_is_lacking() {
        let disk = SimulatedDisk::new(0);
        let end = Recovery::new(disk.clone(), 0).and_then(Recovery::finish);
        let options = bpfdb_log::Options::default();
        let end = end.expect("a new log");
        let writer = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options);
        let mut writer = writer.expect("opened");
        let engine = engine();
        let mut session = engine.session().expect("session");
        let mut feed = feed(&engine, &[]);
        let mut write = |feed: &mut Feed, epoch| {
            assert!(feed.take(&GOES_ON).expect("taken"));
            let batch = Batch {
                epoch,
                positions: feed.positions(),
                wall: 0,
                records: &feed.records,
                record_count: feed.count,
            };
            writer.append(batch).expect("written");
            feed.give_up(0).expect("written");
        };
        let lack = || {
            let last = Recovery::end_of(disk.clone()).expect("read").segment;
            let last = last.expect("a segment");
            let pinned = PinnedLog {
                home: LogHome {
                    log: last.log.0,
                    run: last.run,
                    run_id: last.run_id.0,
                },
                ends: vec![0],
                batch: 1,
            };
            lack_of_files(&pinned, &disk).expect("compared")
        };
        assert_eq!(lack(), Lack::Batches, "the engine knows of a batch");

        let epoch = feed.log.close_epoch();
        session.set(b"late", b"1").expect("set");
        feed.note_ends();
        write(&mut feed, epoch);
        assert_eq!(lack(), Lack::Commits);
        let epoch = feed.begin_group();
        write(&mut feed, epoch);
        assert_eq!(lack(), Lack::Nothing);
    }

    /// Slots in use, when what has no holder has been given back.
    fn in_use(engine: &bpfdb::Engine) -> u64 {
        let look = || {
            engine.sweep().expect("swept");
            thread::sleep(Duration::from_millis(50));
            engine.stats().expect("stats").slots_used()
        };
        let mut before = look();
        loop {
            match look() {
                now if now == before => return now,
                now => before = now,
            }
        }
    }

    /// The owner was killed when what it had taken was on the disk, and before it gave that up.
    #[test]
    fn a_large_value_is_given_back_whoever_was_killed() {
        let engine = engine();
        let empty = in_use(&engine);
        let mut session = engine.session().expect("session");
        let value = vec![7; 3 << 20];
        for number in 0..4 {
            session.set(b"large", &value).expect("set");
            session.set(b"short", &[number]).expect("set");
            // Void: it was given back already.
            assert!(!session.delete(b"not there").expect("deleted"));
        }
        session.delete(b"large").expect("deleted");
        session.delete(b"short").expect("deleted");
        let mut killed = feed(&engine, &[]);
        killed.begin_group();
        while !killed.take(&GOES_ON).expect("taken") {
            killed.records.clear();
        }
        let taken = killed.positions().to_vec();
        drop(killed);
        assert!(in_use(&engine) > empty, "held");
        let mut next = feed(&engine, &taken);
        assert!(in_use(&engine) > empty, "nothing says that it is durable");
        next.begin_run(&home()).expect("begun");
        next.begin_group();
        assert!(next.take(&GOES_ON).expect("taken"));
        assert_eq!(next.count, 0, "the files have it");
        next.give_up(1).expect("written");
        assert_eq!(in_use(&engine), empty);
    }

    fn home() -> LogHome {
        LogHome {
            log: [1; 16],
            run: 1,
            run_id: [2; 16],
        }
    }

    /// No commit is written without its large value, and no other one in its place.
    #[test]
    fn a_large_value_that_is_not_there_is_an_error() {
        for taken_before in [false, true] {
            let engine = engine();
            let mut session = engine.session().expect("session");
            session.set(b"large", &vec![7; 6 << 20]).expect("set");
            let mut feed = feed(&engine, &[]);
            feed.begin_group();
            if taken_before {
                assert!(!feed.take(&GOES_ON).expect("taken"), "there is more of it");
                feed.records.clear();
            }
            for ring in 0..feed.log.rings() {
                release(&feed.log, ring, feed.ends[ring]).expect("released");
            }
            let refused = feed.take(&GOES_ON);
            let is_told = matches!(refused, Err(Error::NotHeld { bytes, .. }) if bytes == 6 << 20);
            assert!(is_told, "{refused:?}");
        }
    }

    /// What a transaction has in large values may be as large as memory.
    #[test]
    fn a_large_value_is_taken_part_by_part() {
        let engine = engine();
        let mut session = engine.session().expect("session");
        let values: Vec<Vec<u8>> = [11_u8, 3, 9]
            .map(|size| {
                let bytes = 0..usize::from(size) << 20;
                bytes.map(|at| (at / 1000) as u8 ^ size).collect()
            })
            .into();
        session.begin().expect("begun");
        for (number, value) in values.iter().enumerate() {
            session.set(&[number as u8], value).expect("set");
        }
        session.commit().expect("committed");
        let mut feed = feed(&engine, &[]);
        feed.begin_group();
        let (mut found, mut parts, mut count) = (vec![Vec::new(); 3], 0, 0);
        let mut ids = Vec::new();
        loop {
            let before = feed.positions().to_vec();
            let is_all = feed.take(&GOES_ON).expect("taken");
            assert_eq!(feed.positions() == before, !is_all, "whole records only");
            assert!(feed.records.len() < PART_BYTES + (1 << 20));
            for record in bpfdb_log::record::Records::new(&feed.records) {
                count += 1;
                if let (_, bpfdb_log::record::Record::Part(part)) = record.expect("valid") {
                    if part.offset == 0 {
                        ids.push(part.id);
                    }
                    let value: &mut Vec<u8> = &mut found[ids.len() - 1];
                    assert_eq!(
                        (part.offset, part.id),
                        (value.len() as u64, ids[ids.len() - 1])
                    );
                    value.extend(part.bytes);
                }
            }
            assert_eq!(feed.count, std::mem::take(&mut count));
            feed.give_up(0).expect("written");
            parts += 1;
            if is_all {
                break;
            }
        }
        assert!(found == values);
        assert!(parts >= 5, "{parts}");
    }
}
