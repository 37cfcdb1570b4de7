//! Values longer than a slot: up to 512 MiB, in pieces.

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Operation, Options, Session, Status, abi};

const SLOT: usize = abi::BPFDB_VALUE_MAX as usize;
const PART: usize = abi::BPFDB_LARGE_PART as usize;
/// Longer than a busy machine takes for anything.
const PATIENCE: Duration = Duration::from_secs(60);

fn engine() -> common::Lent {
    common::lent(0)
}

/// Bytes that tell where they belong.
fn value(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Slots in use, of all classes, when what has no holder has been given back: by the
/// timer in a moment, by this at once.
fn slots(engine: &Engine) -> u64 {
    engine.sweep().expect("sweep");
    let stats = engine.stats().expect("stats");
    stats.classes.iter().map(|class| class.used).sum()
}

fn session(engine: &Engine) -> Session {
    engine.session().expect("a session")
}

#[test]
fn every_length_comes_back() {
    let engine = engine();
    let mut session = session(&engine);
    let before = slots(&engine);
    for len in [
        SLOT - 1,
        SLOT,
        SLOT + 1,
        SLOT + 15,
        2 * SLOT - 1,
        2 * SLOT,
        2 * SLOT + 1,
        PART,
        PART + 1,
        2 * PART - 7,
        10 << 20,
    ] {
        let bytes = value(len, len as u64);
        session.set(b"key", &bytes).expect("set");
        assert!(
            session.get(b"key").expect("get").as_ref() == Some(&bytes),
            "{len}"
        );
        assert_eq!(session.value_len(b"key"), Ok(Some(len as u64)));
        for (start, end) in [(0, 1), (7, 9), (SLOT - 3, SLOT + 3), (len - 1, len), (5, 5)] {
            let end = end.min(len);
            let part = session
                .get_range(b"key", |all| {
                    assert_eq!(all, len as u64);
                    start as u64..end as u64
                })
                .expect("part");
            assert_eq!(
                part.as_deref(),
                Some(&bytes[start..end]),
                "{start}..{end} of {len}"
            );
        }
    }
    assert_eq!(session.delete(b"key"), Ok(true));
    assert_eq!(session.get(b"key"), Ok(None));
    assert_eq!(slots(&engine), before);
}

/// Every part of a read ends inside the buffer, whatever lies before it there.
#[test]
fn parts_begin_anywhere() {
    let engine = engine();
    let mut session = session(&engine);
    let bytes = value((1 << 20) + 100, 3);
    for key_len in [1, 8, 9, 16, 200, 512] {
        let key = vec![b'k'; key_len];
        session.set(&key, &bytes).expect("set");
        for start in [
            1, 8, 16, 40, 48, 56, 64, 128, 560, 65_535, 65_544, 65_576, 66_000,
        ] {
            for len in [PART - 8, PART, PART + SLOT, 700_000] {
                let range = start..start + len;
                let part = session
                    .get_range(&key, |_| range.start as u64..range.end as u64)
                    .expect("get");
                assert!(
                    part.as_deref() == Some(&bytes[range.clone()]),
                    "key of {key_len} bytes, {range:?}"
                );
            }
        }
        session.delete(&key).expect("delete");
    }
}

#[test]
fn a_shared_value_that_is_not_taken_is_given_up() {
    let engine = engine();
    let mut session = session(&engine);
    let before = slots(&engine);
    session.set(b"from", &value(200_000, 1)).expect("set");
    for to in [&[b'x'; 600][..], b""] {
        session.begin().expect("begin");
        let refused = session.share_large(b"from", to, None);
        assert_eq!(refused, Err(Status::KeyTooLarge));
        session.rollback().expect("rollback");
    }
    let unknown = session.share_large(&[b'x'; 600], b"to", None);
    assert_eq!(unknown, Err(Status::KeyTooLarge));
    assert_eq!(
        session.share_large(b"from", b"to", None),
        Err(Status::WrongState),
        "without a transaction nothing keeps it"
    );
    session.delete(b"from").expect("delete");
    assert_eq!(slots(&engine), before);
}

#[test]
fn the_longest_value_is_512_mib() {
    let engine = Engine::create(&Options {
        memory_limit: 640 << 20,
        max_sessions: 16,
        user_sessions: 2,
        ..Options::default()
    })
    .expect("the engine starts");
    let mut session = session(&engine);
    let most = abi::BPFDB_LARGE_MAX as usize;
    let mut bytes = vec![7; most + 1];
    bytes[most - 1] = 9;
    assert_eq!(session.set(b"key", &bytes), Err(Status::ValueTooLarge));
    bytes.pop();
    let begun = Instant::now();
    session.set(b"key", &bytes).expect("set");
    println!("set of 512 MiB: {:?}", begun.elapsed());
    let begun = Instant::now();
    assert!(session.get(b"key").expect("get") == Some(bytes));
    println!("get of 512 MiB: {:?}", begun.elapsed());
    let end = session.get_range(b"key", |len| len - 2..len);
    assert_eq!(end, Ok(Some(vec![7, 9])));
    let begun = Instant::now();
    assert_eq!(session.delete(b"key"), Ok(true));
    println!("delete of 512 MiB: {:?}", begun.elapsed());
}

#[test]
fn transactions_commit_and_roll_back_large_values() {
    let engine = engine();
    let (mut writer, mut reader) = (session(&engine), session(&engine));
    let before = slots(&engine);
    let (old, new) = (value(3 * SLOT + 5, 1), value(5 * SLOT, 2));
    writer.set(b"key", &old).expect("set");
    let with_old = slots(&engine);

    writer.begin().expect("begin");
    writer.set(b"key", &new).expect("set");
    assert!(writer.get(b"key").expect("own write").as_ref() == Some(&new));
    assert!(reader.get(b"key").expect("get").as_ref() == Some(&old));
    writer.set(b"key", &old).expect("again");
    writer.set(b"key", &new).expect("and again");
    writer.rollback().expect("rollback");
    assert_eq!(slots(&engine), with_old);

    writer.begin().expect("begin");
    assert!(writer.get_for_update(b"key").expect("get").as_ref() == Some(&old));
    writer.set(b"key", &new).expect("set");
    writer.set(b"other", &old).expect("set");
    writer.commit().expect("commit");
    assert!(reader.get(b"key").expect("get") == Some(new));
    assert!(reader.get(b"other").expect("get") == Some(old));

    writer.set(b"key", b"small").expect("set");
    writer.delete(b"other").expect("delete");
    writer.delete(b"key").expect("delete");
    assert_eq!(slots(&engine), before);
}

#[test]
fn a_snapshot_keeps_the_old_one() {
    let engine = engine();
    let (mut writer, mut reader) = (session(&engine), session(&engine));
    let before = slots(&engine);
    let values: Vec<Vec<u8>> = (0..3).map(|i| value(SLOT * 4 + i, i as u64)).collect();
    writer.set(b"key", &values[0]).expect("set");
    reader.begin_read_only().expect("begin");
    for new in &values[1..] {
        writer.set(b"key", new).expect("set");
    }
    assert!(reader.get(b"key").expect("get").as_ref() == Some(&values[0]));
    assert!(writer.get(b"key").expect("get").as_ref() == Some(&values[2]));
    assert_eq!(reader.set(b"key", &values[0]), Err(Status::ReadOnly));
    assert!(reader.get(b"key").expect("get").as_ref() == Some(&values[0]));
    reader.commit().expect("commit");
    writer.delete(b"key").expect("delete");
    engine.sweep().expect("sweep");
    assert_eq!(slots(&engine), before);
}

#[test]
fn expiry_gives_all_memory_back() {
    let engine = engine();
    let mut session = session(&engine);
    let before = slots(&engine);
    let bytes = value(SLOT * 9 + 3, 4);
    let now = engine.now_ms();
    engine.stop_clock(now);
    session
        .set_entry(b"key", &bytes, Some(now + 10))
        .expect("set");
    let entry = session.entry(b"key").expect("get").expect("there");
    assert!(entry.value == bytes && entry.expires_at == Some(now + 10));
    // A time that is over deletes.
    session.set_entry(b"over", &bytes, Some(now)).expect("set");
    assert_eq!(session.get(b"over"), Ok(None));
    engine.stop_clock(now + 11);
    assert_eq!(session.get(b"key"), Ok(None));
    engine.sweep().expect("sweep");
    assert_eq!(slots(&engine), before);
    assert_eq!(engine.stats().expect("stats").records, 0);
}

#[test]
fn a_shared_value_lives_as_long_as_its_last_version() {
    let engine = engine();
    let mut session = session(&engine);
    let before = slots(&engine);
    let bytes = value(SLOT * 6 + 1, 5);
    let until = engine.now_ms() + 1_000_000;
    session.set(b"small", b"x").expect("set");
    session.set(b"a", &bytes).expect("set");
    let one = slots(&engine);

    session.begin().expect("begin");
    assert_eq!(session.share_large(b"small", b"b", None), Ok(false));
    assert_eq!(session.share_large(b"absent", b"b", None), Ok(false));
    assert_eq!(session.share_large(b"a", b"b", None), Ok(true));
    assert_eq!(session.share_large(b"a", b"a", Some(until)), Ok(true));
    assert_eq!(session.share_large(b"a", b"a", Some(until)), Ok(true));
    session.rollback().expect("rollback");
    assert_eq!(slots(&engine), one);

    session.begin().expect("begin");
    assert_eq!(session.share_large(b"a", b"b", Some(until)), Ok(true));
    session.commit().expect("commit");
    assert_eq!(slots(&engine), one);
    session.delete(b"a").expect("delete");
    let entry = session.entry(b"b").expect("get").expect("there");
    assert!(entry.value == bytes && entry.expires_at == Some(until));
    session.delete(b"b").expect("delete");
    session.delete(b"small").expect("delete");
    assert_eq!(slots(&engine), before);
}

#[test]
fn a_batch_says_that_a_value_is_large() {
    let engine = engine();
    let mut session = session(&engine);
    let bytes = value(SLOT + 1, 6);
    session.set(b"key", &bytes).expect("set");
    let before = slots(&engine);
    let outcomes = session
        .batch(
            &[
                Operation::Get(b"key"),
                Operation::Set(b"other", &bytes),
                Operation::Get(b"other"),
            ],
            SLOT,
        )
        .expect("runs");
    let expected = [
        Err(Status::FoundLarge),
        Err(Status::ValueTooLarge),
        Ok(None),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(slots(&engine), before);
}

#[test]
fn out_of_memory_leaves_nothing() {
    let engine = Engine::create(&Options {
        memory_limit: 32 << 20,
        max_sessions: 16,
        user_sessions: 2,
        ..Options::default()
    })
    .expect("the engine starts");
    let mut session = session(&engine);
    session.set(b"small", b"1").expect("set");
    let before = slots(&engine);
    // Refused at once, and in the middle.
    assert_eq!(
        session.set(b"key", &value(40 << 20, 1)),
        Err(Status::OutOfMemory)
    );
    assert_eq!(slots(&engine), before);
    let bytes = value(1 << 20, 2);
    let mut stored = 0;
    while session.set(format!("{stored}").as_bytes(), &bytes).is_ok() {
        stored += 1;
    }
    assert!((25..32).contains(&stored), "{stored} MiB");
    let full = slots(&engine);
    session.begin().expect("begin");
    assert_eq!(
        session.set(b"key", &value(3 << 20, 3)),
        Err(Status::OutOfMemory)
    );
    assert_eq!(
        session.get(b"small"),
        Err(Status::WrongState),
        "the Error fails it"
    );
    assert_eq!(session.commit(), Err(Status::RolledBack));
    assert_eq!(slots(&engine), full);
    for key in 0..stored {
        assert_eq!(session.delete(format!("{key}").as_bytes()), Ok(true));
    }
    assert_eq!(slots(&engine), before);
    session
        .set(b"key", &value(20 << 20, 4))
        .expect("there is room again");
}

/// Who dies while building leaves nothing behind.
#[test]
fn a_session_that_ends_gives_up_what_it_builds() {
    let engine = engine();
    let before = slots(&engine);
    let index = engine.open_session().expect("opens").expect("one is free");
    let mut borrowed = engine.borrow_session(index).expect("borrowed");
    borrowed.begin_large(&value(4 * PART, 1)[..PART], 4 * PART as u64);
    assert!(slots(&engine) >= before + 5);
    drop(borrowed);
    engine.close_session(index).expect("closes");
    assert_eq!(slots(&engine), before);
}

/// Readers see one value or the other, whole, whatever is written meanwhile.
#[test]
fn no_reader_sees_a_torn_value() {
    /// So often each thread has worked before the end, however the processors are divided.
    const TIMES: u64 = 10;
    let engine = engine();
    let stop = AtomicBool::new(false);
    let counts: [AtomicU64; 4] = Default::default();
    let lens = [3 * PART + 11, SLOT + 1, 2 * PART, 100];
    let write = |seed: u8, done: &AtomicU64| {
        let mut session = session(&engine);
        let mut count = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            let byte = seed + (count % 100) as u8;
            let len = lens[(count % 4) as usize];
            match session.set(b"key", &vec![byte; len]) {
                Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                Err(Status::Conflict) => 0,
                Err(status) => panic!("{status}"),
            };
            count += 1;
        }
    };
    let read = |done: &AtomicU64| {
        let mut session = session(&engine);
        while !stop.load(Ordering::Relaxed) {
            if let Some(bytes) = session.get(b"key").expect("get") {
                assert!(lens.contains(&bytes.len()));
                assert!(bytes.iter().all(|&byte| byte == bytes[0]), "torn");
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let has_worked = |done: &AtomicU64| done.load(Ordering::Relaxed) > TIMES;
    thread::scope(|scope| {
        let [first, second, readers @ ..] = &counts;
        scope.spawn(|| write(0, first));
        scope.spawn(|| write(100, second));
        for done in readers {
            let read = &read;
            scope.spawn(move || read(done));
        }
        let begun = Instant::now();
        thread::sleep(Duration::from_secs(2));
        while !counts.iter().all(has_worked) && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(counts.iter().all(has_worked), "{counts:?}");
    session(&engine).delete(b"key").expect("delete");
    assert_eq!(slots(&engine), 0);
}

/// What small values had, empty slabs and index pages, is there for a large one.
#[test]
fn memory_of_small_values_is_used() {
    let engine = Engine::create(&Options {
        memory_limit: 64 << 20,
        ..Options::default()
    })
    .expect("the engine starts");
    let mut session = engine.session().expect("session");
    let key = |number: u32| format!("small:{number}").into_bytes();
    let full = (0..)
        .find(|&number| session.set(&key(number), &[1; 500]).is_err())
        .expect("there is a limit");
    for number in 0..full {
        assert!(session.delete(&key(number)).expect("deleted"));
    }
    let large = vec![7; 45 << 20];
    session.set(b"large", &large).expect("there is room");
    assert!(session.get(b"large").expect("found").as_deref() == Some(&large[..]));
}
