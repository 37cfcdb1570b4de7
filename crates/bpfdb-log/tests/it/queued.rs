//! Groups that are under way together: which of them count, whatever becomes of each.

use crate::it::common;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_log::simulation::{SimulatedDisk, SimulatedFile};
use bpfdb_log::{
    Batch, CompletedWrite, Directory, Disk, DiskFile, Follower, LogError, LogWriter, Options,
    QueuedWrite, Start, ThreadQueue, WriteQueue, check,
};
use common::{contents, count, folder, options, recover, reopen, set};

/// A queue whose writes begin and end when the test says so.
#[derive(Clone, Default)]
struct Manual(Arc<Mutex<Writes>>);

#[derive(Default)]
struct Writes {
    submitted: Vec<QueuedWrite<SimulatedFile>>,
    ended: VecDeque<CompletedWrite>,
    /// What comes of those that are waited for. Others end well.
    outcomes: BTreeMap<u64, Outcome>,
}

impl Manual {
    /// A write ends, well or not: nothing of it is on the disk then.
    fn end(&self, id: u64, result: io::Result<()>) {
        let mut writes = self.0.lock().expect("no panic");
        let place = writes.submitted.iter().position(|write| write.id == id);
        let write = writes.submitted.remove(place.expect("it was submitted"));
        let result = result.and_then(|()| write.file.write_flushed(write.offset, &write.bytes));
        let bytes = write.bytes;
        writes.ended.push_back(CompletedWrite { id, bytes, result });
    }

    /// What comes of a write if it is waited for.
    fn will_end(&self, id: u64, outcome: Outcome) {
        let mut writes = self.0.lock().expect("no panic");
        writes.outcomes.insert(id, outcome);
    }

    /// Writes that were submitted and have not ended.
    fn submitted(&self) -> Vec<u64> {
        let writes = self.0.lock().expect("no panic");
        writes.submitted.iter().map(|write| write.id).collect()
    }
}

impl WriteQueue<SimulatedFile> for Manual {
    fn submit(&mut self, write: QueuedWrite<SimulatedFile>) {
        self.0.lock().expect("no panic").submitted.push(write);
    }

    /// Whoever waits has the last write end first.
    fn completed(&mut self, waits: bool) -> Option<CompletedWrite> {
        let mut writes = self.0.lock().expect("no panic");
        let ended = writes.ended.pop_front();
        let last = writes.submitted.last().map(|write| write.id);
        let outcome = last.and_then(|last| writes.outcomes.get(&last).copied());
        drop(writes);
        match (ended, last) {
            (None, Some(last)) if waits => {
                self.end(last, outcome.unwrap_or(Outcome::Well).result());
                self.completed(false)
            }
            (ended, _) => ended,
        }
    }
}

fn group(records: &[u8], epoch: u64) -> Batch<'_> {
    Batch {
        epoch,
        positions: &[],
        wall: epoch,
        records,
        record_count: count(records),
    }
}

fn record(epoch: u64) -> Vec<u8> {
    set(epoch, b"key", &[epoch as u8; 300])
}

fn submit<D: Disk>(writer: &mut LogWriter<D>, epoch: u64) -> Result<Option<u64>, LogError> {
    writer.submit(group(&record(epoch), epoch))
}

/// A log with these epochs under way, whose batches have the same numbers.
fn under_way(disk: &SimulatedDisk, epochs: u64) -> (LogWriter<SimulatedDisk>, Manual) {
    let queue = Manual::default();
    let writer = reopen(disk, Start::NewRun, options(16, 6)).unwrap();
    let mut writer = writer.with_queue(Box::new(queue.clone()));
    for epoch in 1..=epochs {
        assert_eq!(submit(&mut writer, epoch).unwrap(), Some(epoch));
    }
    assert_eq!(writer.submitted_epoch(), epochs);
    (writer, queue)
}

/// Recovery finds these epochs after the next loss of power.
fn assert_recovers<D: Disk>(disk: &D, expected: impl IntoIterator<Item = u64>) {
    let (commits, _) = recover(disk, 0).unwrap();
    let found: Vec<_> = commits
        .iter()
        .map(|commit| (commit.timestamp, contents(disk, commit)))
        .collect();
    let write = |epoch: u64| (b"key".to_vec(), vec![epoch as u8; 300]);
    let expected = expected
        .into_iter()
        .map(|epoch| (epoch, vec![write(epoch)]));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn groups_count_in_their_order() {
    let disk = SimulatedDisk::new(1);
    let (mut writer, queue) = under_way(&disk, 4);
    for last in [3, 2] {
        queue.end(last, Ok(()));
        assert_eq!(writer.complete(false).unwrap(), None);
        assert_eq!(writer.durable().sequence, 0);
        assert_recovers(&disk.fork().lose_power(), []);
    }
    queue.end(1, Ok(()));
    let durable = writer.complete(false).unwrap().expect("three of them");
    assert_eq!((durable.sequence, durable.epoch), (3, 3));
    assert_eq!(writer.durable(), durable);
    assert!(writer.is_under_way());
    assert_recovers(&disk.fork().lose_power(), 1..=3);
    assert_eq!(writer.complete(false).unwrap(), None);
    let durable = writer.complete(true).unwrap().expect("the last one");
    assert_eq!(durable.epoch, 4);
    assert_eq!(writer.complete(true).unwrap(), None, "none is under way");
    writer.close().unwrap();
    let disk = disk.lose_power();
    assert!(recover(&disk, 0).unwrap().1.closed);
    assert_recovers(&disk, 1..=4);
}

/// What lies behind a hole was never durable, whoever goes on with the log.
#[test]
fn the_log_ends_before_the_first_hole() {
    for hole in 1..=3 {
        let disk = SimulatedDisk::new(2);
        let (writer, queue) = under_way(&disk, 4);
        for epoch in (1..=4).filter(|epoch| *epoch != hole) {
            queue.end(epoch, Ok(()));
        }
        drop(writer);
        let disk = match hole {
            2 => disk.kill(),
            _ => disk.lose_power(),
        };
        assert_recovers(&disk, 1..hole);
        let (_, end) = recover(&disk, 0).unwrap();
        assert!(end.torn_bytes > 0 && !end.closed);
        assert_eq!(check(&disk, 0).unwrap().fault, None);
        let mut writer = reopen(&disk, Start::NewRun, options(16, 6)).unwrap();
        writer.append(group(&record(9), 9)).unwrap();
        drop(writer);
        let disk = disk.lose_power();
        assert_recovers(&disk, (1..hole).chain([9]));
        assert_eq!(check(&disk, 0).unwrap().fault, None);
    }
}

/// What comes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Well,
    Full,
    Failed,
}

impl Outcome {
    fn result(self) -> io::Result<()> {
        match self {
            Self::Well => Ok(()),
            Self::Full => Err(io::ErrorKind::StorageFull.into()),
            Self::Failed => Err(io::Error::other("broken")),
        }
    }
}

/// What is known of three groups after the end of each: how many count, and how the log has ended.
#[derive(Default)]
struct Expected {
    ended: [bool; 3],
    counted: usize,
    end: Option<Outcome>,
}

impl Expected {
    fn note_end(&mut self, place: usize, outcomes: [Outcome; 3]) {
        self.ended[place] = true;
        // Whatever else has ended well: nothing counts after a failure.
        if outcomes[place] == Outcome::Failed {
            self.end = Some(Outcome::Failed);
            return;
        }
        let is_well = |n: &usize| self.ended[*n] && outcomes[*n] == Outcome::Well;
        self.counted = (0..3).take_while(is_well).count();
        if self.counted < 3 && self.ended[self.counted] && outcomes[self.counted] == Outcome::Full {
            // The others are waited for.
            let is_worse = outcomes.contains(&Outcome::Failed);
            self.end = Some(match is_worse {
                true => Outcome::Failed,
                false => Outcome::Full,
            });
        }
    }
}

/// Three groups: every order in which they end, all that may come of each, and a loss of power after
/// each end.
#[test]
fn every_order_and_every_outcome() {
    const ORDERS: [[u64; 3]; 6] = [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ];
    const OUTCOMES: [Outcome; 3] = [Outcome::Well, Outcome::Full, Outcome::Failed];
    for order in ORDERS {
        for number in 0..27 {
            let outcomes = [number / 9, number / 3 % 3, number % 3].map(|n| OUTCOMES[n]);
            end_in_order(order, outcomes);
        }
    }
}

fn end_in_order(order: [u64; 3], outcomes: [Outcome; 3]) {
    let what = || format!("{order:?} {outcomes:?}");
    let disk = SimulatedDisk::new(7);
    let (mut writer, queue) = under_way(&disk, 3);
    for (id, outcome) in (1..).zip(outcomes) {
        queue.will_end(id, outcome);
    }
    let mut expected = Expected::default();
    for id in order {
        let place = id as usize - 1;
        queue.end(id, outcomes[place].result());
        expected.note_end(place, outcomes);
        let error = loop {
            match writer.complete(false) {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let durable = expected.counted as u64;
        assert_eq!(writer.durable().epoch, durable, "{}", what());
        let survivor = disk.fork().lose_power();
        let (_, end) = recover(&survivor, 0).unwrap();
        assert_eq!(end.epoch, durable, "{}", what());
        assert_recovers(&survivor, 1..=durable);
        match (expected.end, &error) {
            (None, None) => continue,
            (Some(Outcome::Full), Some(LogError::Full { .. })) => {
                assert_eq!(queue.submitted(), [], "{}: all are waited for", what());
            }
            (Some(Outcome::Failed), Some(LogError::Failed(_))) => {}
            _ => panic!("{}: {error:?}", what()),
        }
        assert!(!writer.is_under_way(), "{}", what());
        return;
    }
    assert_eq!(outcomes, [Outcome::Well; 3]);
}

/// Those before it, too, unless they were counted before it was known.
#[test]
fn a_failure_is_the_end_of_all_that_were_under_way() {
    let disk = SimulatedDisk::new(3);
    let (mut writer, queue) = under_way(&disk, 5);
    queue.end(1, Ok(()));
    assert_eq!(writer.complete(false).unwrap().unwrap().epoch, 1);
    queue.end(2, Ok(()));
    queue.end(5, Ok(()));
    queue.end(4, Err(io::Error::other("broken")));
    let error = writer.complete(true).unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
    assert_eq!((writer.durable().epoch, writer.is_under_way()), (1, false));
    // It may take long, and nothing depends on it any more.
    assert_eq!(queue.submitted(), [3], "it is not waited for");
    queue.end(3, Ok(()));
    for again in [
        submit(&mut writer, 6).unwrap_err(),
        writer.complete(true).unwrap_err(),
        writer.append(group(&record(6), 6)).unwrap_err(),
    ] {
        assert_eq!(again.to_string(), error.to_string());
    }
    assert_eq!(writer.durable().epoch, 1);
    drop(writer);
    assert_recovers(&disk.lose_power(), 1..=3);
}

/// What is found while the others are waited for counts more than that there is no space.
#[test]
fn lack_of_space_does_not_hide_a_failure() {
    for is_late in [false, true] {
        let disk = SimulatedDisk::new(9);
        let (mut writer, queue) = under_way(&disk, 3);
        queue.will_end(3, Outcome::Failed);
        queue.end(1, Outcome::Full.result());
        if !is_late {
            queue.end(3, Outcome::Failed.result());
        }
        let error = writer.complete(false).unwrap_err();
        assert!(matches!(error, LogError::Failed(_)), "{error}");
        assert!(error.to_string().contains("broken"), "{error}");
        let again = writer.append(group(&record(4), 4)).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
    }
}

/// The page cache reports an error to one of the writes of an open file, whichever it is of.
#[test]
fn a_file_that_is_not_direct_has_no_groups_beside_each_other() {
    let disk = SimulatedDisk::new(10);
    disk.set_direct(false);
    let (mut writer, queue) = under_way(&disk, 0);
    assert_eq!(submit(&mut writer, 1).unwrap(), None);
    writer.append(group(&record(1), 1)).unwrap();
    // It ceases to be while some are under way: none counts before it is known what came of all.
    disk.set_direct(true);
    for epoch in 2..=4 {
        assert_eq!(submit(&mut writer, epoch).unwrap(), Some(epoch));
    }
    disk.set_direct(false);
    assert_eq!(submit(&mut writer, 5).unwrap(), None);
    queue.end(2, Ok(()));
    queue.end(4, Ok(()));
    assert_eq!(writer.complete(false).unwrap(), None, "one is under way");
    assert_eq!(writer.complete(true).unwrap().unwrap().epoch, 4);
    disk.set_direct(true);
    for epoch in 5..=6 {
        assert_eq!(submit(&mut writer, epoch).unwrap(), Some(epoch));
    }
    disk.set_direct(false);
    queue.end(5, Ok(()));
    queue.will_end(6, Outcome::Failed);
    let error = writer.complete(true).unwrap_err();
    assert!(matches!(error, LogError::Failed(_)), "{error}");
    assert_eq!(writer.durable().epoch, 4, "the fifth may be the one");
}

/// Whatever of them was written: the same commits are written again in their places.
#[test]
fn groups_that_found_no_space_are_written_again() {
    for together in [false, true] {
        let disk = SimulatedDisk::new(4);
        let (mut writer, queue) = under_way(&disk, 4);
        queue.end(1, Ok(()));
        queue.end(2, Err(io::ErrorKind::StorageFull.into()));
        queue.end(3, Ok(()));
        assert_eq!(writer.complete(false).unwrap().unwrap().epoch, 1);
        // The last one is waited for.
        let full = writer.complete(false).unwrap_err();
        assert!(full.is_lack_of_space(), "{full}");
        assert!(!writer.is_under_way() && queue.submitted().is_empty());
        assert_eq!((writer.durable().epoch, writer.submitted_epoch()), (1, 1));
        assert_recovers(&disk.fork().lose_power(), [1]);
        let groups = match together {
            true => vec![((2..=4).flat_map(record).collect(), 4)],
            false => (2..=4).map(|epoch| (record(epoch), epoch)).collect(),
        };
        for (records, epoch) in groups {
            let records: Vec<u8> = records;
            writer.append(group(&records, epoch)).unwrap();
        }
        assert!(submit(&mut writer, 5).unwrap().is_some());
        assert_eq!(writer.complete(true).unwrap().unwrap().epoch, 5);
        writer.close().unwrap();
        assert_recovers(&disk.lose_power(), 1..=5);
    }
}

/// What a reader would refuse is refused beside others, too, and what is not one batch here is left
/// to the caller.
#[test]
fn what_cannot_be_beside_others_is_not_submitted() {
    let disk = SimulatedDisk::new(5);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    assert_eq!(submit(&mut writer, 1).unwrap(), None, "there is no queue");
    let queue = Manual::default();
    writer = writer.with_queue(Box::new(queue));
    // A batch of two blocks at most, and a segment with room for three.
    let long = set(1, b"key", &[1; 9000]);
    assert_eq!(writer.submit(group(&long, 1)).unwrap(), None);
    for epoch in 1..=3 {
        assert_eq!(submit(&mut writer, epoch).unwrap(), Some(epoch));
    }
    assert_eq!(submit(&mut writer, 4).unwrap(), None, "the segment is full");
    let early = writer.append(group(&record(4), 4)).unwrap_err();
    assert!(matches!(early, LogError::Refused(_)), "{early}");
    while writer.complete(true).unwrap().is_some() {}
    writer.append(group(&record(4), 4)).unwrap();
    assert_eq!(writer.segment(), 2);
    assert_eq!(submit(&mut writer, 5).unwrap(), Some(5));
    for epoch in [4, 5] {
        let refused = writer.submit(group(&record(5), epoch)).unwrap_err();
        assert!(matches!(refused, LogError::Refused(_)), "{refused}");
    }
    let refused = writer.close().unwrap_err();
    assert!(matches!(refused, LogError::Refused(_)), "{refused}");
    assert_recovers(&disk.lose_power(), 1..=4);
}

/// Another process sees what something on the disk calls durable: nothing beside a hole.
#[test]
fn whoever_follows_sees_what_counts() {
    let disk = SimulatedDisk::new(8);
    let (mut writer, queue) = under_way(&disk, 3);
    let mut follower = Follower::new(disk.clone(), None, None).unwrap();
    let mut times = || -> Vec<u64> {
        let commits = std::iter::from_fn(|| follower.next_commit().unwrap());
        commits.map(|commit| commit.timestamp).collect()
    };
    queue.end(3, Ok(()));
    queue.end(2, Ok(()));
    assert_eq!(times(), []);
    queue.end(1, Ok(()));
    assert_eq!(times(), [], "they are durable, and nothing says so");
    assert_eq!(writer.complete(false).unwrap().unwrap().epoch, 3);
    writer.confirm(7).unwrap();
    assert_eq!(times(), [1, 2, 3]);
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn threads_write_at_once() {
    let disk = SimulatedDisk::new(6);
    let writer = reopen(&disk, Start::NewRun, options(16, 6)).unwrap();
    let mut writer = writer.with_queue(Box::new(ThreadQueue::new(3)));
    disk.hold(true);
    for epoch in 1..=5 {
        submit(&mut writer, epoch).unwrap().expect("it fits");
    }
    wait_until("three are written", || disk.waiting() == 3);
    assert_eq!(writer.complete(false).unwrap(), None);
    disk.hold(false);
    while writer.durable().epoch < 5 {
        // The end of each wakes the thread that has submitted it.
        thread::park_timeout(Duration::from_secs(60));
        writer.complete(false).unwrap();
    }
    disk.hold(true);
    submit(&mut writer, 6).unwrap().expect("it fits");
    wait_until("it is written", || disk.waiting() == 1);
    disk.hold(false);
    // Nothing is under way any more.
    drop(writer);
    assert_eq!(disk.waiting(), 0);
    assert_recovers(&disk.lose_power(), 1..=6);
}

#[test]
fn comes_back_from_a_real_disk() {
    let folder = folder();
    let disk = Directory::own(&folder.path().join("data")).unwrap();
    let writer = reopen(
        &disk,
        Start::NewRun,
        Options {
            spares: 2,
            ..options(64, 6)
        },
    )
    .unwrap();
    let mut writer = writer.with_queue(Box::new(ThreadQueue::new(4)));
    const EPOCHS: u64 = 500;
    // Those of a segment are as this one.
    let is_direct = disk.create("log/other").unwrap().is_direct();
    disk.remove("log/other").unwrap();
    let mut together = 0;
    for epoch in 1..=EPOCHS {
        if submit(&mut writer, epoch).unwrap().is_none() {
            while writer.complete(true).unwrap().is_some() {}
            writer.append(group(&record(epoch), epoch)).unwrap();
        }
        let before = writer.durable().epoch;
        let durable = writer.complete(epoch % 5 == 0).unwrap();
        together += u64::from(durable.is_some_and(|durable| durable.epoch > before + 1));
    }
    while writer.complete(true).unwrap().is_some() {}
    assert_eq!(together > 0, is_direct, "several are under way, or none");
    assert_eq!(writer.durable().epoch, EPOCHS);
    writer.close().unwrap();
    assert_recovers(&disk, 1..=EPOCHS);
}
