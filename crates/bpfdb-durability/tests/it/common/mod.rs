//! Engines, what they have, and random writes.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod archive;
pub(crate) mod panicking;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status};
use bpfdb_durability::{CheckpointOptions, Durability, Options};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{Directory, Disk, LogError};

pub(crate) type Contents = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

pub(crate) fn engine() -> Engine {
    engine_with_tables(1)
}

/// With so many ordered tables.
pub(crate) fn engine_with_tables(ordered_tables: u32) -> Engine {
    let options = bpfdb::Options {
        memory_limit: 128 << 20,
        log_ring: 1 << 20,
        user_sessions: 8,
        ordered_tables,
        ..bpfdb::Options::default()
    };
    Engine::create(&options).expect("the engine starts")
}

pub(crate) fn quick() -> Options {
    Options {
        interval: Duration::from_millis(2),
        // So that what the disk is asked for comes in one order.
        flushes: 1,
        files: bpfdb_log::Options {
            segment_size: 4 << 20,
            batch_size: 1 << 20,
            spares: 2,
        },
        checkpoints: CheckpointOptions::on_request(),
        ..Options::default()
    }
}

pub(crate) fn start(engine: &Engine, disk: &SimulatedDisk, options: Options) -> Durability {
    let started = Durability::start(engine, disk.clone(), options);
    started.expect("started").0
}

/// Owns a directory of this test. A child that another test has just forked has the files of this
/// process, also the locked one, until it becomes another program.
pub(crate) fn own(path: &Path) -> Directory {
    for _ in 0..1000 {
        match Directory::own(path) {
            Err(LogError::Owned { .. }) => thread::sleep(Duration::from_millis(5)),
            owned => return owned.expect("nobody else has it"),
        }
    }
    panic!("somebody else owns {}", path.display());
}

/// A new engine that is recovered from the disk has this, and nothing else.
pub(crate) fn assert_recovers(disk: &SimulatedDisk, expected: &Contents) {
    let engine = engine();
    let _durability = start(&engine, disk, quick());
    assert!(contents(&engine) == *expected);
}

/// Until this has been the same for a second.
pub(crate) fn wait_until_steady<T: PartialEq>(figure: impl Fn() -> T) {
    let mut before = figure();
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = figure();
        if now == before {
            return;
        }
        before = now;
    }
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Files of the log, by how their names begin or end.
fn files(disk: &SimulatedDisk, is_one: impl Fn(&str) -> bool) -> usize {
    let names = disk.list("log").expect("listed");
    names.iter().filter(|name| is_one(name)).count()
}

pub(crate) fn segments(disk: &SimulatedDisk) -> usize {
    files(disk, |name| name.ends_with(".log"))
}

pub(crate) fn spares(disk: &SimulatedDisk) -> usize {
    files(disk, |name| name.starts_with("spare"))
}

/// Space that a directory takes, spares included.
pub(crate) fn space(disk: &SimulatedDisk) -> usize {
    let names = disk.names();
    let sizes = names.iter().filter_map(|name| disk.contents(name));
    sizes.map(|contents| contents.len()).sum()
}

pub(crate) fn contents(engine: &Engine) -> Contents {
    let mut session = engine.session().expect("session");
    let (mut all, mut cursor) = (Contents::new(), 0);
    loop {
        let (next, keys) = session.scan(cursor, 1000).expect("scan");
        for key in keys {
            let entry = session.entry(&key).expect("get").expect("nobody writes");
            all.insert(key, (entry.value, entry.expires_at));
        }
        if next == 0 {
            return all;
        }
        cursor = next;
    }
}

pub(crate) fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % bound
    }
}

pub(crate) fn write(
    session: &mut Session,
    random: &mut impl FnMut(usize) -> usize,
) -> Result<(), Status> {
    let key = format!("{:0width$}", random(300), width = 1 + random(3) * 17).into_bytes();
    let len = match random(60) {
        0 => 40_000 + random(300_000),
        1..5 => random(20_000),
        _ => random(100),
    };
    let value: Vec<u8> = (0..len).map(|at| (at + len) as u8).collect();
    match random(8) {
        0 => session.delete(&key).map(drop),
        1 => session
            .set_entry(&key, &value, Some(4_000_000_000_000))
            .map(drop),
        2 => {
            session.begin()?;
            for number in 0..random(5) {
                let written = session.set(format!("t{number}").as_bytes(), &value);
                if written.is_err() {
                    return session.rollback();
                }
            }
            session.commit()
        }
        _ => session.set(&key, &value),
    }
}

/// The seeds of a test: BPFDB_SEED is one of them, BPFDB_SEEDS says how many there are.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse()
                .expect("BPFDB_SEED and BPFDB_SEEDS are numbers"),
        )
    };
    match number("BPFDB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("BPFDB_SEEDS").unwrap_or(count),
    }
}
