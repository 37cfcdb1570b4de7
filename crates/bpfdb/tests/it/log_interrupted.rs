//! A reader of the log's rings comes in the middle of a record's making: `bpf/tests/ring.bpf.c`.

use crate::common;

use std::time::{Duration, Instant};

use bpfdb::{Engine, Options, Program, Status, find_program};

/// Bytes of a ring. Smaller than what is written, so that older records lie where new ones come.
const RING: u32 = 1 << 20;
/// Bytes of a value: as many words as the reader's `WORDS`.
const VALUE: usize = 375 * 8;
/// Records that are written between two looks at how far the reader is. They take less than a ring.
const AT_ONCE: u64 = 100;
/// In the end there are more than two rings of them, and positions that 32 bits can tell.
const RECORDS: u64 = 400_000;
const TIME: Duration = Duration::from_secs(4);

fn start(reader: &Program) {
    let begun = Instant::now();
    while reader.run(&[]).expect("run") == Status::MemoryPending.code() {
        assert!(begun.elapsed() < Duration::from_secs(10), "no memory");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn counted(number: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[VALUE - 8..].copy_from_slice(&number.to_le_bytes());
    value
}

/// Invariant 5 of decision 18: the head of a record is stored last. So a reader at any moment
/// finds a whole record with its timestamp, or none. Invariant 2: of a key each write has a later
/// timestamp than the one before.
#[test]
fn a_record_is_whole_or_not_there_whenever_it_is_looked_at() {
    // The one that the reader interrupts.
    common::stay_on_a_processor();
    let options = Options {
        log_ring: RING,
        ..common::options()
    };
    let engine = Engine::create(&options).expect("the engine starts");
    let log = engine.log().expect("the rings").expect("there is a log");
    let object = common::load(&engine, "ring");
    let find = |name: &str| find_program(&object, name).expect("a program of the object");
    let ask = |program: &Program| program.run(&[]).expect("ask the reader");
    let (at, records, middle, wrong) = (
        find("ring_at"),
        find("ring_records"),
        find("ring_middle"),
        find("ring_wrong"),
    );
    start(&find("ring_start"));

    let mut session = engine.session().expect("session");
    let (begun, mut written) = (Instant::now(), 0);
    while begun.elapsed() < TIME && written < RECORDS {
        for _ in 0..AT_ONCE {
            written += 1;
            session.set(b"hot", &counted(written)).expect("set");
        }
        let ring = (0..log.rings()).find(|&ring| log.reserved(ring) > 0);
        let ring = ring.expect("one is written to");
        // Others may have kept the reader from the processor.
        while log.reserved(ring) - u64::from(ask(&at)) > u64::from(RING) / 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        log.give_up(ring, u64::from(ask(&at)));
    }
    let begun = Instant::now();
    while u64::from(ask(&records)) < written && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(ask(&wrong), 0, "of {written}");
    assert_eq!(u64::from(ask(&records)), written);
    let found = ask(&middle);
    println!("{found} looks in the middle of {written} records");
    let emulated = std::env::var_os("BPFDB_TEST_EMULATED").is_some();
    let enough = if emulated { 1 } else { 100 };
    assert!(found >= enough, "{found} of {written}");
    assert!(written * VALUE as u64 > 2 * u64::from(RING), "{written}");
}
