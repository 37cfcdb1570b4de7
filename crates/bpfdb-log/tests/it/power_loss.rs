//! A random engine, its log and its checkpoints on a disk that loses power, is killed, runs full and
//! fails, with groups one after the other and several under way.
//!
//! The oracle: of all commits that the engine ever made, recovery yields exactly those with a
//! timestamp up to the end of their run, in order; and no epoch that was called durable is behind
//! such an end. What the checkpoint has that counts is not in what the log yields, and nothing is in
//! neither. So nothing durable is lost, nothing else appears, and a commit that was dropped once
//! never comes back. `BPFDB_SEED=n` repeats one seed, `BPFDB_SEEDS=n` tries so many.

use crate::it::common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bpfdb_log::reader::read_control;
use bpfdb_log::simulation::{Fault, Operation, Random, SimulatedDisk, SimulatedQueue};
use bpfdb_log::{Batch, LogEnd, LogError, LogWriter, Options, Start};
use common::checkpoints_made::{Checkpoints, Truth};
use common::{Writes, contents, count, options, recover, seeds, set, set_large};

const RINGS: usize = 2;

/// A commit in a ring.
#[derive(Clone)]
struct Pending {
    timestamp: u64,
    records: Vec<u8>,
}

/// The memory of one run.
#[derive(Default)]
struct Run {
    rings: [Vec<Pending>; RINGS],
    /// Commits of each ring that were appended.
    appended: [usize; RINGS],
    /// The clock: commits get this timestamp or a later one.
    clock: u64,
}

/// A group that was submitted.
struct UnderWay {
    sequence: u64,
    epoch: u64,
    /// [`Run::appended`] before it.
    before: [usize; RINGS],
}

struct World {
    random: Random,
    disk: SimulatedDisk,
    options: Options,
    writer: Option<LogWriter<SimulatedDisk>>,
    run: Run,
    under_way: VecDeque<UnderWay>,
    truth: Truth,
    /// What was dropped, by contents.
    ghosts: BTreeSet<Writes>,
    /// Up to here the writer said that everything is durable.
    acknowledged: u64,
    checkpoints: Checkpoints,
    /// Segments in which commits that are not acknowledged may be, or parts of them.
    needed: u64,
    next_id: u64,
    statistics: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let segment = 4 + random.below(6);
        let batch = 1 + random.below(segment - 1);
        let mut world = Self {
            disk: SimulatedDisk::new(random.draw()),
            options: options(segment, batch.min(4)),
            random,
            writer: None,
            run: Run::default(),
            under_way: VecDeque::new(),
            truth: Truth::new(),
            ghosts: BTreeSet::new(),
            acknowledged: 0,
            checkpoints: Checkpoints::default(),
            needed: 1,
            next_id: 1,
            statistics: BTreeMap::new(),
        };
        world.start(Start::NewRun);
        world
    }

    fn note(&mut self, what: &'static str) {
        *self.statistics.entry(what).or_default() += 1;
    }

    /// Recovers and opens the log, which may be interrupted by further crashes.
    fn start(&mut self, start: Start) {
        let mut start = start;
        for attempt in 0.. {
            if attempt < 3 && self.random.once_in(4) {
                let operations = self.random.below(12);
                self.disk.stop_at(operations);
            }
            let end = self.recover(start);
            if end.torn_bytes > 0 {
                self.note("torn");
            }
            match LogWriter::open(self.disk.clone(), &end, start, 7, self.options) {
                Ok(writer) => {
                    self.checkpoints.settle(writer.disk());
                    let queue = SimulatedQueue::new(self.random.draw());
                    self.writer = Some(writer.with_queue(Box::new(queue)));
                    return self.begin(start, &end);
                }
                Err(_) if self.disk.is_stopped() && self.random.once_in(2) => {
                    self.note("killed while opening");
                    self.disk = self.disk.kill();
                }
                Err(_) if self.disk.is_stopped() => {
                    self.note("power lost while opening");
                    self.disk = self.disk.lose_power();
                    start = Start::NewRun;
                }
                Err(LogError::Full { .. } | LogError::Io { .. } | LogError::Failed(_)) => {
                    self.note("opening failed");
                    self.disk = self.disk.kill();
                }
                Err(error) => panic!("opening failed: {error}"),
            }
        }
    }

    fn begin(&mut self, start: Start, end: &LogEnd) {
        self.needed = self.needed.min(end.segment.map_or(1, |last| last.number));
        if start == Start::SameRun {
            assert!(end.epoch >= self.acknowledged);
            self.acknowledged = end.epoch;
            self.run.clock = self.run.clock.max(end.epoch + 1);
            let covered = end.positions.iter().map(|position| *position as usize);
            self.run.appended = [0; RINGS];
            for (appended, covered) in self.run.appended.iter_mut().zip(covered) {
                *appended = covered;
            }
            return;
        }
        self.acknowledged = end.epoch;
        self.run = Run {
            clock: end.greatest_timestamp + 1,
            ..Run::default()
        };
    }

    /// Recovers checkpoint and log and compares them with the truth.
    fn recover(&mut self, start: Start) -> LogEnd {
        let checkpoint = self.checkpoints.verify(&self.disk, &self.truth);
        let (commits, end) =
            recover(&self.disk, 0).unwrap_or_else(|error| panic!("recovery failed: {error}"));
        assert!(
            end.epoch >= self.acknowledged,
            "epoch {} was durable, but the log ends with {}",
            self.acknowledged,
            end.epoch
        );
        let found: Vec<_> = commits
            .iter()
            .map(|commit| (commit.timestamp, contents(&self.disk, commit)))
            .collect();
        let counts = |timestamp: u64| timestamp > checkpoint && timestamp <= end.epoch;
        let expected: Vec<_> = self
            .truth
            .iter()
            .filter(|(timestamp, _)| counts(*timestamp))
            .cloned()
            .collect();
        assert!(found.is_sorted_by_key(|(timestamp, _)| timestamp));
        let mut sorted = found;
        sorted.sort();
        assert_eq!(sorted, expected, "up to epoch {}", end.epoch);
        assert!(
            sorted
                .iter()
                .all(|(_, writes)| !self.ghosts.contains(writes))
        );
        if start == Start::NewRun {
            let lost = self.truth.split_off(&(end.epoch + 1, Vec::new()));
            let lost: Vec<_> = lost.into_iter().map(|(_, writes)| writes).collect();
            *self.statistics.entry("ghosts").or_default() += end.dropped;
            self.ghosts.extend(lost);
        }
        end
    }

    /// A commit with this timestamp, in one of the rings.
    fn commit(&mut self, timestamp: u64) {
        let id = self.next_id;
        self.next_id += 1;
        let key = format!("key {id}").into_bytes();
        let (records, value) = match self.random.below(8) {
            0 => {
                let mut value = vec![0; 1 + self.random.below(9000) as usize];
                self.random.fill(&mut value);
                (set_large(timestamp, &key, id, &value, 1500), value)
            }
            _ => {
                let mut value = vec![0; self.random.below(2500) as usize];
                self.random.fill(&mut value);
                (set(timestamp, &key, &value), value)
            }
        };
        self.truth.insert((timestamp, vec![(key, value)]));
        let ring = self.random.below(RINGS as u64) as usize;
        self.run.rings[ring].push(Pending { timestamp, records });
    }

    /// Closes an epoch, and appends or submits everything that is in the rings.
    fn append(&mut self) {
        let epoch = self.run.clock;
        for _ in 0..self.random.below(5) {
            self.commit(epoch);
        }
        self.run.clock += 1;
        for _ in 0..self.random.below(3) {
            let ahead = self.run.clock + self.random.below(2);
            self.commit(ahead);
            self.run.clock = ahead;
        }
        match self.random.once_in(2) {
            true => self.append_up_to(epoch),
            false => self.submit_up_to(epoch),
        }
    }

    /// What was not appended yet, and up to where the rings are then.
    fn group(&self) -> (Vec<u8>, [usize; RINGS]) {
        let mut records = Vec::new();
        for (ring, from) in self.run.rings.iter().zip(self.run.appended) {
            let new = ring[from..].iter();
            records.extend(new.flat_map(|pending| &pending.records).copied());
        }
        (records, [0, 1].map(|ring| self.run.rings[ring].len()))
    }

    fn append_up_to(&mut self, epoch: u64) {
        if !self.complete(true) {
            return;
        }
        let (records, lens) = self.group();
        let Some(writer) = &mut self.writer else {
            return;
        };
        let segment = writer.segment();
        let appended = writer.append(Batch {
            epoch,
            positions: &lens.map(|len| len as u64),
            wall: epoch,
            records: &records,
            record_count: count(&records),
        });
        match appended {
            Ok(durable) => {
                assert_eq!(durable.epoch, epoch);
                let control = read_control(&self.disk).unwrap().unwrap();
                assert_eq!(control.newest_segment, writer.segment());
                assert!(!control.closed && control.run == writer.run());
                self.acknowledged = epoch;
                let mut new = (0..RINGS).flat_map(|n| &self.run.rings[n][self.run.appended[n]..]);
                let is_ahead = new.any(|pending| pending.timestamp > epoch);
                self.needed = if is_ahead { segment } else { writer.segment() };
                self.run.appended = lens;
                self.note("appended");
            }
            Err(LogError::Full { .. }) => {
                self.note("full");
                self.needed = self.needed.min(segment);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn submit_up_to(&mut self, epoch: u64) {
        let (records, lens) = self.group();
        let Some(writer) = &mut self.writer else {
            return;
        };
        let submitted = writer.submit(Batch {
            epoch,
            positions: &lens.map(|len| len as u64),
            wall: epoch,
            records: &records,
            record_count: count(&records),
        });
        match submitted {
            Ok(Some(sequence)) => {
                self.under_way.push_back(UnderWay {
                    sequence,
                    epoch,
                    before: std::mem::replace(&mut self.run.appended, lens),
                });
                self.note("submitted");
                if self.random.once_in(3) {
                    self.complete(false);
                }
            }
            Ok(None) => self.append_up_to(epoch),
            Err(error) => self.fail(&error),
        }
    }

    /// Takes note of groups that are durable; of all of them, if it `waits`. `false`: the log has
    /// failed, and another one was begun.
    fn complete(&mut self, waits: bool) -> bool {
        while !self.under_way.is_empty()
            && let Some(writer) = &mut self.writer
        {
            match writer.complete(waits) {
                Ok(None) => return true,
                Ok(Some(durable)) => {
                    let is_durable = |group: &UnderWay| group.sequence <= durable.sequence;
                    let ended = self.under_way.iter().take_while(|group| is_durable(group));
                    let ended = ended.count();
                    let last = self.under_way.drain(..ended).next_back();
                    self.acknowledged = last.expect("more is durable").epoch;
                    assert_eq!(self.acknowledged, durable.epoch);
                    // What was ahead of an earlier epoch is acknowledged, too.
                    self.needed = writer.segment();
                    if ended > 1 {
                        self.note("completed together");
                    }
                }
                Err(LogError::Full { .. }) => {
                    self.needed = self.needed.min(writer.segment());
                    self.run.appended = self.under_way[0].before;
                    self.under_way.clear();
                    self.note("full under way");
                }
                Err(error) => {
                    self.fail(&error);
                    return false;
                }
            }
        }
        true
    }

    /// The log has failed, or everything has stopped.
    fn fail(&mut self, error: &LogError) {
        assert!(matches!(error, LogError::Failed(_)), "{error}");
        let what = match self.disk.is_stopped() {
            true => "stopped",
            false => "failed",
        };
        self.note(what);
        self.crash();
    }

    /// Any way to lose the process.
    fn crash(&mut self) {
        self.writer = None;
        if !self.under_way.is_empty() {
            self.note("groups interrupted");
        }
        self.under_way.clear();
        self.checkpoints.forget();
        let has_run = self.run.clock > 0;
        match self.random.below(3) {
            0 if has_run => {
                self.note("killed");
                self.disk = self.disk.kill();
                self.start(Start::SameRun);
            }
            1 => {
                self.note("engine lost");
                self.disk = self.disk.kill();
                self.start(Start::NewRun);
            }
            _ => {
                self.note("power lost");
                self.disk = self.disk.lose_power();
                self.start(Start::NewRun);
            }
        }
    }

    /// A step of a checkpoint.
    fn checkpoint(&mut self) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let first_segment = self.needed.min(writer.segment());
        let known = (&self.truth, self.acknowledged, first_segment);
        match self.checkpoints.advance(&mut self.random, writer, known) {
            Ok(what) => self.note(what),
            Err(LogError::Full { .. }) => self.note("full"),
            Err(LogError::Io { .. }) if !self.disk.is_stopped() => self.note("checkpoint failed"),
            Err(LogError::Failed(_)) if !self.disk.is_stopped() => {
                self.note("checkpoint failed");
                self.crash();
            }
            Err(LogError::Io { .. } | LogError::Failed(_)) => {
                self.note("stopped during a checkpoint");
                self.crash();
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn close(&mut self) {
        if !self.complete(true) {
            return;
        }
        let Some(writer) = self.writer.take() else {
            return;
        };
        let sequence = writer.durable().sequence;
        match writer.close() {
            Ok(()) => {
                self.note("closed");
                self.checkpoints.forget();
                self.disk = self.disk.lose_power();
                let (_, end) = recover(&self.disk, 0).unwrap();
                assert!(end.closed);
                assert_eq!((end.sequence, end.torn_bytes), (sequence, 0));
                self.start(Start::NewRun);
            }
            Err(LogError::Full { .. }) => self.crash(),
            Err(error) => self.fail(&error),
        }
    }

    fn prepare(&mut self) {
        let budget = self.random.below(30_000);
        if let Some(writer) = &mut self.writer {
            match writer.prepare(budget) {
                Ok(_) => {}
                Err(LogError::Full { .. }) => self.note("full"),
                Err(error) => self.fail(&error),
            }
        }
    }

    /// Something that is about to go wrong.
    fn arm(&mut self) {
        use Operation::{Allocate, Create, Flush, FlushFolder, Rename, Write};
        let random = &mut self.random;
        let pick = |random: &mut Random, from: &[Operation]| {
            from[random.below(from.len() as u64) as usize]
        };
        let nth = random.below(6);
        match random.below(7) {
            0 => {
                let operation = pick(random, &[Create, Allocate, Write, Rename]);
                self.disk.fail(operation, nth, Fault::Full);
            }
            1 => {
                let operation = pick(random, &[Write, Flush, FlushFolder]);
                self.disk.fail(operation, nth, Fault::Error);
            }
            2 => self.disk.fail(Write, nth, Fault::Short),
            3 => self.disk.fail(Write, nth, Fault::Interrupted),
            // Of one of the next groups, which perhaps are under way together.
            4 => {
                self.disk.fail(Write, nth % 3, Fault::Full);
                (0..3).for_each(|_| self.append());
            }
            _ => self.disk.stop_at(random.below(60)),
        }
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => self.crash(),
            1 => self.close(),
            2 | 3 => self.arm(),
            4..10 => self.checkpoint(),
            10 | 11 => self.prepare(),
            _ => self.append(),
        }
    }
}

/// Lives of so many seeds. In one of thirty, or more often, each thing happens that may go wrong.
fn lives(count: u64) {
    let mut statistics = BTreeMap::new();
    for seed in seeds(count) {
        let test = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..80 {
                world.step();
            }
            world.writer = None;
            world.disk = world.disk.lose_power();
            world.recover(Start::NewRun);
            world.statistics
        });
        let world = test.unwrap_or_else(|_| panic!("BPFDB_SEED={seed} fails"));
        for (what, count) in world {
            *statistics.entry(what).or_insert(0) += count;
        }
    }
    println!("{statistics:?}");
    if std::env::var("BPFDB_SEED").is_err() {
        let seen = |what| {
            statistics
                .get(what)
                .is_some_and(|times| *times > count / 30)
        };
        for what in [
            "appended",
            "submitted",
            "completed together",
            "groups interrupted",
            "full under way",
            "power lost",
            "killed",
            "ghosts",
            "checkpoint completed",
            "checkpoint installed",
            "checkpoint failed",
            "given up",
            "closed",
            "full",
            "torn",
        ] {
            assert!(seen(what), "{what} hardly happens: {statistics:?}");
        }
        assert!(seen("power lost while opening") && seen("killed while opening"));
        assert!(seen("failed") && seen("stopped") && seen("stopped during a checkpoint"));
    }
}

#[test]
fn nothing_durable_is_lost_and_nothing_else_appears() {
    lives(600);
}

#[test]
#[ignore = "long"]
fn soak_nothing_durable_is_lost() {
    lives(6000);
}
