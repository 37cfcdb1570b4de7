//! Checkpoints of an engine that is written to, and what a new engine gets from them.

use crate::it::common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Status};
use bpfdb_durability::{CheckpointOptions, Durability, Error, Options, Phase, State};
use bpfdb_log::reader::read_control;
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_log::{Directory, Disk};
use common::{
    archive::Archive, contents, engine, panicking::Panicking, quick, random, segments, start, write,
};

/// Has the others stop, be it because of a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What expires has expired after so long, in milliseconds.
const LIFE_MS: usize = 50;

fn await_expiry() {
    thread::sleep(Duration::from_millis(2 * LIFE_MS as u64));
}

/// Writes of all kinds, and now and then nearly all keys are deleted, so that pages are split
/// and merged.
fn disturb(engine: &Engine, seed: u64, stop: &AtomicBool) {
    let mut session = engine.session().expect("session");
    let mut random = random(seed);
    let allowed = |outcome: Result<(), Status>| match outcome {
        Ok(())
        | Err(Status::Conflict | Status::LogFull | Status::LogClosed | Status::OutOfMemory) => {}
        Err(other) => panic!("{other:?}"),
    };
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..150 {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            allowed(write(&mut session, &mut random));
        }
        for number in 0..50 {
            let expires = engine.now_ms() + 1 + random(LIFE_MS) as u64;
            let key = format!("e{}", number % 20);
            allowed(session.set_entry(key.as_bytes(), b"soon gone", Some(expires)));
        }
        let many = random(2500);
        // Without power every write waits for room in the log.
        let goes_on = |_: &usize| !stop.load(Ordering::Relaxed);
        for number in (0..many).take_while(goes_on) {
            allowed(session.set(format!("m{seed}-{number}").as_bytes(), b"many"));
        }
        for number in (0..many).take_while(goes_on) {
            let key = format!("m{seed}-{number}");
            if number % 50 != 0 {
                allowed(session.delete(key.as_bytes()).map(drop));
            }
        }
    }
}

/// What goes on beside the writers until the flag is set. Counts how often it reached its end.
type Beside = fn(&Engine, &AtomicBool, &AtomicU32);

fn nothing(_: &Engine, stop: &AtomicBool, times: &AtomicU32) {
    while goes_on(stop) {
        times.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
    }
}

fn goes_on(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}

/// FLUSHALL, as the server executes it: deletes key by key, and clears away the records of those
/// that have expired. But `kept…` stays, so that no checkpoint is empty.
fn flush(engine: &Engine, stop: &AtomicBool, times: &AtomicU32) {
    let mut session = engine.session().expect("session");
    while goes_on(stop) {
        let mut cursor = 0;
        loop {
            let (next, keys) = session.scan(cursor, 512).expect("scan");
            let keys = keys.iter().filter(|key| !key.starts_with(b"kept"));
            for key in keys.take_while(|_| goes_on(stop)) {
                match session.delete(key) {
                    Ok(_) | Err(Status::Conflict | Status::LogFull | Status::LogClosed) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            cursor = next;
            if cursor == 0 || !goes_on(stop) {
                break;
            }
        }
        let mut page = 0;
        while goes_on(stop) {
            page = engine.clear_away(page).expect("cleared away");
            if page == 0 {
                times.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Fills the engine up to its memory limit, which is lowered for that, and makes room again.
fn exhaust(engine: &Engine, stop: &AtomicBool, times: &AtomicU32) {
    let limit = engine.memory_limit();
    engine.set_memory_limit(32 << 20).expect("lowered");
    let mut session = engine.session().expect("session");
    let filler = |number: u32| format!("f{number}").into_bytes();
    while goes_on(stop) {
        let mut written = 0;
        while goes_on(stop) {
            match session.set(&filler(written), &[7; 30_000]) {
                Ok(()) => written += 1,
                Err(Status::LogFull | Status::LogClosed) => {}
                // The second: the log keeps what was deleted, and its disk has lost the power.
                Err(Status::OutOfMemory | Status::MemoryPending) => {
                    times.fetch_add(1, Ordering::Relaxed);
                    // So that the others meet the limit too.
                    thread::sleep(Duration::from_millis(5));
                    break;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        let some = (0..written).filter(|number| number % 4 != 0);
        for number in some.take_while(|_| goes_on(stop)) {
            match session.delete(&filler(number)) {
                Ok(_) | Err(Status::LogFull | Status::LogClosed) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    engine.set_memory_limit(limit).expect("raised");
}

fn make(durability: &Durability) {
    let number = durability.checkpoint().expect("none is being made");
    durability.await_checkpoint(number).expect("made");
}

/// The caller has already reported that it was written. It is in no group that is durable by then.
#[test]
fn a_checkpoint_has_what_was_committed_before_it_was_asked_for() {
    let disk = SimulatedDisk::new(4);
    let engine = engine();
    let durability = start(&engine, &disk, quick());
    let mut session = engine.session().expect("session");
    for round in 1..=5_u64 {
        disk.hold(true);
        for number in 0..100_u64 {
            let key = [round, number].map(u64::to_le_bytes).concat();
            session.set(&key, b"value").expect("set");
        }
        let number = durability.checkpoint().expect("asked");
        thread::sleep(Duration::from_millis(20));
        disk.hold(false);
        durability.await_checkpoint(number).expect("made");
        let last = durability.checkpoint_status().last.expect("made");
        assert_eq!(last.entries, round * 100);
    }
}

/// Engines one after the other, and checkpoints of each.
struct Runs {
    engines: u64,
    checkpoints: u64,
}

/// Each engine but the first begins with a checkpoint, and each checkpoint but the first ends one.
const SHORT: Runs = Runs {
    engines: 2,
    checkpoints: 2,
};
const LONG: Runs = Runs {
    engines: 10,
    checkpoints: 20,
};

/// At a quiet end a new engine has exactly what the old one had, whatever was written while
/// checkpoints were made.
fn a_new_engine_begins_with_the_checkpoint_made(beside: Beside, runs: &Runs) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("data");
    let disk = || common::own(&path);
    let mut before = common::Contents::new();
    for run in 1..=runs.engines {
        let engine = engine();
        let (durability, restored) =
            Durability::start(&engine, disk(), quick()).expect("recovered");
        assert!(contents(&engine) == before, "run {run}");
        assert_eq!(restored.checkpoint_entries > 0, run > 1, "{restored:?}");
        let mut session = engine.session().expect("session");
        for number in 0..200 {
            let key = format!("kept{number}");
            session.set(key.as_bytes(), b"value").expect("set");
        }
        let (stop, times) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            let _stop = Stop(&stop);
            let (engine, stop, times) = (&engine, &stop, &times);
            for seed in 0..2 {
                scope.spawn(move || disturb(engine, run * 10 + seed, stop));
            }
            scope.spawn(move || beside(engine, stop, times));
            for _ in 0..runs.checkpoints {
                // So that segments go, also on a busy machine.
                common::wait_until("a segment is written", || {
                    durability.checkpoint_status().log_bytes > quick().files.segment_size
                });
                let before = times.load(Ordering::Relaxed);
                make(&durability);
                common::wait_until("something went on beside the writers", || {
                    times.load(Ordering::Relaxed) > before
                });
            }
            stop.store(true, Ordering::Relaxed);
        });
        await_expiry();
        let status = durability.checkpoint_status();
        let last = status.last.expect("made");
        assert_eq!(
            (status.attempts, status.failed, status.failure),
            (runs.checkpoints, 0, None)
        );
        assert_eq!(last.number, run * runs.checkpoints);
        before = contents(&engine);
        assert_eq!(durability.state(), State::Writing);
        drop(durability);
        let control = read_control(&Directory::read_only(&path)).expect("read");
        let control = control.expect("there is a log");
        let number = control.checkpoint.map(|mark| mark.number);
        assert_eq!(number, Some(run * runs.checkpoints));
        assert!(control.first_needed > 1, "segments went");
        let names = Directory::read_only(&path)
            .list("checkpoint")
            .expect("listed");
        assert_eq!(names.len(), 1, "{names:?}");
    }
    assert!(before.len() > 100);
}

#[test]
fn a_new_engine_begins_with_the_checkpoint() {
    a_new_engine_begins_with_the_checkpoint_made(nothing, &SHORT);
}

#[test]
fn a_new_engine_begins_with_the_checkpoint_made_beside_flushall() {
    a_new_engine_begins_with_the_checkpoint_made(flush, &SHORT);
}

#[test]
fn a_new_engine_begins_with_the_checkpoint_made_at_the_memory_limit() {
    a_new_engine_begins_with_the_checkpoint_made(exhaust, &SHORT);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_new_engine_begins_with_the_checkpoint() {
    for beside in [nothing as Beside, flush, exhaust] {
        a_new_engine_begins_with_the_checkpoint_made(beside, &LONG);
    }
}

/// Power is lost at any moment: before, in the middle of and after a checkpoint. A new engine has
/// what another one gets that replays the whole log, from its first segment on.
#[test]
fn power_is_lost_while_checkpoints_are_made() {
    power_is_lost(common::seeds(3));
}

#[test]
#[ignore = "long: make soak"]
fn soak_power_is_lost_while_checkpoints_are_made() {
    power_is_lost(common::seeds(60));
}

fn power_is_lost(seeds: std::ops::Range<u64>) {
    let mut with_checkpoint = 0;
    for seed in seeds {
        let archive = Archive::new(SimulatedDisk::new(seed));
        let engine = engine();
        let (durability, _) =
            Durability::start(&engine, archive.clone(), quick()).expect("started");
        let (stop, times) = (AtomicBool::new(false), AtomicU32::new(0));
        let survivor = thread::scope(|scope| {
            let _stop = Stop(&stop);
            for worker in 0..2 {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || disturb(engine, seed * 100 + worker, stop));
            }
            let (engine, durability, stops, times) = (&engine, &durability, &stop, &times);
            let beside: Beside = [nothing, flush, exhaust][seed as usize % 3];
            scope.spawn(move || beside(engine, stops, times));
            scope.spawn(move || {
                while !stops.load(Ordering::Relaxed) {
                    let Ok(number) = durability.checkpoint() else {
                        continue;
                    };
                    // It fails when the power is gone.
                    if durability.await_checkpoint(number).is_err() {
                        return;
                    }
                }
            });
            if seed % 3 > 0 {
                // However busy the machine is.
                await_status(durability, |status| status.last.is_some());
            }
            let mut random = random(seed + 77);
            thread::sleep(Duration::from_millis(20 + random(600) as u64));
            archive.lose_power()
        });
        drop(durability);
        await_expiry();
        let (by_checkpoint, restored) = recover(survivor.disk());
        let (by_log, all) = recover(survivor.whole_log());
        with_checkpoint += u32::from(restored.checkpoint_entries > 0);
        assert_eq!(all.checkpoint_entries, 0);
        assert!(
            by_checkpoint == by_log,
            "seed {seed}: {restored:?}, {all:?}"
        );
    }
    assert!(with_checkpoint > 0, "some were made in time");
}

fn recover<D>(disk: D) -> (common::Contents, bpfdb_durability::Restored)
where
    D: Disk + Send + 'static,
    D::File: Send + Sync + 'static,
{
    let engine = engine();
    let (_durability, restored) = Durability::start(&engine, disk, quick()).expect("recovered");
    (contents(&engine), restored)
}

/// Recovery names the file and the place, and starts nothing.
#[test]
fn a_checkpoint_that_is_damaged_is_named() {
    let disk = SimulatedDisk::new(5);
    let engine = engine();
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("session");
    for number in 0..3000 {
        session
            .set(format!("{number}").as_bytes(), b"value")
            .expect("set");
    }
    // A checkpoint has what is durable when it begins.
    durability.settle(engine.now()).expect("durable");
    make(&durability);
    drop(durability);
    disk.flip("checkpoint/0000000000000001.ckpt", 30_000, 3);
    let another = common::engine();
    let refused = Durability::start(&another, disk.clone(), quick());
    let Err(Error::Log(error)) = refused else {
        panic!("{refused:?}");
    };
    let text = error.to_string();
    assert!(
        text.contains("checkpoint/0000000000000001.ckpt at "),
        "{text}"
    );
    assert!(text.contains("checksum"), "{text}");
    // The engine that has the data goes on, and makes another one.
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("the same run");
    make(&durability);
    drop(durability);
    assert_eq!(recover(disk).0.len(), 3000);
}

/// Until the log has a spare segment, and creates no files.
fn await_spare(disk: &SimulatedDisk) {
    common::wait_until("a spare", || common::spares(disk) > 0);
    common::wait_until_steady(|| disk.count(Operation::Create));
}

/// Not only after another hour.
#[test]
fn a_checkpoint_that_is_due_by_time_and_fails_is_due_still() {
    const EVERY: Duration = Duration::from_secs(4);
    let disk = SimulatedDisk::new(16);
    let engine = engine();
    let options = Options {
        checkpoints: CheckpointOptions {
            every: Some(EVERY),
            retry: Duration::from_millis(200),
            ..CheckpointOptions::on_request()
        },
        ..quick()
    };
    let (durability, _) = Durability::start(&engine, disk.clone(), options).expect("started");
    await_spare(&disk);
    let mut session = engine.session().expect("session");
    session.set(b"key", b"value").expect("set");
    disk.fail(Operation::Rename, 0, Fault::Error);
    let failed = await_status(&durability, |status| status.attempts == 1);
    assert_eq!(failed.failed, 1);
    let begun = Instant::now();
    let made = await_status(&durability, |status| status.attempts == 2);
    assert_eq!(made.failure, None);
    assert!(begun.elapsed() < EVERY - Duration::from_secs(1));
    // And the next one when its time has come.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(durability.checkpoint_status().attempts, 2);
}

/// What fails leaves the one before in force, says so, and is tried again.
#[test]
fn a_checkpoint_that_fails_is_none() {
    let disk = SimulatedDisk::new(6);
    let engine = engine();
    let options = Options {
        checkpoints: CheckpointOptions {
            log_bytes: Some(1),
            log_percent: 0,
            retry: Duration::from_millis(200),
            ..CheckpointOptions::default()
        },
        ..quick()
    };
    let (durability, _) = Durability::start(&engine, disk.clone(), options).expect("started");
    await_spare(&disk);
    let mut session = engine.session().expect("session");
    for (operation, fault) in [
        (Operation::Create, Fault::Error),
        (Operation::Create, Fault::Full),
        (Operation::Rename, Fault::Error),
    ] {
        let before = durability.checkpoint_status();
        disk.fail(operation, 0, fault);
        session
            .set(b"key", format!("{fault:?}").as_bytes())
            .expect("set");
        let failed = await_status(&durability, |status| status.attempts > before.attempts);
        assert_eq!(
            failed.failed,
            before.failed + 1,
            "{operation:?}: {failed:?}"
        );
        let text = failed.failure.expect("it failed");
        assert!(text.contains("checkpoint/"), "{text}");
        let control = read_control(&disk).expect("read").expect("there");
        assert_eq!(
            control.checkpoint.map(|mark| mark.number),
            before.last.map(|last| last.number)
        );
        let made = await_status(&durability, |status| status.attempts > failed.attempts);
        assert_eq!(made.failure, None, "{operation:?}");
        assert_eq!(durability.state(), State::Writing);
    }
    drop(durability);
    assert!(recover(disk).0 == contents(&engine));
}

/// A caller that waits for it gets the error, the log goes on, and the next one is made.
#[test]
fn a_checkpoint_that_panics_is_none() {
    let disk = Panicking::new(SimulatedDisk::new(17));
    let engine = engine();
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("session");
    // As many as are handed over while the file's thread is gone already.
    for number in 0..20_000 {
        session
            .set(format!("{number}").as_bytes(), &[b'v'; 100])
            .expect("set");
    }
    for (armed, told) in [
        (&disk.at_create, "its thread has panicked"),
        (&disk.at_rename, "it has panicked"),
    ] {
        make(&durability);
        let counts = durability.checkpoint_status().last.map(|last| last.number);
        armed.store(true, Ordering::Relaxed);
        let number = durability.checkpoint().expect("none is being made");
        let failed = durability.await_checkpoint(number);
        assert!(
            format!("{failed:?}").contains(told),
            "{failed:?}, not {told}"
        );
        let status = durability.checkpoint_status();
        let last = status.last.map(|last| last.number);
        assert_eq!(last, counts, "the one before counts");
        assert_eq!(durability.state(), State::Writing);
        session.set(b"after it", told.as_bytes()).expect("set");
        durability.settle(engine.now()).expect("durable");
        assert_eq!(disk.disk.list("checkpoint").expect("listed").len(), 1);
    }
    make(&durability);
    drop(durability);
    assert!(recover(disk.disk).0 == contents(&engine));
}

fn await_status(
    durability: &Durability,
    is_there: impl Fn(&bpfdb_durability::CheckpointStatus) -> bool,
) -> bpfdb_durability::CheckpointStatus {
    let begun = Instant::now();
    loop {
        let status = durability.checkpoint_status();
        if is_there(&status) {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{status:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The next group is an hour away, unless a caller waits for it.
fn late_groups() -> Options {
    Options {
        interval: Duration::from_secs(3600),
        ..quick()
    }
}

/// Whoever waited may have woken the writer a second time: then it begins another group.
fn await_quiet(durability: &Durability) {
    loop {
        let before = durability.durable();
        thread::sleep(Duration::from_millis(100));
        if durability.durable() == before {
            return;
        }
    }
}

/// The file is there, but what was written meanwhile is not durable yet.
#[test]
fn a_checkpoint_waits_for_the_log() {
    let disk = SimulatedDisk::new(8);
    let engine = engine();
    let durability = start(&engine, &disk, late_groups());
    let mut session = engine.session().expect("session");
    session.set(b"a", b"1").expect("set");
    durability.settle(engine.now()).expect("durable");
    await_quiet(&durability);
    let number = durability.checkpoint().expect("asked");
    let waiting = await_status(&durability, |status| {
        status
            .running
            .is_some_and(|running| running.phase == Phase::Waiting)
    });
    assert!(matches!(durability.checkpoint(), Err(Error::Checkpointing)));
    assert_eq!(waiting.attempts, 0);
    let control = read_control(&disk).expect("read").expect("there");
    assert_eq!(control.checkpoint, None);
    // It is given up when the log is closed.
    drop(durability);
    assert_eq!(number, 1);
    assert_eq!(disk.list("checkpoint").expect("listed"), [""; 0]);
    let (found, restored) = recover(disk);
    assert_eq!((found.len(), restored.checkpoint_entries), (1, 0));
}

/// Invariant 5 of decision 19: what the first group of a checkpoint has taken may be later than its
/// epoch. So every segment is needed that this group was written to, from the first on.
#[test]
fn the_segments_of_its_first_group_are_needed() {
    let disk = SimulatedDisk::new(12);
    let engine = engine();
    let options = Options {
        // However long the disk is held.
        exposure: Duration::from_secs(3600),
        ..late_groups()
    };
    let durability = start(&engine, &disk, options);
    let mut session = engine.session().expect("session");
    session.set(b"a", b"1").expect("set");
    durability.settle(engine.now()).expect("durable");
    disk.hold(true);
    session.set(b"b", b"2").expect("set");
    durability.want(engine.now(), 1);
    common::wait_until("the writer is held up", || disk.waiting() > 0);
    // The next group begins when the disk goes on, and has both: the large value, and the start of
    // the checkpoint.
    let value = vec![7; 10 << 20];
    session.set(b"large", &value).expect("set");
    durability.checkpoint().expect("asked");
    durability.want(engine.now(), 1);
    disk.hold(false);
    await_status(&durability, |status| {
        // Its end is to be durable.
        durability.settle(engine.now()).expect("durable");
        status.attempts > 0
    });
    let control = read_control(&disk).expect("read").expect("there");
    assert!(control.checkpoint.is_some(), "it counts");
    assert_eq!(control.first_needed, 1);
    assert!(segments(&disk) > value.len() / quick().files.segment_size as usize);
    assert_eq!(recover(disk).0[&b"large"[..]].0, value);
}

/// Timestamps go on behind the checkpoint, though the log has none that is so late: else what
/// comes would be taken for what the checkpoint has.
#[test]
fn what_comes_after_an_idle_checkpoint_counts() {
    let disk = SimulatedDisk::new(9);
    for run in 0..4_u8 {
        let engine = engine();
        let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
        let mut session = engine.session().expect("session");
        if run > 0 {
            assert_eq!(session.get(b"key"), Ok(Some(vec![run - 1])), "run {run}");
        }
        session.set(b"key", &[run]).expect("set");
        session.set(&[run], b"1").expect("set");
        if run % 2 == 0 {
            // Epochs go by, and nothing is written.
            thread::sleep(Duration::from_millis(30));
            make(&durability);
        }
    }
    assert_eq!(recover(disk).0.len(), 5);
}

/// By the time and by the bytes of the log, and not if nothing was written.
#[test]
fn checkpoints_are_made_when_they_are_due() {
    let engine = engine();
    let options = Options {
        checkpoints: CheckpointOptions {
            every: Some(Duration::from_millis(100)),
            log_bytes: None,
            ..CheckpointOptions::default()
        },
        ..quick()
    };
    let (durability, _) =
        Durability::start(&engine, SimulatedDisk::new(1), options).expect("started");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(
        durability.checkpoint_status().attempts,
        0,
        "nothing was written"
    );
    let mut session = engine.session().expect("session");
    session.set(b"a", b"1").expect("set");
    await_status(&durability, |status| status.attempts == 1);
    drop(durability);

    let engine = common::engine();
    let options = Options {
        checkpoints: CheckpointOptions {
            log_bytes: Some(1 << 20),
            ..CheckpointOptions::default()
        },
        ..quick()
    };
    let (durability, _) =
        Durability::start(&engine, SimulatedDisk::new(2), options).expect("started");
    let mut session = engine.session().expect("session");
    for _ in 0..200 {
        session.set(b"a", &[1; 4000]).expect("set");
    }
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(
        durability.checkpoint_status().attempts,
        0,
        "{:?}",
        durability.checkpoint_status()
    );
    for _ in 0..100 {
        session.set(b"a", &[1; 4000]).expect("set");
    }
    await_status(&durability, |status| {
        status.attempts == 1 && status.log_bytes < 1 << 20
    });
}
