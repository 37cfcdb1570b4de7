//! Runs of random values are rewritten, by both ways, while values change, and while the disk fails.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bpfdb::{ColdPlace, ColdRead, ColdValues, Demoter, Demotion, Engine, Options, Session, Status};
use bpfdb_log::simulation::{Fault, Operation, Random, SimulatedDisk};
use bpfdb_log::{Directory, Disk, DiskFile};

use crate::compact::{CompactionError, Compactor, READ, Rewritten, give};
use crate::demoter::ByKeys;
use crate::runs::{Runs, run_name};
use crate::values::RunValues;
use crate::writer::{NewValue, RunWriter};

/// More bytes than all values have.
const RUN_SIZE: u64 = 64 << 20;
/// Longer than a part.
const LONG: usize = 3 << 20;

/// The reader of cold values: a server that begins anew on the same engine has another.
struct Values<D: Disk>(RwLock<Arc<RunValues<D>>>);

impl<D: Disk> std::fmt::Debug for Values<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}

impl<D: Disk> Values<D> {
    fn now(&self) -> Arc<RunValues<D>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<D> ColdValues for Values<D>
where
    D: Disk + Send + Sync + 'static,
    D::File: Send + Sync,
{
    fn fetch(&self, key: &[u8], len: u64, place: ColdPlace) -> Result<Vec<u8>, Status> {
        self.now().fetch(key, len, place)
    }

    fn begin(
        &self,
        key: &[u8],
        len: u64,
        place: ColdPlace,
        session: u32,
    ) -> Option<Arc<dyn ColdRead>> {
        self.now().begin(key, len, place, session)
    }

    fn admits(&self, key: &[u8], len: u64) -> bool {
        self.now().admits(key, len)
    }

    fn promoted(&self) {}

    fn wanted(&self, _key: &[u8]) {}
}

struct World<D: Disk> {
    engine: Engine,
    session: Session,
    demoter: Demoter,
    disk: D,
    runs: Arc<Runs<D>>,
    writer: RunWriter<D>,
    values: Arc<Values<D>>,
    /// What each key is to have.
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The run that has these values.
    run: u64,
}

fn values<D: Disk>(runs: &Arc<Runs<D>>) -> Arc<RunValues<D>> {
    Arc::new(RunValues::new(Arc::clone(runs), Arc::default()))
}

impl<D> World<D>
where
    D: Disk + Send + Sync + 'static,
    D::File: Send + Sync,
{
    fn new(disk: D) -> Self {
        let engine = Engine::create(&Options {
            memory_limit: 64 << 20,
            memory_ahead: 16 << 20,
            max_sessions: 8,
            ..Options::default()
        })
        .expect("an engine");
        let runs = Arc::new(Runs::open(disk.clone(), engine.identity()).expect("runs"));
        let values = Arc::new(Values(RwLock::new(values(&runs))));
        assert!(engine.set_cold_values(Arc::clone(&values) as Arc<dyn ColdValues>));
        Self {
            session: engine.session().expect("a session"),
            demoter: engine.demoter().expect("a demoter"),
            writer: RunWriter::new(Arc::clone(&runs), RUN_SIZE),
            engine,
            disk,
            runs,
            values,
            model: BTreeMap::new(),
            run: 0,
        }
    }

    fn empty(&mut self) {
        for key in std::mem::take(&mut self.model).into_keys() {
            self.session.delete(&key).expect("deleted");
        }
        self.settle();
        assert!(self.engine.run_uses().iter().all(|run| run.values == 0));
    }

    /// A server begins with the disk as it is.
    fn serve(&mut self, disk: D) {
        let runs = Runs::open(disk.clone(), self.engine.identity()).expect("runs");
        self.disk = disk;
        self.runs = Arc::new(runs);
        self.writer = RunWriter::new(Arc::clone(&self.runs), RUN_SIZE);
        *self.values.0.write().expect("no panic") = values(&self.runs);
    }

    fn set(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.session.set(&key, &value).expect("set");
        self.model.insert(key, value);
    }

    /// Values of the model become cold, all in one run, to which nothing is written then.
    fn all_go(&mut self) {
        let epoch = self.demoter.settle().expect("an epoch");
        let all: Vec<_> = self.model.iter().collect();
        for some in all.chunks(200) {
            let new = some.iter().map(|(key, value)| NewValue {
                key: key.to_vec(),
                kind: 0,
                value: value.to_vec(),
                timestamp: epoch,
            });
            let new: Vec<_> = new.collect();
            let uses = self.engine.run_uses();
            let places = self.writer.append(&new, &uses).expect("written");
            for (new, to) in new.iter().zip(places) {
                let head = self.session.head(&new.key).expect("read").expect("there");
                let id = match head.value {
                    Some(_) => 0,
                    // Of a large value.
                    None => self.large_id(&new.key),
                };
                let demotion = Demotion {
                    key: &new.key,
                    id,
                    epoch,
                    len: new.value.len() as u64,
                    to,
                };
                assert_eq!(self.demoter.demote(&demotion), Ok(true));
                self.run = to.run;
            }
        }
        self.settle();
        let file = self.disk.open(&run_name(self.run)).expect("opened");
        let size = file.expect("there").size().expect("a size");
        self.runs.closed(self.run, size);
        self.writer = RunWriter::new(Arc::clone(&self.runs), RUN_SIZE);
    }

    fn large_id(&self, key: &[u8]) -> u64 {
        let mut pass = self.engine.checkpoint_pass().expect("a pass");
        pass.begin(u64::MAX);
        while pass.step().expect("a step") {
            if let Some(found) = pass.others().iter().find(|other| other.key == key) {
                return found.id;
            }
        }
        panic!("it is no large value");
    }

    /// What versions have left is counted no more.
    fn settle(&mut self) {
        self.demoter.settle().expect("a grace period");
        self.demoter.reclaim().expect("given back");
    }

    fn named(&self, run: u64) -> u64 {
        let uses = self.engine.run_uses();
        uses[(run % uses.len() as u64) as usize].values
    }

    /// Reads all, and brings nothing back.
    fn check(&mut self) {
        for (key, value) in &self.model {
            self.session.begin_read_only().expect("begun");
            let found = self.session.get(key).expect("read");
            self.session.commit().expect("committed");
            assert!(found.as_ref() == Some(value), "{}", key.escape_ascii());
        }
    }

    fn compactor(&self) -> Compactor<D> {
        Compactor::new(&self.engine, Arc::clone(&self.runs))
    }

    /// All of the run.
    fn compact(&mut self, compactor: &mut Compactor<D>) -> Result<Rewritten, CompactionError> {
        let mut all = Rewritten::default();
        compactor.begin(self.run)?;
        while !all.is_over {
            let some = compactor.step(&mut self.writer, &mut self.demoter)?;
            all.moved += some.moved;
            all.bytes_read += some.bytes_read;
            all.is_over = some.is_over;
        }
        self.settle();
        Ok(all)
    }
}

fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

fn key_of(random: &mut Random, number: u64) -> Vec<u8> {
    let mut key = format!("key:{number}:").into_bytes();
    // In the cell, or in a slot of its own.
    let more = [0, 3, 30, 480][random.below(4) as usize];
    key.extend(vec![b'k'; more]);
    key
}

/// Of all lengths that a run may have; some are zeros, as what fills a batch up.
fn value_of(random: &mut Random) -> Vec<u8> {
    let len = match random.below(40) {
        0 => 33_000 + random.below(200_000),
        1..8 => 4000 + random.below(28_000),
        _ => 65 + random.below(2000),
    } as usize;
    match random.once_in(10) {
        true => vec![0; len],
        false => bytes(random, len),
    }
}

/// A run of random values, of which a part was overwritten, deleted, or has come back. How many are named by versions
/// still, and of these how many are too long for a part.
fn fill<D>(world: &mut World<D>, random: &mut Random, keys: u64) -> (u64, u64)
where
    D: Disk + Send + Sync + 'static,
    D::File: Send + Sync,
{
    for number in 0..keys {
        let key = key_of(random, number);
        let value = value_of(random);
        world.set(key, value);
    }
    world.set(b"long".to_vec(), bytes(random, LONG));
    world.set(b"long too".to_vec(), bytes(random, LONG));
    world.all_go();
    let all: Vec<_> = world.model.keys().cloned().collect();
    let (mut named, mut long) = (0, 0);
    for key in all {
        match random.below(6) {
            0 => {
                let value = value_of(random);
                world.set(key, value);
            }
            1 => {
                world.session.delete(&key).expect("deleted");
                world.model.remove(&key);
            }
            2 if world.model[&key].len() < 30_000 => {
                assert_eq!(
                    world.session.get(&key).as_ref(),
                    Ok(&Some(world.model[&key].clone()))
                );
            }
            _ => {
                named += 1;
                long += u64::from(world.model[&key].len() == LONG);
            }
        }
    }
    world.settle();
    assert_eq!(world.named(world.run), named);
    (named, long)
}

fn all_that_is_live_moves(seeds: std::ops::Range<u64>, keys: u64) {
    for seed in seeds {
        for read in [READ, 4096] {
            let folder = tempfile::tempdir().expect("a folder");
            let disk = Directory::own(folder.path()).expect("a directory");
            let (mut world, mut random) = (World::new(disk), Random::new(seed));
            let (named, long) = fill(&mut world, &mut random, keys);
            let mut compactor = world.compactor();
            compactor.set_read(read);
            let rewritten = world.compact(&mut compactor).expect("rewritten");
            assert_eq!(rewritten.moved, named - long, "{seed}");
            assert_eq!(world.named(world.run), long, "{seed}");
            world.check();
            rewrite_by_keys(&mut world);
        }
    }
}

/// The other way: it finds nothing but what was too long.
fn rewrite_by_keys(world: &mut World<Directory>) {
    let by_keys = ByKeys::new(&world.engine, Arc::clone(&world.runs), RUN_SIZE);
    by_keys
        .expect("made")
        .rewrite(world.run)
        .expect("rewritten");
    world.settle();
    assert_eq!(world.named(world.run), 0);
    world.check();
}

#[test]
fn what_is_live_moves_and_nothing_else() {
    all_that_is_live_moves(0..2, 2000);
}

#[test]
#[ignore = "minutes"]
fn soak_what_is_live_moves_and_nothing_else() {
    all_that_is_live_moves(2..40, 4000);
}

#[test]
fn one_run_is_read_after_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Directory::own(folder.path()).expect("a directory");
    let (mut world, mut random) = (World::new(disk), Random::new(7));
    let mut compactor = world.compactor();
    for _ in 0..4 {
        world.empty();
        let (named, long) = fill(&mut world, &mut random, 300);
        let rewritten = world.compact(&mut compactor).expect("rewritten");
        assert_eq!(rewritten.moved, named - long);
        world.check();
    }
}

/// Between the look and the swap.
#[test]
fn what_changes_meanwhile_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Directory::own(folder.path()).expect("a directory");
    let (mut world, mut random) = (World::new(disk), Random::new(3));
    for number in 0..600 {
        world.set(format!("{number}").into_bytes(), vec![number as u8; 500]);
    }
    world.all_go();
    let mut compactor = world.compactor();
    compactor.begin(world.run).expect("begun");
    let gathered = compactor.gather(&mut world.writer);
    assert_eq!(gathered.len(), 600);
    let mut changed = 0;
    let mut other = world.engine.session().expect("a session");
    other.begin().expect("begun");
    for number in 0..600 {
        let key = format!("{number}").into_bytes();
        changed += 1;
        match random.below(6) {
            0 => world.set(key, vec![9; 700]),
            // The same bytes are another value.
            1 => world.set(key, vec![number as u8; 500]),
            2 => {
                world.session.delete(&key).expect("deleted");
                world.model.remove(&key);
            }
            // It comes back.
            3 => assert!(world.session.get(&key).expect("read").is_some()),
            // A transaction has it locked.
            4 => assert!(other.get_for_update(&key).expect("read").is_some()),
            _ => changed -= 1,
        }
    }
    let rewritten = give(gathered, &mut world.writer, &mut world.demoter).expect("given");
    assert_eq!(rewritten.moved, 600 - changed);
    other.rollback().expect("rolled back");
    world.check();
}

#[test]
fn a_run_that_is_read_meanwhile_gives_right_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Directory::own(folder.path()).expect("a directory");
    let (mut world, mut random) = (World::new(disk), Random::new(4));
    fill(&mut world, &mut random, 1500);
    let (model, is_over) = (world.model.clone(), AtomicBool::new(false));
    let mut reader = world.engine.session().expect("a session");
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let mut rounds = 0;
            while !is_over.load(Ordering::Relaxed) || rounds == 0 {
                for (key, value) in &model {
                    reader.begin_read_only().expect("begun");
                    let found = reader.get(key);
                    reader.commit().expect("committed");
                    assert!(found.as_ref() == Ok(&Some(value.clone())), "{found:?}");
                }
                rounds += 1;
            }
        });
        let mut compactor = world.compactor();
        let compacted = world.compact(&mut compactor);
        // The file goes when nothing names it, which the long values do.
        let uses = world.engine.run_uses();
        let removed = world.runs.remove_unused(&uses);
        is_over.store(true, Ordering::Relaxed);
        read.join().expect("no wrong value");
        assert!(compacted.expect("rewritten").moved > 0);
        removed.expect("removed");
    });
    world.check();
}

/// Each flipped bit stays where it is, and is found by what reads the value.
#[test]
fn what_is_damaged_is_not_moved() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Directory::own(folder.path()).expect("a directory");
    let (mut world, mut random) = (World::new(disk), Random::new(5));
    for number in 0..200 {
        world.set(format!("{number}").into_bytes(), bytes(&mut random, 500));
    }
    world.all_go();
    let path = folder.path().join(run_name(world.run));
    let mut file = std::fs::read(&path).expect("read");
    let clean = file.clone();
    for _ in 0..40 {
        let at = 4096 + random.below(file.len() as u64 - 4096) as usize;
        file[at] ^= 1 << random.below(8);
    }
    std::fs::write(&path, &file).expect("written");
    let mut compactor = world.compactor();
    let rewritten = world.compact(&mut compactor).expect("rewritten");
    assert!((160..200).contains(&rewritten.moved), "{rewritten:?}");
    let mut wrong = 0;
    for (key, value) in &world.model {
        world.session.begin_read_only().expect("begun");
        match world.session.get(key) {
            Ok(found) => assert!(found.as_ref() == Some(value)),
            Err(status) => {
                assert_eq!(status, Status::TierCorrupt);
                wrong += 1;
            }
        }
        world.session.commit().expect("committed");
    }
    assert!(wrong <= 200 - rewritten.moved, "{wrong} {rewritten:?}");
    // What was overlooked is there when the bits are right again.
    std::fs::write(&path, &clean).expect("written");
    world.check();
    world.compact(&mut compactor).expect("rewritten");
    assert_eq!(world.named(world.run), 0);
    world.check();
}

#[test]
fn a_run_that_cannot_be_read_is_left_and_the_next_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Directory::own(folder.path()).expect("a directory");
    let (mut world, mut random) = (World::new(disk), Random::new(6));
    for number in 0..9000 {
        world.set(format!("{number}").into_bytes(), bytes(&mut random, 1000));
    }
    world.all_go();
    let path = folder.path().join(run_name(world.run));
    let clean = std::fs::read(&path).expect("read");
    let mut compactor = world.compactor();
    compactor.begin(world.run).expect("begun");
    let file = OpenOptions::new().write(true).open(&path).expect("opened");
    file.set_len(5 << 20).expect("cut");
    let step = compactor.step(&mut world.writer, &mut world.demoter);
    assert!(matches!(step, Err(CompactionError::Read(_))), "{step:?}");
    // What was read before has moved.
    world.settle();
    assert!((1..9000).contains(&world.named(world.run)));
    std::fs::write(&path, &clean).expect("written");
    world.check();
    world.compact(&mut compactor).expect("rewritten");
    assert_eq!(world.named(world.run), 0);
    world.check();
}

/// A server is killed in any operation of the disk, and another one goes on with its engine.
#[test]
fn a_server_that_is_killed_leaves_every_value_and_no_file_for_good() {
    let mut ends = 0;
    let mut world = World::new(SimulatedDisk::new(0));
    for nth in 0.. {
        // To make an engine takes longer.
        world.empty();
        world.serve(SimulatedDisk::new(nth));
        let mut random = Random::new(nth);
        // What is rewritten has several batches.
        for number in 0..60 {
            let key = format!("{number}").into_bytes();
            world.set(key, bytes(&mut random, 100_000 + (number as usize) * 2000));
        }
        world.all_go();
        world.disk.stop_at(nth);
        let mut compactor = world.compactor();
        let compacted = world.compact(&mut compactor);
        let is_over = !world.disk.is_stopped();
        assert_eq!(is_over, compacted.is_ok());
        drop(compactor);
        // The next server.
        let run = world.run;
        world.serve(world.disk.kill());
        world.check();
        world.runs.remove_foreign().expect("removed");
        let mut compactor = world.compactor();
        world.compact(&mut compactor).expect("rewritten");
        assert_eq!(world.named(run), 0);
        world.check();
        let uses = world.engine.run_uses();
        assert!(world.runs.remove_unused(&uses).expect("removed") > 0);
        world.check();
        // One is open.
        let names = world.disk.names();
        let runs = names.iter().filter(|name| name.contains("/run-"));
        let numbers = runs.map(|name| u64::from_str_radix(&name[name.len() - 16..], 16));
        let unnamed = numbers.filter(|number| world.named(number.clone().expect("a number")) == 0);
        assert!(unnamed.count() <= 1, "{names:?}");
        assert!(!names.contains(&run_name(run)));
        if is_over {
            ends += 1;
            if ends == 2 {
                break;
            }
        }
    }
}

#[test]
fn a_disk_that_fails_costs_no_value() {
    let mut world = World::new(SimulatedDisk::new(0));
    for operation in [
        Operation::Create,
        Operation::Allocate,
        Operation::Write,
        Operation::Flush,
        Operation::Rename,
    ] {
        for fault in [Fault::Error, Fault::Full] {
            for nth in 0..2 {
                world.empty();
                world.serve(SimulatedDisk::new(nth));
                let mut random = Random::new(nth);
                for number in 0..60 {
                    let key = format!("{number}").into_bytes();
                    world.set(key, bytes(&mut random, 100_000 + (number as usize) * 2000));
                }
                world.all_go();
                world.disk.fail(operation, nth, fault);
                let mut compactor = world.compactor();
                let first = world.compact(&mut compactor);
                world.check();
                if first.is_err() {
                    world.compact(&mut compactor).expect("rewritten");
                }
                world.check();
                assert_eq!(world.named(world.run), 0, "{operation:?} {fault:?} {nth}");
            }
        }
    }
}

#[test]
fn a_block_that_cannot_be_read_leaves_the_run_to_others() {
    let (mut world, mut random) = (World::new(SimulatedDisk::new(1)), Random::new(1));
    for number in 0..60 {
        let key = format!("{number}").into_bytes();
        world.set(key, bytes(&mut random, 100_000));
    }
    world.all_go();
    let name = run_name(world.run);
    world.disk.spoil(&name, 3 << 20);
    let mut compactor = world.compactor();
    let compacted = world.compact(&mut compactor);
    assert!(
        matches!(compacted, Err(CompactionError::Read(_))),
        "{compacted:?}"
    );
    let contents = world.disk.contents(&name).expect("there");
    world.disk.put(&name, &contents);
    world.serve(world.disk.clone());
    world.check();
    let mut compactor = world.compactor();
    world.compact(&mut compactor).expect("rewritten");
    assert_eq!(world.named(world.run), 0);
    world.check();
}

/// Its head does not end in the part, and what is in front of it are zeros.
#[test]
fn an_entry_behind_a_dead_one_at_the_end_of_a_part_moves() {
    const PART: usize = crate::abi::BPFDB_COMPACT_PART as usize;
    /// Of an entry with a key of one byte: before its value, and all of one with 3,000 bytes.
    const HEAD: usize = 49;
    const DEAD: usize = 3056;
    const FIRST: usize = 1_000_000;
    let mut world = World::new(SimulatedDisk::new(2));
    for before in [16, 32] {
        world.empty();
        world.serve(SimulatedDisk::new(3));
        let second = PART - before - FIRST - DEAD;
        for (key, value) in [
            (b"a", vec![1; FIRST - HEAD]),
            (b"b", vec![2; second - HEAD]),
            (b"e", vec![0; 3000]),
            (b"n", vec![3; 500]),
            (b"z", vec![4; 100_000]),
        ] {
            world.set(key.to_vec(), value);
        }
        world.all_go();
        world.set(b"e".to_vec(), vec![5; 70]);
        let mut compactor = world.compactor();
        let rewritten = world.compact(&mut compactor).expect("rewritten");
        assert_eq!(rewritten.moved, 4, "{before}");
        assert_eq!(world.named(world.run), 0, "{before}");
        world.check();
    }
}
