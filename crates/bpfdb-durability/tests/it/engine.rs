//! An engine, its log, and what a new engine gets from there.

use crate::it::common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, LogHome, LogValue, Session, Status};
use bpfdb_durability::{Durability, Error, Options, Restored, State};
use bpfdb_log::record::{Entry, Value, encode_commit};
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_log::{BLOCK, Batch, LogWriter, Recovery, Start};
use common::{Contents, contents, quick, random, wait_until, write};

#[test]
fn a_new_engine_gets_everything() {
    new_engines_get_everything(2);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_new_engine_gets_everything() {
    new_engines_get_everything(20);
}

fn new_engines_get_everything(runs: u64) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("data");
    let disk = || common::own(&path);
    let mut before = Contents::new();
    for run in 1..=runs {
        let engine = common::engine();
        let (durability, restored) =
            Durability::start(&engine, disk(), quick()).expect("recovered");
        assert_eq!(contents(&engine), before, "run {run}");
        assert_eq!(restored.dropped, 0);
        thread::scope(|scope| {
            for seed in 0..3 {
                let engine = &engine;
                scope.spawn(move || {
                    let mut session = engine.session().expect("session");
                    let mut random = random(run * 10 + seed);
                    for _ in 0..400 {
                        match write(&mut session, &mut random) {
                            Ok(())
                            | Err(Status::Conflict | Status::LogFull | Status::LogClosed) => {}
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        before = contents(&engine);
        let state = durability.state();
        // An emulated machine may stand still for a second.
        let may_stall = std::env::var_os("BPFDB_TEST_EMULATED").is_some();
        let is_stalled = matches!(state, State::Stalled(_));
        assert!(
            state == State::Writing || (may_stall && is_stalled),
            "{state:?}"
        );
        drop(durability);
    }
    assert!(before.len() > 100);
    let engine = common::engine();
    Durability::start(&engine, disk(), quick()).expect("recovered");
    assert_eq!(contents(&engine), before, "at the end");
}

/// A disk that hung once is quick again, and the writer does not wait for a client that has gone.
#[test]
fn groups_are_not_late_after_a_disk_that_hung() {
    const QUICK: Duration = Duration::from_millis(300);
    let mut found = Vec::new();
    // A busy machine has some attempts.
    while found.len() < 3 {
        let times = times_of_groups_after_a_disk_that_hung();
        if times.iter().all(|&time| time < QUICK) {
            return;
        }
        found.push(times);
    }
    panic!("{found:?}");
}

fn times_of_groups_after_a_disk_that_hung() -> Vec<Duration> {
    let disk = SimulatedDisk::new(3);
    let engine = common::engine();
    let durability = common::start(&engine, &disk, quick());
    let mut session = engine.session().expect("session");
    disk.hold(true);
    session.set(b"a", b"1").expect("set");
    let now = engine.now();
    durability.want(now, 3);
    thread::sleep(Duration::from_secs(6));
    disk.hold(false);
    common::wait_until("durable", || durability.durable() >= now);
    common::wait_until("writing", || durability.state() == State::Writing);
    let mut times = Vec::new();
    for _ in 0..5 {
        // Two of the three that were woken commit again.
        session.set(b"a", b"2").expect("set");
        let (begun, now) = (Instant::now(), engine.now());
        durability.want(now, 2);
        common::wait_until("durable", || durability.durable() >= now);
        times.push(begun.elapsed());
        durability.want(engine.now(), 1);
    }
    times
}

/// A session of a library that reads what others have written, or deleted, learns how late that
/// is; and of what has been there for long, nothing.
#[test]
fn whoever_reads_what_is_not_durable_can_know_it() {
    let disk = SimulatedDisk::new(8);
    let engine = common::engine();
    let durability = common::start(&engine, &disk, quick());
    let mut writer = engine.session().expect("session");
    for key in [b"stays", b"gone!", b"other"] {
        writer.set(key, b"1").expect("set");
    }
    let before = engine.now();
    durability.want(before, 1);
    common::wait_until("durable", || durability.durable() >= before);
    disk.hold(true);
    writer.set(b"new", b"1").expect("set");
    writer.set(b"other", &[2; 100]).expect("set");
    assert!(writer.delete(b"gone!").expect("deleted"));
    type Read<'a> = &'a dyn Fn(&mut Session);
    let depends = |read: Read<'_>| {
        let mut session = engine.session().expect("session");
        session.keep_depends(true);
        read(&mut session);
        session.depends()
    };

    let durable = durability.durable();
    assert!(depends(&|session| assert!(session.get(b"stays").expect("read").is_some())) <= durable);
    assert!(depends(&|session| assert!(session.get(b"never").expect("read").is_none())) <= durable);
    let reads: [(&str, Read<'_>); 6] = [
        ("a value", &|session| {
            assert!(session.get(b"new").expect("read").is_some());
        }),
        ("its length", &|session| {
            assert_eq!(session.value_len(b"other"), Ok(Some(100)));
        }),
        ("that there is none", &|session| {
            assert!(session.get(b"gone!").expect("read").is_none());
        }),
        ("that there was none", &|session| {
            assert!(!session.delete(b"gone!").expect("deleted"));
        }),
        ("a value that is locked", &|session| {
            session.begin().expect("begun");
            assert!(session.get_for_update(b"new").expect("read").is_some());
            session.rollback().expect("rolled back");
        }),
        ("one of a batch", &|session| {
            let keys = [
                bpfdb::Operation::Get(b"stays"),
                bpfdb::Operation::Get(b"gone!"),
            ];
            session.prefetch(&keys).expect("read");
        }),
    ];
    for (what, read) in reads {
        assert!(depends(read) > durable, "{what}");
    }
    assert_eq!(durability.durable(), durable, "the disk does not answer");
    disk.hold(false);
}

/// What clients that do not wait can lose is at most 100 ms old, where a flush is quick: of 99 of 100
/// groups. A busy machine has some attempts.
#[test]
fn what_may_be_lost_is_young() {
    const PROMISED: Duration = Duration::from_millis(100);
    let (engine, disk) = (common::engine(), SimulatedDisk::new(0));
    let mut found = Vec::new();
    for _ in 0..10 {
        let options = Options {
            interval: Options::default().interval,
            ..quick()
        };
        let durability = common::start(&engine, &disk, options);
        let mut session = engine.session().expect("session");
        while durability.figures().groups <= 50 {
            session.set(b"key", b"1").expect("set");
            thread::sleep(Duration::from_millis(1));
        }
        let figures = durability.figures();
        found.push(figures.exposure_p99);
        if figures.exposure_p99 <= PROMISED {
            return;
        }
    }
    panic!("{found:?}");
}

/// Every process with the engine, owner or not, can ask what a loss of power leaves.
#[test]
fn what_an_engine_calls_durable_survives() {
    // Both ways to know what was written.
    what_is_called_durable_survives(0..2);
}

#[test]
#[ignore = "long: make soak"]
fn soak_what_an_engine_calls_durable_survives() {
    what_is_called_durable_survives(0..40);
}

fn what_is_called_durable_survives(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let disk = SimulatedDisk::new(seed);
        let engine = common::engine();
        let mut session = engine.session().expect("session");
        session.set(b"early", b"1").expect("set");
        assert!(!engine.await_durable(engine.now(), Duration::ZERO));
        let started = Durability::start(&engine, disk.clone(), quick());
        let (durability, _) = started.expect("started");
        session.keep_depends(true);
        for number in 0..20_u32 {
            session.set(&number.to_le_bytes(), b"1").expect("set");
        }
        let written = match seed % 2 {
            0 => session.depends(),
            _ => engine.now(),
        };
        assert!(engine.await_durable(written, Duration::from_secs(10)));
        let survivor = disk.lose_power();
        drop(durability);
        let next = common::engine();
        let _durability = Durability::start(&next, survivor, quick()).expect("recovered");
        assert_eq!(contents(&next).len(), 21, "seed {seed}");
        assert!(next.await_durable(written, Duration::from_secs(10)));
    }
}

/// What was written before the log began is in no file, also while there is no space for a file.
#[test]
fn what_was_written_before_the_log_is_not_durable_before_it_is_in_it() {
    // Also with space for a control file, and for nothing in it.
    for blocks in 0..3 {
        is_not_durable_before_it_is_in_the_log(blocks * BLOCK);
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_what_was_written_before_the_log_is_not_durable_before_it_is_in_it() {
    for blocks in 0..6 {
        is_not_durable_before_it_is_in_the_log(blocks * BLOCK);
    }
}

fn is_not_durable_before_it_is_in_the_log(capacity: usize) {
    let disk = SimulatedDisk::new(6);
    disk.set_capacity(capacity);
    let engine = common::engine();
    let mut session = engine.session().expect("session");
    session.set(b"early", b"1").expect("set");
    let written = engine.now();
    let durability = common::start(&engine, &disk, quick());
    assert!(matches!(durability.state(), State::Full(_)));
    assert!(durability.durable() < written);
    assert!(!engine.await_durable(written, Duration::from_millis(100)));
    let ended = durability.close();
    assert!(matches!(ended, Err(State::Full(_))), "{ended:?}");
    // With space it becomes durable as any other.
    disk.set_capacity(usize::MAX);
    let durability = common::start(&engine, &disk, quick());
    assert!(engine.await_durable(written, Duration::from_secs(10)));
    drop(durability);
    assert_eq!(contents(&engine).len(), 1);
    common::assert_recovers(&disk, &contents(&engine));
}

/// How long the last groups took says nothing of what is durable.
#[test]
fn a_log_that_was_late_has_everything_when_it_has_ended() {
    let disk = SimulatedDisk::new(6);
    let engine = common::engine();
    let always_late = Options {
        exposure: Duration::from_nanos(8),
        ..quick()
    };
    let durability = common::start(&engine, &disk, always_late);
    common::wait_until("stalled", || {
        matches!(durability.state(), State::Stalled(_))
    });
    assert_eq!(durability.close(), Ok(()));
}

/// Without commits, a caller that asks gets an answer all the same.
#[test]
fn an_idle_engine_is_durable() {
    let engine = common::engine();
    let (_durability, _) =
        Durability::start(&engine, SimulatedDisk::new(4), quick()).expect("started");
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(50));
        assert!(engine.await_durable(engine.now(), Duration::from_secs(10)));
    }
}

/// The owner is gone without a word, and the engine is still there with what was not written.
#[test]
fn an_engine_that_outlives_its_owner_goes_on() {
    let engine = common::engine();
    let disk = SimulatedDisk::new(7);
    let slow = Options {
        interval: Duration::from_secs(3600),
        ..quick()
    };
    let mut session = engine.session().expect("session");
    let (first, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    session.set(b"written", b"1").expect("set");
    drop(first);
    // Nobody writes: it stays in the ring.
    session.set(b"left in the ring", b"2").expect("set");
    session.set(b"large", &vec![3; 300_000]).expect("set");
    session.delete(b"written").expect("delete");
    let (second, restored) = Durability::start(&engine, disk.clone(), slow).expect("the same run");
    assert_eq!(restored, Restored::default(), "the engine has everything");
    drop(second);

    let (other, expected) = (common::engine(), contents(&engine));
    drop(session);
    drop(engine);
    let (_durability, restored) =
        Durability::start(&other, disk.clone(), quick()).expect("recovered");
    assert_eq!(contents(&other), expected);
    assert_eq!(restored.writes, 4);

    // An engine of an older run, or of another log, is not taken for the one that belongs here.
    let stranger = common::engine();
    let (_of_another, _) =
        Durability::start(&stranger, SimulatedDisk::new(8), quick()).expect("started");
    drop(_of_another);
    let refused = Durability::start(&stranger, disk, quick());
    assert!(matches!(refused, Err(Error::Stranger(_))), "{refused:?}");
}

/// Room of void records is given up without a batch.
#[test]
fn a_ring_of_nothing_but_void_records_goes_round() {
    let engine = common::engine();
    let disk = SimulatedDisk::new(9);
    let (first, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("session");
    for _ in 0..100_000 {
        match session.delete(b"not there") {
            Ok(false) | Err(Status::LogFull | Status::LogClosed) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(first);
    let (_second, _) = Durability::start(&engine, disk.clone(), quick()).expect("the same run");
    session.set(b"a", b"1").expect("set");
    drop(_second);
    let other = common::engine();
    let (_durability, restored) = Durability::start(&other, disk, quick()).expect("recovered");
    assert_eq!(restored.writes, 1);
}

#[test]
fn an_older_run_is_refused() {
    let disk = SimulatedDisk::new(3);
    let (old, new) = (common::engine(), common::engine());
    drop(Durability::start(&old, disk.clone(), quick()).expect("started"));
    drop(Durability::start(&new, disk.clone(), quick()).expect("recovered"));
    let refused = Durability::start(&old, disk.clone(), quick());
    assert!(matches!(refused, Err(Error::Stranger(_))), "{refused:?}");
    drop(Durability::start(&new, disk, quick()).expect("the last run goes on"));
}

/// What a writer would take that closes an epoch, and comes to look at the rings a moment later.
fn write_late_group(engine: &Engine, disk: &SimulatedDisk, session: &mut Session) {
    let log = engine.log().expect("mapped").expect("there is a log");
    let end = Recovery::new(disk.clone(), 0).and_then(Recovery::finish);
    let start = (Start::NewRun, quick().files);
    let writer = LogWriter::open(disk.clone(), &end.expect("a new log"), start.0, 0, start.1);
    let mut writer = writer.expect("opened");
    log.set_home(&LogHome {
        log: writer.log().0,
        run: writer.run(),
        run_id: writer.run_id().0,
    });
    session.set(b"in time", b"1").expect("set");
    let epoch = log.close_epoch();
    session.set(b"late", b"2").expect("set");
    let (mut records, mut count) = (Vec::new(), 0);
    let positions: Vec<u64> = (0..log.rings()).map(|ring| log.reserved(ring)).collect();
    for (ring, &end) in positions.iter().enumerate() {
        let mut at = 0;
        while at < end {
            let sealed = log.sealed(ring, at).expect("its program has ended");
            let stamp = sealed.stamp.expect("a commit");
            for write in log.writes(ring, at, sealed.bytes) {
                let LogValue::Bytes(value) = write.value else {
                    panic!("{write:?}");
                };
                let (key, value) = (write.key, Value::Inline(value));
                let expires = None;
                encode_commit(
                    stamp,
                    &[Entry {
                        key,
                        value,
                        expires,
                    }],
                    &mut records,
                );
                count += 1;
            }
            at += sealed.bytes;
        }
        log.give_up(ring, end);
    }
    let group = Batch {
        epoch,
        positions: &positions,
        wall: 0,
        records: &records,
        record_count: count,
    };
    writer.append(group).expect("written");
}

/// A commit that is taken with a group but is later than its epoch, and none comes after it: it
/// is durable when it is said to be.
#[test]
fn the_last_commit_beside_the_end_of_a_group_counts() {
    let engine = common::engine();
    let disk = SimulatedDisk::new(11);
    let mut session = engine.session().expect("session");
    write_late_group(&engine, &disk, &mut session);
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("the same run");
    // Two groups are over, each of them empty.
    for _ in 0..2 {
        let epoch = durability.durable();
        while durability.durable() == epoch {
            thread::yield_now();
        }
    }
    let disk = disk.lose_power();
    drop(durability);
    let other = common::engine();
    let (_durability, _) = Durability::start(&other, disk, quick()).expect("recovered");
    assert_eq!(contents(&other), contents(&engine));
}

/// Power is lost under load: what was called durable is there, and whole transactions only.
#[test]
fn power_is_lost_under_load() {
    power_is_lost(0..2);
}

#[test]
#[ignore = "long: make soak"]
fn soak_power_is_lost_under_load() {
    power_is_lost(0..40);
}

fn power_is_lost(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let disk = SimulatedDisk::new(seed);
        let engine = common::engine();
        let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
        let stop = AtomicBool::new(false);
        let survivors = thread::scope(|scope| {
            for worker in 0..2_u32 {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || {
                    let mut session = engine.session().expect("session");
                    for round in 0_u64.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        // Both keys, or none; the number never falls.
                        session.begin().expect("begin");
                        for key in ["a", "b"] {
                            let key = format!("{key}{worker}");
                            session
                                .set(key.as_bytes(), &round.to_le_bytes())
                                .expect("set");
                        }
                        match session.commit() {
                            Ok(()) | Err(Status::LogFull | Status::LogClosed) => {}
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                });
            }
            let write_all = || contents(&engine).len() == 4;
            wait_until("both workers write", write_all);
            thread::sleep(Duration::from_millis(30));
            let known = contents(&engine);
            let now = engine.now();
            while durability.durable() < now {
                thread::sleep(Duration::from_millis(1));
            }
            let survivors = (known, disk.lose_power());
            stop.store(true, Ordering::Relaxed);
            survivors
        });
        drop(durability);
        let (known, disk) = survivors;
        let after = common::engine();
        let (_durability, _) = Durability::start(&after, disk, quick()).expect("recovered");
        let found = contents(&after);
        for worker in 0..2 {
            let of = |key: &str| format!("{key}{worker}").into_bytes();
            assert_eq!(
                found.get(&of("a")),
                found.get(&of("b")),
                "seed {seed}: both or none"
            );
            let number = |contents: &Contents| {
                let value = &contents[&of("a")].0;
                u64::from_le_bytes(value[..].try_into().expect("eight bytes"))
            };
            assert!(
                number(&found) >= number(&known),
                "seed {seed}: nothing durable is lost"
            );
        }
    }
}

/// A caller of the library gets that error as well; and what the files have not, the next owner of the
/// engine writes.
#[test]
fn after_a_failed_flush_the_library_writes_nothing() {
    let engine = common::engine();
    let disk = SimulatedDisk::new(23);
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("session");
    session.set(b"before", b"1").expect("set");
    settle(&engine, &durability);
    let mut open = engine.session().expect("session");
    open.never_wait();
    open.begin().expect("begin");
    open.set(b"open", b"1").expect("set");
    for operation in [Operation::Write, Operation::Flush] {
        for nth in 0..4 {
            disk.fail(operation, nth, Fault::Error);
        }
    }
    session.set(b"not flushed", b"2").expect("the log takes it");
    wait_until("the flush has failed", || {
        matches!(durability.state(), State::Failed(_))
    });
    session.never_wait();
    assert_eq!(session.set(b"after", b"3"), Err(Status::LogClosed));
    assert_eq!(session.delete(b"before"), Err(Status::LogClosed));
    assert_eq!(open.commit(), Err(Status::LogClosed));
    let settled = durability.settle(engine.now());
    assert!(matches!(settled, Err(State::Failed(_))), "{settled:?}");
    for (key, value) in [(&b"before"[..], &b"1"[..]), (b"not flushed", b"2")] {
        assert_eq!(session.get(key), Ok(Some(value.to_vec())), "reads go on");
    }
    assert_eq!(session.get(b"open"), Ok(None));
    // Whose disk does not fail any more.
    let disk = disk.kill();
    drop(durability);
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("goes on");
    session.set(b"after", b"3").expect("set");
    settle(&engine, &durability);
    let expected = contents(&engine);
    let disk = disk.lose_power();
    drop(durability);
    common::assert_recovers(&disk, &expected);
}

#[test]
fn a_full_disk_heals() {
    let engine = common::engine();
    let disk = SimulatedDisk::new(5);
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("session");
    session.set(b"before", b"1").expect("set");
    disk.set_capacity(0);
    session.never_wait();
    let value = vec![9; 30_000];
    // The current segment and the rings fill up; then the engine says why nothing is written.
    loop {
        match session.set(b"k", &value) {
            Ok(()) => {}
            Err(Status::LogFull) => thread::sleep(Duration::from_millis(1)),
            Err(status) => {
                assert_eq!(status, Status::LogClosed);
                break;
            }
        }
    }
    assert!(
        matches!(durability.state(), State::Full(_)),
        "{:?}",
        durability.state()
    );
    assert_eq!(
        session.get(b"before"),
        Ok(Some(b"1".to_vec())),
        "reads go on"
    );
    // A process that is about to drop the engine learns that it is the only copy.
    let settled = durability.settle(engine.now());
    assert!(matches!(settled, Err(State::Full(_))), "{settled:?}");
    disk.set_capacity(usize::MAX);
    while session.set(b"after", b"2").is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    settle(&engine, &durability);
    drop(durability);
    let expected = contents(&engine);
    let other = common::engine();
    let (_durability, _) = Durability::start(&other, disk, quick()).expect("recovered");
    assert_eq!(contents(&other), expected);
}

/// Waits until everything is durable that was committed before.
fn settle(engine: &Engine, durability: &Durability) {
    durability.settle(engine.now()).expect("the disk is well");
}

/// Somebody has put an older copy in the place of the directory, or its last batches are damaged:
/// what the rings have given up would be in no log.
#[test]
fn an_older_copy_of_the_directory_is_refused() {
    let engine = common::engine();
    let disk = SimulatedDisk::new(12);
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("session");
    session.set(b"before", b"1").expect("set");
    settle(&engine, &durability);
    let copy = disk.fork();
    session.set(b"after", b"2").expect("set");
    settle(&engine, &durability);
    drop(durability);
    let refused = Durability::start(&engine, copy, quick());
    assert!(matches!(refused, Err(Error::Stranger(_))), "{refused:?}");
    // Its own has everything.
    session.set(b"in the ring", b"3").expect("set");
    drop(Durability::start(&engine, disk.clone(), quick()).expect("the same run"));
    let other = common::engine();
    let (_durability, _) = Durability::start(&other, disk, quick()).expect("recovered");
    assert_eq!(contents(&other), contents(&engine));
}

/// What was written to an engine that belongs to no log is later than what a directory has, or
/// earlier: it is not known.
#[test]
fn an_engine_with_writes_of_its_own_is_not_recovered() {
    let disk = SimulatedDisk::new(13);
    let first = common::engine();
    drop(Durability::start(&first, disk.clone(), quick()).expect("started"));
    let engine = common::engine();
    let mut session = engine.session().expect("session");
    session.set(b"a", b"1").expect("set");
    let refused = Durability::start(&engine, disk, quick());
    assert!(matches!(refused, Err(Error::Stranger(_))), "{refused:?}");
    // It can begin a log.
    let disk = SimulatedDisk::new(14);
    drop(Durability::start(&engine, disk.clone(), quick()).expect("started"));
    let other = common::engine();
    let (_durability, _) = Durability::start(&other, disk, quick()).expect("recovered");
    assert_eq!(contents(&other), contents(&engine));
}

/// The engine's clock has 54 bits. A log with more, whose checksums are right, is not believed.
#[test]
fn a_time_beyond_the_clock_is_refused() {
    let disk = SimulatedDisk::new(15);
    let end = Recovery::new(disk.clone(), 0).and_then(Recovery::finish);
    let end = end.expect("a new log");
    let writer = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, quick().files);
    let mut writer = writer.expect("opened");
    let group = Batch {
        epoch: u64::MAX,
        positions: &[],
        wall: 0,
        records: &[],
        record_count: 0,
    };
    writer.append(group).expect("written");
    drop(writer);
    let engine = common::engine();
    let refused = Durability::start(&engine, disk, quick());
    assert!(matches!(refused, Err(Error::Stranger(_))), "{refused:?}");
}

/// Somebody else writes while the engine's last owner ends: what succeeded is in the log.
#[test]
fn nobody_writes_behind_a_sealed_log() {
    let (engine, disk) = (common::engine(), SimulatedDisk::new(11));
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let stop = AtomicBool::new(false);
    let at_work = AtomicU32::new(0);
    let last = thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u8)
            .map(|writer| {
                let (engine, stop, at_work) = (&engine, &stop, &at_work);
                scope.spawn(move || {
                    let mut session = engine.session().expect("session");
                    let mut acknowledged = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        let number = acknowledged + 1;
                        match session.set(&[writer], &number.to_be_bytes()) {
                            Ok(()) => {
                                acknowledged = number;
                                if number == 101 {
                                    at_work.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            Err(Status::LogFull | Status::LogClosed) => {}
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        // However busy the machine is.
        while at_work.load(Ordering::Relaxed) < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        durability.seal(&engine).expect("sealed");
        durability.close().expect("all is written");
        // It is not opened again, so no caller learns that it passes.
        let mut session = engine.session().expect("session");
        assert_eq!(session.set(b"late", b"v"), Err(Status::LogClosed));
        thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .map(|writer| writer.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    let other = common::engine();
    let (_durability, _) = Durability::start(&other, disk, quick()).expect("recovered");
    let mut session = other.session().expect("session");
    for (writer, acknowledged) in last.into_iter().enumerate() {
        let found = session.get(&[writer as u8]).expect("get").expect("written");
        assert_eq!(found, acknowledged.to_be_bytes(), "{writer}");
        assert!(acknowledged > 100);
    }
}

/// Groups without a commit are quick, and tell nothing of how long commits wait.
#[test]
fn only_groups_with_commits_have_an_exposure() {
    let (engine, disk) = (common::engine(), SimulatedDisk::new(14));
    let (durability, _) = Durability::start(&engine, disk, quick()).expect("started");
    let mut session = engine.session().expect("session");
    session.set(b"k", b"v").expect("set");
    durability.settle(engine.now()).expect("durable");
    let before = durability.figures();
    assert!(
        before.groups > 0 && before.exposure > Duration::ZERO,
        "{before:?}"
    );
    // Each of them waits for a group of its own.
    for _ in 0..20 {
        durability.settle(engine.now()).expect("durable");
        thread::sleep(Duration::from_millis(3));
    }
    let idle = durability.figures();
    assert_eq!(
        (idle.groups, idle.exposure),
        (before.groups, before.exposure)
    );
    session.set(b"k", b"w").expect("set");
    durability.settle(engine.now()).expect("durable");
    assert!(durability.figures().groups > idle.groups);
}

/// The exposure of a group is at least the age of its oldest commit, also of one that was made while
/// the group before was being written.
#[test]
fn an_exposure_is_no_less_than_the_age_of_a_commit() {
    let (engine, disk) = (common::engine(), SimulatedDisk::new(15));
    let durability = common::start(&engine, &disk, quick());
    let mut session = engine.session().expect("session");
    session.set(b"early", b"1").expect("set");
    durability.settle(engine.now()).expect("durable");
    disk.hold(true);
    session.set(b"early", b"2").expect("set");
    // A group has that, and waits for the disk.
    thread::sleep(Duration::from_millis(50));
    session.set(b"late", b"1").expect("set");
    let committed = Instant::now();
    thread::sleep(Duration::from_millis(100));
    let age = committed.elapsed();
    disk.hold(false);
    durability.settle(engine.now()).expect("durable");
    common::wait_until("the figures", || durability.figures().exposure >= age);
    assert!(durability.figures().exposure_p99 >= age.mul_f64(0.98));
}
