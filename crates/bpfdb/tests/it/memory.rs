//! What the data takes, what is kept for reuse, and how much fits.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Options, SEGMENT_SIZE, Session, Stats, Status, abi, slot_size};

const PAGE: u64 = abi::BPFDB_PAGE_SIZE as u64;
const MIB: u64 = 1 << 20;
const LIMIT: u64 = 64 * MIB;
/// Idle pages are given back after some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

fn engine(memory_limit: u64) -> Engine {
    Engine::create(&Options {
        memory_limit,
        ..Options::default()
    })
    .expect("the engine starts")
}

fn stats(engine: &Engine) -> Stats {
    engine.stats().expect("stats")
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

/// Sets keys until there is no memory: how many.
fn fill(session: &mut Session, len: usize) -> u64 {
    let value = vec![7; len];
    let full = (0..).find(|&number| match session.set(&key(number), &value) {
        Ok(()) => false,
        Err(status) => {
            assert_eq!(status, Status::OutOfMemory);
            true
        }
    });
    full.expect("there is a limit")
}

/// Waits until `what` of the figures is at most `most`.
fn falls(engine: &Engine, most: u64, what: impl Fn(&Stats) -> u64) {
    let start = Instant::now();
    loop {
        let now = what(&stats(engine));
        if now <= most {
            return;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{now} bytes, should be {most} at most"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_large_value_that_is_deleted_is_not_used_any_more() {
    let engine = engine(256 * MIB);
    let mut session = engine.session().expect("session");
    let before = stats(&engine).memory_used();
    assert_eq!(before, PAGE, "the index has a page");
    session.set(b"large", &vec![1; 200 << 20]).expect("set");
    assert!(stats(&engine).memory_used() >= 200 * MIB);
    assert!(session.delete(b"large").expect("deleted"));
    // By the timer, some pieces at a time.
    falls(&engine, before, Stats::memory_used);
    // What is kept goes back by itself, without a shortage of memory.
    falls(&engine, MIB, Stats::memory_held);
    assert!(stats(&engine).memory_kept() <= MIB);
    // The figure that is there without a look at the pages is a second old at most.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(engine.memory_used(), before);
}

#[test]
fn what_is_full_is_used_and_what_was_deleted_is_kept() {
    let engine = engine(LIMIT);
    let mut session = engine.session().expect("session");
    let records = fill(&mut session, 100);
    let full = stats(&engine);
    assert_eq!(full.memory_used() + full.memory_kept(), full.memory_held());
    // Alerts compare it with the limit.
    assert!(
        full.memory_used() > LIMIT * 19 / 20,
        "{}",
        full.memory_used()
    );

    for number in 0..records {
        assert!(session.delete(&key(number)).expect("deleted"));
    }
    falls(&engine, PAGE, Stats::memory_used);
    engine.sweep().expect("sweep");
    let purged = stats(&engine);
    assert!(purged.memory_held() <= MIB, "{}", purged.memory_held());
    // It is there for data of any size.
    let values = fill(&mut session, 30_000);
    assert!(values * 30_000 > LIMIT * 4 / 5, "{values}");
}

#[test]
fn the_index_goes_back_by_itself() {
    let engine = engine(LIMIT);
    let mut session = engine.session().expect("session");
    let records = 400_000;
    for number in 0..records {
        session.set(&key(number), b"x").expect("set");
    }
    assert!(stats(&engine).memory_used() > 25 * MIB);
    for number in 0..records {
        assert!(session.delete(&key(number)).expect("deleted"));
    }
    falls(&engine, PAGE, Stats::memory_used);
    falls(&engine, MIB, Stats::memory_held);
}

/// Bytes that data of one length may take, its share of the index left out.
#[test]
fn values_of_any_length_fit_tightly() {
    for (len, most) in [
        (100, 115),
        (150, 165),
        (600, 660),
        (5000, 5100),
        (40_000, 40_700),
    ] {
        let engine = engine(LIMIT);
        let mut session = engine.session().expect("session");
        let records = fill(&mut session, len);
        // The one that found no room is given up.
        engine.sweep().expect("sweep");
        let full = stats(&engine);
        let index = full.index_pages * PAGE;
        let each = (LIMIT - LIMIT / u64::from(abi::BPFDB_RESERVE_SHARE) - index) / records;
        assert!(each <= most, "{each} bytes for each value of {len}");
        // MEMORY USAGE is right.
        let slots: u64 = full
            .classes
            .iter()
            .map(|c| c.used * u64::from(c.size))
            .sum();
        assert_eq!(slots, records * slot_size(len) as u64, "{len}");
    }
    assert_eq!(LIMIT % SEGMENT_SIZE, 0);
}
