//! A full disk: an engine starts on it, and it heals by whatever gives space back.

use crate::it::common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bpfdb::{Engine, Status};
use bpfdb_durability::{CheckpointOptions, Durability, Options, State};
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_log::{Disk, Recovery};
use common::{
    assert_recovers, contents, engine, quick, segments, space, start, wait_until, wait_until_steady,
};

fn is_full(durability: &Durability) -> bool {
    matches!(durability.state(), State::Full(_))
}

/// Nobody can take another byte, and no spare is left.
fn fill(disk: &SimulatedDisk) {
    for name in disk.list("log").expect("listed") {
        if name.starts_with("spare") {
            disk.remove(&format!("log/{name}")).expect("removed");
        }
    }
    disk.flush_folder("log").expect("flushed");
    disk.set_capacity(space(disk));
}

/// Overwrites the same few keys until the engine refuses because the disk is full.
fn write_until_full(engine: &Engine, durability: &Durability) {
    let mut session = engine.session().expect("session");
    session.never_wait();
    for number in 0_u32.. {
        let key = (number % 50).to_le_bytes();
        match session.set(&key, &[number as u8; 20_000]) {
            Err(Status::LogClosed) => {
                wait_until("full", || is_full(durability));
                return;
            }
            Ok(()) | Err(Status::LogFull) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_engine_is_recovered_from_a_full_disk_and_is_read_only() {
    let disk = SimulatedDisk::new(1);
    let old = engine();
    let durability = start(&old, &disk, quick());
    let mut session = old.session().expect("session");
    for number in 0..100_u8 {
        session.set(&[number], &[number; 3000]).expect("set");
    }
    durability.close().expect("written");
    let before = contents(&old);
    fill(&disk);
    for _ in 0..2 {
        // It may be stopped again: the files are as they were, and nothing is missing there.
        let new = engine();
        let durability = start(&new, &disk, quick());
        assert!(is_full(&durability), "{:?}", durability.state());
        assert!(contents(&new) == before, "it is read");
        durability.close().expect("the files have everything");
    }
    let new = engine();
    let durability = start(&new, &disk, quick());
    let mut session = new.session().expect("session");
    session.never_wait();
    assert_eq!(session.set(b"key", b"value"), Err(Status::LogClosed));
    assert_eq!(session.delete(&[7]), Err(Status::LogClosed));
    // Nobody waits until there is space.
    let number = durability.checkpoint().expect("asked");
    let refused = durability.await_checkpoint(number).unwrap_err();
    assert!(refused.to_string().contains("no space"), "{refused}");
    // What the files have is durable, also for a reply that exposes all that there is.
    wait_until("durable", || durability.durable() + 1 >= new.now());
    disk.set_capacity(usize::MAX);
    wait_until("healed", || durability.state() == State::Writing);
    durability.checkpoint().expect("asked");
    session.set(b"key", b"value").expect("set");
    assert!(session.delete(&[7]).expect("deleted"));
    durability.settle(new.now()).expect("durable");
    wait_until("made", || durability.checkpoint_status().last.is_some());
    let last = contents(&new);
    assert_ne!(last, before);
    // And with the power gone.
    let disk = disk.lose_power();
    drop(durability);
    assert_recovers(&disk, &last);
}

/// The rings have what the disk has not: nothing of it is lost.
#[test]
fn an_engine_with_unwritten_rings_is_attached_again_on_a_full_disk() {
    let disk = SimulatedDisk::new(2);
    let engine = engine();
    let durability = start(&engine, &disk, quick());
    disk.set_capacity(space(&disk));
    write_until_full(&engine, &durability);
    let before = contents(&engine);
    assert!(durability.close().is_err(), "the rings have more");
    // The reserve too.
    fill(&disk);
    for _ in 0..2 {
        assert!(
            durability_of(&engine, &disk, |durability| {
                wait_until("full", || is_full(durability));
                assert!(contents(&engine) == before);
                let mut session = engine.session().expect("session");
                session.never_wait();
                assert_eq!(session.set(b"key", b"value"), Err(Status::LogClosed));
            })
            .is_err()
        );
    }
    let durability = start(&engine, &disk, quick());
    wait_until("full", || is_full(&durability));
    disk.set_capacity(usize::MAX);
    wait_until("healed", || durability.state() == State::Writing);
    durability.settle(engine.now()).expect("durable");
    let disk = disk.lose_power();
    drop(durability);
    assert_recovers(&disk, &before);
}

/// Batches that are not known to be flushed are written again at a start, for which the disk
/// may have no space. Until then no synchronous client sees what they have.
#[test]
fn what_may_never_have_been_flushed_is_not_called_durable() {
    for (is_kept, is_closed) in [(false, false), (true, false), (true, true)] {
        let disk = SimulatedDisk::new(5);
        let old = engine();
        let durability = start(&old, &disk, quick());
        let mut session = old.session().expect("session");
        session.set(b"key", b"value").expect("set");
        durability.settle(old.now()).expect("durable");
        let killed = if is_closed { disk.clone() } else { disk.kill() };
        drop((durability, session));
        let disk = killed;
        let epoch = Recovery::end_of(disk.clone()).expect("read").epoch;
        let new = if is_kept { old } else { engine() };
        for nth in 0..30 {
            disk.fail(Operation::Write, nth, Fault::Full);
        }
        let durability = start(&new, &disk, quick());
        assert!(is_full(&durability));
        let expected = if is_closed { epoch } else { 0 };
        assert_eq!(durability.durable(), expected, "kept: {is_kept}");
        let (bell, rung) = mpsc::channel();
        durability.on_change(move || {
            let _ = bell.send(());
        });
        durability.want(epoch, 1);
        wait_until("durable", || durability.durable() >= epoch);
        rung.recv().expect("whoever waits is told");
    }
}

/// There is no space for a segment, but all that the files have was written again.
#[test]
fn what_was_flushed_is_durable_without_space_for_a_segment() {
    let disk = SimulatedDisk::new(6);
    let old = engine();
    let durability = start(&old, &disk, quick());
    let mut session = old.session().expect("session");
    session.set(b"key", b"value").expect("set");
    durability.settle(old.now()).expect("durable");
    let disk = disk.kill();
    drop(durability);
    fill(&disk);
    let epoch = Recovery::end_of(disk.clone()).expect("read").epoch;
    let engine = engine();
    let durability = start(&engine, &disk, quick());
    assert!(is_full(&durability));
    // And there were no writes since: so all that there is.
    assert!(durability.durable() >= epoch);
    wait_until("all", || durability.durable() + 1 >= engine.now());
}

/// A log that lasts as long as this, and how it ended.
fn durability_of(
    engine: &Engine,
    disk: &SimulatedDisk,
    meanwhile: impl FnOnce(&Durability),
) -> Result<(), State> {
    let durability = start(engine, disk, quick());
    meanwhile(&durability);
    durability.close()
}

/// A checkpoint is complete, and waits for the last commits that it may have seen. These wait for
/// a segment, of which the disk would have many if the checkpoint counted.
#[test]
fn a_checkpoint_that_would_give_space_back_comes_to_count() {
    let disk = SimulatedDisk::new(3);
    let engine = engine();
    let durability = with_slow_checkpoints(&engine, &disk);
    let mut session = engine.session().expect("session");
    // Many segments of one key.
    for _ in 0..1000 {
        while session.set(b"hot", &[1; 20_000]).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
    }
    durability.settle(engine.now()).expect("durable");
    await_spares(&disk);
    // Room for the file of the checkpoint, and for no segment.
    disk.set_capacity(space(&disk) + (2 << 20));
    let attempt = durability.checkpoint().expect("begun");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = engine.session().expect("session");
            session.never_wait();
            while !stop.load(Ordering::Relaxed) {
                let _ = session.set(b"hot", &[2; 20_000]);
            }
        });
        wait_until("full", || is_full(&durability));
        stop.store(true, Ordering::Relaxed);
    });
    let status = durability.checkpoint_status();
    assert!(status.running.is_some(), "it is complete later: {status:?}");
    wait_until("healed", || durability.state() == State::Writing);
    durability.await_checkpoint(attempt).expect("made");
    assert!(segments(&disk) <= 3, "the others are spares, or gone");
    session.set(b"after", b"1").expect("set");
    durability.settle(engine.now()).expect("durable");
    let last = contents(&engine);
    let disk = disk.lose_power();
    drop(durability);
    assert_recovers(&disk, &last);
}

/// The log has no room, so nothing that comes after a request becomes durable. A checkpoint starts
/// nevertheless: it is what gives the space back.
#[test]
fn a_checkpoint_that_is_asked_for_on_a_full_disk_gives_space_back() {
    let disk = SimulatedDisk::new(7);
    let engine = engine();
    let durability = start(&engine, &disk, quick());
    let mut session = engine.session().expect("session");
    // Many segments of a few keys.
    for number in 0..1000_u32 {
        while session
            .set(&(number % 50).to_le_bytes(), &[1; 20_000])
            .is_err()
        {
            thread::sleep(Duration::from_millis(1));
        }
    }
    durability.settle(engine.now()).expect("durable");
    await_spares(&disk);
    let before = segments(&disk);
    // Room for the file of the checkpoint, and for no segment.
    disk.set_capacity(space(&disk) + (2 << 20));
    write_until_full(&engine, &durability);
    let first = durability.checkpoint().expect("asked");
    let second = durability.schedule_checkpoint();
    wait_until("both", || durability.checkpoint_status().attempts >= second);
    assert_eq!(durability.checkpoint_status().failed, 0, "from {first} on");
    wait_until("healed", || durability.state() == State::Writing);
    assert!(segments(&disk) < before);
    session.set(b"after", b"1").expect("set");
    durability.settle(engine.now()).expect("durable");
    let last = contents(&engine);
    let disk = disk.lose_power();
    drop(durability);
    assert_recovers(&disk, &last);
}

/// Until the log has prepared what it keeps in spare, which takes space bit by bit.
fn await_spares(disk: &SimulatedDisk) {
    wait_until_steady(|| space(disk));
}

/// A checkpoint takes eight seconds for what is not overwritten.
fn with_slow_checkpoints(engine: &Engine, disk: &SimulatedDisk) -> Durability {
    let slow = Options {
        checkpoints: CheckpointOptions {
            rate: Some(128 << 10),
            ..CheckpointOptions::on_request()
        },
        ..quick()
    };
    let durability = start(engine, disk, slow);
    let mut session = engine.session().expect("session");
    for number in 0..100_u8 {
        session.set(&[number], &[number; 10_000]).expect("set");
    }
    durability
}

/// More is in the kernel than the log's reserve can take: a large value. The checkpoint is given up,
/// and nothing is lost.
#[test]
fn a_checkpoint_that_needs_more_than_the_reserve_is_given_up() {
    let disk = SimulatedDisk::new(4);
    let engine = engine();
    let durability = with_slow_checkpoints(&engine, &disk);
    durability.settle(engine.now()).expect("durable");
    await_spares(&disk);
    disk.set_capacity(space(&disk) + (2 << 20));
    let attempt = durability.checkpoint().expect("begun");
    let mut session = engine.session().expect("session");
    session.set(b"large", &vec![3; 30 << 20]).expect("set");
    wait_until("full", || is_full(&durability));
    let status = durability.checkpoint_status();
    assert!(status.running.is_some(), "it is complete later: {status:?}");
    let why = durability.await_checkpoint(attempt).expect_err("given up");
    assert!(why.to_string().contains("the disk is full"), "{why}");
    let files = || disk.list("checkpoint").expect("listed");
    assert!(files().is_empty(), "{:?}", files());
    assert!(is_full(&durability));
    disk.set_capacity(usize::MAX);
    wait_until("healed", || durability.state() == State::Writing);
    durability.settle(engine.now()).expect("durable");
    let last = contents(&engine);
    let disk = disk.lose_power();
    drop(durability);
    assert_recovers(&disk, &last);
}
