//! A full disk: an engine starts on it, and it heals by whatever gives space back.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Status};
use bpfdb_durability::{Durability, Options, State};
use bpfdb_log::Disk;
use bpfdb_log::simulation::SimulatedDisk;
use common::{contents, engine, quick};

fn start(engine: &Engine, disk: &SimulatedDisk, options: Options) -> Durability {
    let started = Durability::start(engine, disk.clone(), options);
    started.expect("started").0
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn is_full(durability: &Durability) -> bool {
    matches!(durability.state(), State::Full(_))
}

/// Space that a directory takes, spares included.
fn space(disk: &SimulatedDisk) -> usize {
    let names = disk.names();
    let sizes = names.iter().filter_map(|name| disk.contents(name));
    sizes.map(|contents| contents.len()).sum()
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
            Err(Status::LogFull) if is_full(durability) => return,
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
    assert_eq!(session.set(b"key", b"value"), Err(Status::LogFull));
    assert_eq!(session.delete(&[7]), Err(Status::LogFull));
    assert!(
        durability.checkpoint().is_ok(),
        "it is made when there is space"
    );
    disk.set_capacity(usize::MAX);
    wait_until("healed", || durability.state() == State::Writing);
    session.set(b"key", b"value").expect("set");
    assert!(session.delete(&[7]).expect("deleted"));
    durability.settle(new.now()).expect("durable");
    wait_until("made", || durability.checkpoint_status().last.is_some());
    let last = contents(&new);
    assert_ne!(last, before);
    // And with the power gone.
    let disk = disk.lose_power();
    drop(durability);
    let after = engine();
    let durability = start(&after, &disk, quick());
    assert!(contents(&after) == last);
    drop(durability);
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
    for _ in 0..2 {
        assert!(
            durability_of(&engine, &disk, |durability| {
                wait_until("full", || is_full(durability));
                assert!(contents(&engine) == before);
                let mut session = engine.session().expect("session");
                session.never_wait();
                assert_eq!(session.set(b"key", b"value"), Err(Status::LogFull));
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
    let after = common::engine();
    let durability = start(&after, &disk, quick());
    assert!(contents(&after) == before);
    drop(durability);
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
