//! SCAN finds every key that stays, while others come and go and the index is
//! split and merged under it.

use crate::common;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::{Engine, Options, Session, Status};

fn engine() -> Engine {
    let options = Options {
        memory_limit: 256 << 20,
        max_sessions: 64,
        ..Options::default()
    };
    Engine::create(&options).expect("the engine starts")
}

/// Every other one is long.
fn key(kind: &str, i: usize) -> Vec<u8> {
    match i % 2 {
        0 => format!("{kind}{i}").into_bytes(),
        _ => format!("{kind} and some more letters {i}").into_bytes(),
    }
}

/// All keys, with how many times they were found, and the number of calls.
fn scan_all(session: &mut Session, count: usize) -> (BTreeMap<Vec<u8>, usize>, usize) {
    let mut found = BTreeMap::new();
    let (mut cursor, mut calls) = (0, 0);
    loop {
        let (next, keys) = session.scan(cursor, count).expect("scan");
        for key in keys {
            *found.entry(key).or_default() += 1;
        }
        calls += 1;
        assert!(next == 0 || next > cursor, "the cursor only grows");
        cursor = next;
        if cursor == 0 {
            return (found, calls);
        }
    }
}

#[test]
fn an_index_at_rest_is_scanned_once() {
    let engine = engine();
    let mut session = engine.session().expect("session");

    assert_eq!(session.scan(0, 10), Ok((0, vec![])));
    assert_eq!(session.random_key(), Ok(None));
    for keys in [1, 10, 1000, 30_000] {
        for i in 0..keys {
            session.set(&key("k", i), b"v").expect("set");
        }
        for count in [1, 10, 1000, 100_000] {
            let (found, calls) = scan_all(&mut session, count);
            assert_eq!(found.len(), keys, "{count}");
            assert!(found.values().all(|&times| times == 1));
            assert!((0..keys).all(|i| found.contains_key(&key("k", i))));
            assert!(calls <= 1 + 2 * keys / count, "{calls} calls");
        }
        let random = session.random_key().expect("random key").expect("a key");
        assert_eq!(session.get(&random), Ok(Some(b"v".to_vec())));
    }
}

#[test]
fn few_keys_are_equally_probable() {
    const KEYS: usize = 4;
    const DRAWS: usize = 400;
    let engine = engine();
    let mut session = engine.session().expect("session");
    // An index of many buckets, most of which become empty.
    for i in 0..5_000 {
        session.set(&key("k", i), b"v").expect("set");
    }
    for i in KEYS..5_000 {
        session.delete(&key("k", i)).expect("delete");
    }
    let mut times = [0; KEYS];
    for _ in 0..DRAWS {
        let random = session.random_key().expect("random key").expect("a key");
        let place = (0..KEYS)
            .find(|&i| key("k", i) == random)
            .expect("one of them");
        times[place] += 1;
    }
    // 100 each are expected, with a standard deviation of 9.
    assert!(
        times.iter().all(|times| (40..=160).contains(times)),
        "{times:?}"
    );
}

#[test]
fn a_step_has_about_as_many_keys_as_wanted() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    for i in 0..20_000 {
        session.set(&key("k", i), b"v").expect("set");
    }
    for count in [1, 10, 500, 10_000] {
        let (next, keys) = session.scan(0, count).expect("scan");
        assert!(next != 0);
        assert!((count..count + 32).contains(&keys.len()), "{}", keys.len());
    }
    // A cursor that nobody was given is no harm.
    for cursor in [1, 12345, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        session.scan(cursor, 10).expect("scan");
    }
}

#[test]
fn only_what_is_there_is_found() {
    let engine = engine();
    engine.stop_clock(1000);
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    let names = |session: &mut Session| -> Vec<String> {
        let (found, _) = scan_all(session, 10);
        let name = |key| String::from_utf8(key).expect("text");
        found.into_keys().map(name).collect()
    };

    session.set(b"deleted", b"v").expect("set");
    session.set(b"stays", b"v").expect("set");
    session
        .set_entry(b"expires", b"v", Some(1010))
        .expect("set");
    other.begin_read_only().expect("begin");
    session.delete(b"deleted").expect("delete");
    session.begin().expect("begin");
    session.get(b"placeholder").expect("get");
    session.set(b"pending", b"v").expect("set");
    session.delete(b"stays").expect("delete");

    // What it has written itself; what is committed; a snapshot.
    assert_eq!(names(&mut session), ["expires", "pending"]);
    let mut third = engine.session().expect("session");
    assert_eq!(names(&mut third), ["expires", "stays"]);
    assert_eq!(names(&mut other), ["deleted", "expires", "stays"]);
    engine.stop_clock(1010);
    assert_eq!(names(&mut third), ["stays"]);
    assert_eq!(names(&mut other), ["deleted", "expires", "stays"]);
}

#[test]
fn keys_that_stay_are_found_while_the_index_grows_and_shrinks() {
    const STAYING: usize = 2_000;
    const TIDE: usize = 20_000;
    let engine = engine();
    let mut session = engine.session().expect("session");
    for i in 0..STAYING {
        session.set(&key("stays", i), b"v").expect("set");
    }
    let (stop, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    // Where one falls while the other rises, the index stays as large as it is.
    let turn = Barrier::new(2);
    let patient = |result: Result<(), Status>| match result {
        Ok(()) | Err(Status::MemoryPending | Status::Conflict) => {}
        Err(error) => panic!("{error}"),
    };

    let scans = thread::scope(|scope| {
        for writer in 0..2 {
            let (engine, stop, ends, turn) = (&engine, &stop, &ends, &turn);
            scope.spawn(move || {
                let mut session = engine.session().expect("session");
                let kind = format!("comes{writer}.");
                while !ends.load(Ordering::Relaxed) {
                    for i in 0..TIDE {
                        patient(session.set(&key(&kind, i), b"v"));
                    }
                    turn.wait();
                    for i in 0..TIDE {
                        patient(session.delete(&key(&kind, i)).map(drop));
                        if i % 10_000 == 0 {
                            engine.sweep().expect("sweep");
                        }
                    }
                    engine.sweep().expect("sweep");
                    // Both end in the same round.
                    if turn.wait().is_leader() {
                        ends.store(stop.load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                    turn.wait();
                }
            });
        }
        let _stop = common::Stop(&stop);
        let changes = || {
            let counters = engine.stats().expect("stats").counters;
            (counters.page_splits, counters.page_merges)
        };
        // Counted apart: few scans are so long that they see both.
        let (mut scans, mut grown, mut shrunk) = (0, 0, 0);
        while grown < 4 || shrunk < 4 || scans < 6 {
            let (splits, merges) = changes();
            let (found, _) = scan_all(&mut session, [7, 100, 3000][scans % 3]);
            for i in 0..STAYING {
                assert!(found.contains_key(&key("stays", i)), "{i} in scan {scans}");
            }
            let now = changes();
            grown += usize::from(now.0 > splits);
            shrunk += usize::from(now.1 > merges);
            scans += 1;
        }
        scans
    });
    println!("{scans} scans");
}
