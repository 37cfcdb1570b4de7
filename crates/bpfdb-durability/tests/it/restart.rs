//! An owner comes back to an engine that has its data still.

use crate::it::common;

use std::time::{Duration, Instant};

use bpfdb::{Engine, Log, Session, Status};
use bpfdb_durability::{Durability, Error, State};
use bpfdb_log::Disk;
use bpfdb_log::reader::{Item, LogReader, read_control};
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use common::{assert_recovers, contents, quick, random, seeds, start, write};

fn settle(engine: &Engine, durability: &Durability) {
    durability.settle(engine.now()).expect("the disk is well");
}

/// Two copies of a directory go on, each with a run of the same number in the same log. The memory
/// of one is not taken for that of the other.
#[test]
fn a_run_of_another_copy_is_refused() {
    let original = SimulatedDisk::new(4);
    drop(Durability::start(&common::engine(), original.clone(), quick()).expect("started"));
    let copy = original.fork();
    // Machines do not draw the same bits.
    copy.random().expect("drawn");

    let (ours, theirs) = (common::engine(), common::engine());
    for (engine, disk, count) in [(&ours, &original, 2), (&theirs, &copy, 20)] {
        let (durability, _) = Durability::start(engine, disk.clone(), quick()).expect("recovered");
        let mut session = engine.session().expect("session");
        for number in 0..count {
            // Ours has more in the rings, so that theirs is no later copy by that.
            let value = vec![0; if count == 2 { 30_000 } else { 10 }];
            session.set(&[number], &value).expect("set");
            settle(engine, &durability);
        }
    }
    let refused = Durability::start(&ours, copy.clone(), quick());
    let Err(Error::Stranger(why)) = &refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("another copy"), "{why}");
    drop(Durability::start(&ours, original, quick()).expect("its own goes on"));
    drop(Durability::start(&theirs, copy, quick()).expect("its own goes on"));
}

fn write_some(session: &mut Session, random: &mut impl FnMut(usize) -> usize, count: usize) {
    for _ in 0..count {
        match write(session, random) {
            Ok(()) | Err(Status::Conflict | Status::LogFull | Status::LogClosed) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn await_failure(durability: &Durability) {
    let begun = Instant::now();
    while !matches!(durability.state(), State::Failed(_)) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            durability.state()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A flush fails, and the disk has lost what it was to make durable. The next owner of the same
/// engine goes on with the same log: what is not known to be durable it writes again. So everything
/// is there that was committed before and after, when the machine loses power then.
#[test]
fn the_next_owner_makes_good_a_flush_that_failed() {
    the_next_owner_makes_good(seeds(2));
}

#[test]
#[ignore = "long: make soak"]
fn soak_the_next_owner_makes_good_a_flush_that_failed() {
    the_next_owner_makes_good(seeds(30));
}

fn the_next_owner_makes_good(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let disk = SimulatedDisk::new(seed);
        let engine = common::engine();
        let mut random = random(seed);
        let (first, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
        let mut session = engine.session().expect("session");
        write_some(&mut session, &mut random, 100);
        settle(&engine, &first);
        disk.fail(Operation::Flush, seed % 3, Fault::Error);
        let begun = Instant::now();
        while !matches!(first.state(), State::Failed(_)) {
            write_some(&mut session, &mut random, 10);
            assert!(begun.elapsed() < Duration::from_secs(10), "it did not fail");
        }
        await_failure(&first);
        // Nothing is acknowledged from here on, but what was is in the engine.
        let committed = contents(&engine);
        assert!(first.close().is_err());

        let disk = disk.kill();
        let (second, _) = Durability::start(&engine, disk.clone(), quick()).expect("the same run");
        assert_eq!(contents(&engine), committed, "seed {seed}");
        settle(&engine, &second);
        write_some(&mut session, &mut random, 50);
        settle(&engine, &second);
        let expected = contents(&engine);
        drop(session);
        drop(engine);
        // The power goes while the owner lives: nothing is closed.
        let disk = disk.lose_power();
        drop(second);

        let other = common::engine();
        let (_durability, _) = Durability::start(&other, disk, quick()).expect("recovered");
        assert_eq!(contents(&other), expected, "seed {seed}");
    }
}

/// The last batch was never durable: takes it from the disk.
fn lose_last_batch(disk: &SimulatedDisk) {
    let control = read_control(disk).expect("read").expect("there is a log");
    let mut reader = LogReader::new(disk.clone(), control);
    let mut last = None;
    while let Some(item) = reader.advance().expect("read") {
        if let Item::Batch(header) = item {
            last = Some((header.size() as usize, reader.position().offset as usize));
        }
    }
    let (size, end) = last.expect("there is a batch");
    let name = reader.file_name();
    let mut contents = disk.contents(&name).expect("there is a segment");
    contents[end - size..end].fill(0);
    disk.put(&name, &contents);
}

/// An owner finds the last batch in the files, and fails to make it durable; then the disk has lost
/// it. The rings have it still, with its large value.
#[test]
fn a_large_value_is_held_until_its_batch_is_durable() {
    // The second owner opens the log at once, or when the disk is no longer full.
    for is_late in [false, true] {
        let disk = SimulatedDisk::new(6);
        let engine = common::engine();
        let first = start(&engine, &disk, quick());
        let mut session = engine.session().expect("session");
        session.set(b"small", b"1").expect("set");
        settle(&engine, &first);
        // Neither a batch that says that the one before was durable, nor a spare segment.
        common::wait_until_steady(|| disk.count(Operation::Flush));
        disk.fail(Operation::Flush, 0, Fault::Error);
        session.set(b"large", &[7; 300_000]).expect("set");
        await_failure(&first);
        drop(first);

        let disk = disk.kill();
        disk.fail(Operation::Flush, 0, Fault::Error);
        if is_late {
            disk.fail(Operation::Write, 0, Fault::Full);
        }
        match Durability::start(&engine, disk.clone(), quick()) {
            Ok((second, _)) if is_late => await_failure(&second),
            second => assert!(second.is_err() && !is_late, "{second:?}"),
        }
        let disk = disk.kill();
        lose_last_batch(&disk);
        let third = start(&engine, &disk, quick());
        settle(&engine, &third);
        let expected = contents(&engine);
        assert_eq!(expected[&b"large"[..]].0, [7; 300_000]);
        drop(third);
        assert_recovers(&disk.lose_power(), &expected);
    }
}

fn given_up(log: &Log) -> Vec<u64> {
    (0..log.rings()).map(|ring| log.given_up(ring)).collect()
}

/// Invariant 6 of decision 18. While a write or a flush is under way, and after one that failed, the
/// rings hold what is not known to be durable.
#[test]
fn room_is_given_up_after_the_flush() {
    let disk = SimulatedDisk::new(5);
    let engine = common::engine();
    let rings = engine.log().expect("mapped").expect("there is a log");
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("session");
    session.set(b"a", b"1").expect("set");
    settle(&engine, &durability);

    disk.hold(true);
    let before = given_up(&rings);
    let flushes = disk.count(Operation::Flush);
    session.set(b"a", b"2").expect("set");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(disk.count(Operation::Flush), flushes, "it waits");
    assert_eq!(given_up(&rings), before);
    // Invariant 3: no client learns that it is durable.
    assert!(!engine.await_durable(engine.now(), Duration::from_millis(50)));
    disk.hold(false);
    settle(&engine, &durability);
    let begun = Instant::now();
    while given_up(&rings) == before {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "it is given up now"
        );
        std::thread::sleep(Duration::from_millis(1));
    }

    disk.fail(Operation::Flush, 0, Fault::Error);
    let before = given_up(&rings);
    session.set(b"a", b"3").expect("set");
    let begun = Instant::now();
    while !matches!(durability.state(), State::Failed(_)) {
        assert!(begun.elapsed() < Duration::from_secs(10), "it did not fail");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(given_up(&rings), before);
    drop(durability);
    assert_eq!(given_up(&rings), before);
}
