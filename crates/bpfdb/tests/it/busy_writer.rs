//! Readers without a transaction, of a value that a writer replaces all the time.

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, abi, find_program};

/// What `bpf/tests/rewrite.bpf.c` writes: its key, and how long the value is.
const KEY: &[u8] = &1u64.to_ne_bytes();
const LEN: usize = 20_000;
/// The writer runs for so long at a time, and the readers in all.
const TURN: Duration = Duration::from_millis(50);
const READING: Duration = Duration::from_secs(2);

/// Runs `read` beside the writer: how often it read, and how many values there were.
fn beside_a_writer(engine: &Engine, mut read: impl FnMut(&mut Session)) -> (u64, u64) {
    let object = common::load(engine, "rewrite");
    let writer = find_program(&object, "rewrite_for").expect("the program");
    let mut session = engine.session().expect("session");
    let of_writer = engine.session().expect("session");
    let index = of_writer.index().into();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut reads = 0;

    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let turn = [TURN.as_nanos() as u64, index];
                let count = writer.run(&turn).expect("run") as i32;
                assert!(count >= 0, "a SET was refused: {:#x}", -count);
                written.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
        while written.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        let end = Instant::now() + READING;
        // The writer is made to end, whatever happens here.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while Instant::now() < end {
                read(&mut session);
                reads += 1;
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    (reads, written.into_inner())
}

fn is_whole(value: &[u8]) -> bool {
    value.len() == LEN && value[..8] == value[LEN - 8..]
}

#[test]
fn a_long_value_is_read_beside_a_writer() {
    let engine = common::engine();
    let (reads, written) = beside_a_writer(&engine, |session| {
        let value = session.get(KEY).expect("no GET fails");
        assert!(value.is_some_and(|value| is_whole(&value)), "parts of two");
    });
    assert!(reads > 0 && written > 0, "{reads} reads, {written} writes");
    let stats = engine.stats().expect("stats");
    println!("{reads} reads beside {written} writes");
    // Of the two ways to read it, the second was needed too. Processors that are emulated take turns.
    let by_snapshot = stats.counters.operations[abi::BPFDB_OP_BEGIN_READ_ONLY as usize];
    let is_emulated = std::env::var_os("BPFDB_TEST_EMULATED").is_some();
    assert!(
        by_snapshot > 0 || is_emulated,
        "{reads} reads beside {written} writes"
    );
    assert_eq!(stats.snapshots, 0);
}

/// Longer than a slot: read in parts, by several calls.
#[test]
fn a_large_value_is_read_beside_a_writer() {
    const LARGE: usize = 600_000;
    let engine = common::engine();
    let mut writer = engine.session().expect("session");
    let mut reader = engine.session().expect("session");
    let values = [1u8, 2].map(|byte| vec![byte; LARGE]);
    let (stop, mut written) = (AtomicBool::new(false), 0);

    writer.set(KEY, &values[0]).expect("set");
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let end = Instant::now() + READING;
            while Instant::now() < end {
                let value = reader.get(KEY).expect("no GET fails").expect("a value");
                assert!(values.contains(&value), "parts of two");
                let range = |len| len - 8..len;
                let tail = reader.get_range(KEY, range).expect("no GET fails");
                assert_eq!(tail.expect("a value").len(), 8);
                assert_eq!(reader.value_len(KEY), Ok(Some(LARGE as u64)));
            }
            stop.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) && !reading.is_finished() {
            written += 1;
            writer.set(KEY, &values[written % 2]).expect("set");
        }
    });
    assert!(written > 1, "{written} writes");
}
