//! A pass over all records for a checkpoint: it finds what stays, as it was, whatever others do
//! and however the index changes; and what it leaves out was written after its epoch.

use crate::common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::{CheckpointPass, Engine, Operation, Options, Session, Status, abi};

type Found = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

const FAR: u64 = 4_000_000_000_000;

fn engine() -> Engine {
    let options = Options {
        memory_limit: 512 << 20,
        max_sessions: 64,
        ..Options::default()
    };
    Engine::create(&options).expect("the engine starts")
}

/// Of an engine without a log every commit counts: the clock stands still.
fn pass(pass: &mut CheckpointPass, epoch: u64) -> (Found, usize) {
    let (mut found, mut entries) = (Found::new(), 0);
    pass.begin(epoch);
    let mut part = 0.0;
    while pass.step().expect("a step") {
        let (bytes, count) = pass.entries();
        assert_eq!(take_entries(bytes, &mut found), count);
        entries += count as usize;
        for other in pass.others() {
            let Some(entry) = pass.read(&other).expect("read") else {
                continue;
            };
            found.insert(other.key, (entry.value, entry.expires_at));
            entries += 1;
        }
        assert!(pass.part() >= part && pass.part() <= 1.0);
        part = pass.part();
    }
    assert_eq!(part, 1.0);
    (found, entries)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// As docs/formats/log.md says.
fn take_entries(mut bytes: &[u8], found: &mut Found) -> u32 {
    let mut count = 0;
    while !bytes.is_empty() {
        let (meta, expires) = (word(bytes, 0), word(bytes, 8));
        let (form, key_len) = (meta & 0xff_ffff, (meta >> 24) as usize);
        let len = (form & 0x3f_ffff) as usize;
        let value_at = 16 + key_len.next_multiple_of(16);
        let end = value_at + len.max(1).next_multiple_of(16);
        assert!(bytes[16 + key_len..value_at].iter().all(|&byte| byte == 0));
        assert!(bytes[value_at + len..end].iter().all(|&byte| byte == 0));
        assert_eq!(form & 0x40_0000, 0, "large values are among the others");
        let expires = (form & 0x80_0000 != 0).then_some(expires);
        let value = bytes[value_at..value_at + len].to_vec();
        found.insert(bytes[16..16 + key_len].to_vec(), (value, expires));
        bytes = &bytes[end..];
        count += 1;
    }
    count
}

fn key(kind: &str, i: usize) -> Vec<u8> {
    match i % 3 {
        0 => format!("{kind}{i}").into_bytes(),
        1 => format!("{kind}, and some more letters, {i}").into_bytes(),
        _ => format!("{kind}{i:0>400}").into_bytes(),
    }
}

fn value(i: usize) -> Vec<u8> {
    let len = match i % 50 {
        0 => 200_000 + i,
        1 => 32_768,
        2..4 => 5_000 + i % 1000,
        _ => i % 40,
    };
    (0..len).map(|at| (at + i) as u8).collect()
}

fn fill(session: &mut Session, count: usize) -> Found {
    let mut all = Found::new();
    for i in 0..count {
        let expires = (i % 4 == 0).then_some(FAR + i as u64);
        let (key, value) = (key("k", i), value(i));
        session.set_entry(&key, &value, expires).expect("set");
        all.insert(key, (value, expires));
    }
    all
}

#[test]
fn an_engine_at_rest_is_found_once() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut pass_of = engine.checkpoint_pass().expect("a pass");

    assert_eq!(pass(&mut pass_of, 1), (Found::new(), 0));
    for count in [1, 100, 5_000] {
        let all = fill(&mut session, count);
        let (found, entries) = pass(&mut pass_of, 1);
        assert_eq!(entries, count);
        assert!(found == all, "{count}");
    }
    // Deleted, and expired by the engine's clock.
    session.delete(&key("k", 0)).expect("delete");
    let (found, _) = pass(&mut pass_of, 1);
    assert!(!found.contains_key(&key("k", 0)));
    assert_eq!(found.len(), 4_999);
}

#[test]
fn what_was_written_after_the_epoch_is_left_out() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    let mut pass_of = engine.checkpoint_pass().expect("a pass");
    session.set(b"old", b"1").expect("set");
    session.set(b"both", b"1").expect("set");
    let _ = pass(&mut pass_of, 1);
    // A snapshot moves the clock on from 1.
    other.begin_read_only().expect("snapshot");
    session.set(b"both", b"2").expect("set");
    session.set(b"new", b"2").expect("set");
    session.begin().expect("begin");
    session.set(b"old", b"pending").expect("set");
    let (found, _) = pass(&mut pass_of, 1);
    let keys = |found: &Found| found.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&found), [b"old".to_vec()]);
    assert_eq!(found[&b"old"[..]].0, b"1", "what is pending does not count");
    let (found, _) = pass(&mut pass_of, 2);
    assert_eq!(found.len(), 3);
    session.commit().expect("commit");
    let (found, _) = pass(&mut pass_of, 1);
    assert!(found.is_empty());
    other.commit().expect("end");
}

/// Keys that stay are found with their values, while others come, go, and make the index grow
/// and shrink.
#[test]
fn nothing_that_stays_is_lost() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let all = fill(&mut session, 4_000);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = common::Stop(&stop);
        for worker in 0..2 {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || {
                let mut session = engine.session().expect("session");
                let kind = format!("w{worker}-");
                while !stop.load(Ordering::Relaxed) {
                    for i in 0..30_000 {
                        patiently(|| session.set(&key(&kind, i), b"v"));
                    }
                    for i in 0..30_000 {
                        patiently(|| session.delete(&key(&kind, i)).map(drop));
                    }
                    engine.sweep().expect("sweep");
                }
            });
        }
        let mut pass_of = engine.checkpoint_pass().expect("a pass");
        let mut splits = 0;
        for _ in 0..25 {
            let (mut found, _) = pass(&mut pass_of, 1);
            found.retain(|key, _| key[0] == b'k');
            assert!(found == all, "{} of {} were found", found.len(), all.len());
            splits = engine.counters().expect("counters").page_splits;
        }
        assert!(splits > 0);
    });
    let counters = engine.counters().expect("counters");
    assert!(counters.page_splits > 20, "{} splits", counters.page_splits);
    assert!(counters.page_merges > 20, "{} merges", counters.page_merges);
}

fn patiently(mut call: impl FnMut() -> Result<(), Status>) {
    loop {
        match call() {
            Ok(()) => return,
            Err(Status::Conflict) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// A record that is locked and written all the time does not hold up the pass.
#[test]
fn a_record_that_is_written_all_the_time_is_passed() {
    let engine = engine();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = common::Stop(&stop);
        let mut session = engine.session().expect("session");
        session.set(b"hot", &[1; 10_000]).expect("set");
        scope.spawn(|| {
            let mut session = engine.session().expect("session");
            while !stop.load(Ordering::Relaxed) {
                session.set(b"hot", &[2; 10_000]).expect("set");
            }
        });
        let mut pass_of = engine.checkpoint_pass().expect("a pass");
        for _ in 0..300 {
            // Without a log the clock stands still, and the record counts all the time.
            let (found, _) = pass(&mut pass_of, 1);
            let value = &found[&b"hot"[..]].0;
            assert!(value == &[1; 10_000] || value == &[2; 10_000], "torn");
        }
    });
}

/// Whoever locks a record and writes nothing changes its header, and leaves nothing in the log: a
/// checkpoint without the record would lose it.
#[test]
fn a_large_value_that_is_locked_all_the_time_is_found() {
    const LOCKS: usize = 100;
    let engine = engine();
    let value = vec![7; 4 << 20];
    let mut session = engine.session().expect("session");
    session.set(b"locked", &value).expect("set");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = common::Stop(&stop);
        scope.spawn(|| {
            let mut session = engine.session().expect("session");
            let once = [
                Operation::Begin,
                Operation::GetForUpdate(b"locked"),
                Operation::Rollback,
            ];
            let batch = session.prepare(&once.repeat(LOCKS), 16).expect("it fits");
            while !stop.load(Ordering::Relaxed) {
                session.run(&batch).expect("locked and released");
            }
        });
        let mut pass_of = engine.checkpoint_pass().expect("a pass");
        for round in 0..50 {
            let (found, _) = pass(&mut pass_of, 1);
            let found = found.get(&b"locked"[..]);
            assert!(found.is_some_and(|found| found.0 == value), "round {round}");
        }
    });
    let stats = engine.stats().expect("stats");
    println!(
        "{} times in a snapshot, beside {} locks",
        stats.counters.operations[abi::BPFDB_OP_BEGIN_READ_ONLY as usize],
        stats.counters.operations[abi::BPFDB_OP_GET_FOR_UPDATE as usize]
    );
}

#[test]
fn a_session_with_a_transaction_makes_no_pass() {
    let engine = engine();
    let options = engine.config().user_sessions;
    let mut taken = Vec::new();
    for _ in 0..options {
        taken.push(engine.checkpoint_pass().expect("a pass"));
    }
    assert!(engine.checkpoint_pass().is_err(), "no buffer is left");
    taken.pop();
    assert!(engine.checkpoint_pass().is_ok());
}

#[test]
fn many_writes_are_loaded_at_once() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut expected = Found::new();
    let writes: Vec<(Vec<u8>, Vec<u8>, Option<u64>)> = (0..20_000)
        .map(|i| {
            let value = value(i);
            let short = value[..value.len().min(32_768)].to_vec();
            (key("k", i % 15_000), short, (i % 5 == 0).then_some(FAR))
        })
        .collect();
    let count = session
        .load(
            writes
                .iter()
                .map(|(key, value, expires)| Operation::SetEntry(key, value, *expires)),
        )
        .expect("loaded");
    assert_eq!(count, 20_000);
    for (key, value, expires) in &writes {
        expected.insert(key.clone(), (value.clone(), *expires));
    }
    session
        .load((0..100).map(|i| Operation::Delete(&writes[i].0)))
        .expect("deleted");
    for (key, ..) in &writes[..100] {
        expected.remove(key);
    }
    let (found, _) = pass(
        &mut engine.checkpoint_pass().expect("a pass"),
        u64::MAX >> 1,
    );
    assert!(found == expected);
    let refused = session.load([Operation::Set(b"a", b"1"), Operation::Set(&[], b"2")]);
    assert_eq!(refused, Err(Status::KeyTooLarge));
    assert_eq!(session.get(b"a"), Ok(Some(b"1".to_vec())));
}

/// Of one half of the index there is all, of the other half little: what a checkpoint has that was
/// made while nearly all keys were deleted. It comes in the order of the index.
#[test]
fn what_is_in_the_order_of_the_index_is_loaded() {
    let first = engine();
    let mut session = first.session().expect("session");
    let keys: Vec<Vec<u8>> = (0..20_000)
        .map(|i| format!("key {i}").into_bytes())
        .collect();
    session
        .load(keys.iter().map(|key| Operation::Set(key, b"v")))
        .expect("loaded");
    let mut pass = first.checkpoint_pass().expect("a pass");
    let mut ordered = Vec::new();
    pass.begin(1);
    while pass.step().expect("a step") {
        let (mut bytes, _) = pass.entries();
        while !bytes.is_empty() {
            let key_len = (word(bytes, 0) >> 24) as usize;
            ordered.push(bytes[16..16 + key_len].to_vec());
            bytes = &bytes[16 + key_len.next_multiple_of(16) + 16..];
        }
    }
    assert_eq!(ordered.len(), keys.len());
    for (all, part) in [(2_000, 40), (5_000, 100), (1_300, 100)] {
        let second = engine();
        assert!(second.set_placement(&first.placement()).expect("empty"));
        let rest = ordered[all..].iter().step_by(part);
        let chosen: Vec<_> = ordered[..all].iter().chain(rest).collect();
        second.presize(chosen.len() as u64).expect("prepared");
        let mut session = second.session().expect("session");
        let loaded = session.load(chosen.iter().map(|key| Operation::Set(key, b"v")));
        assert_eq!(loaded, Ok(chosen.len() as u64), "{all}");
        for key in chosen {
            assert_eq!(session.get(key), Ok(Some(b"v".to_vec())));
        }
    }
}

#[test]
fn an_empty_engine_is_prepared_for_its_records() {
    let first = engine();
    let mut session = first.session().expect("session");
    let all = fill(&mut session, 30_000);
    let (second, third) = (engine(), engine());
    assert!(second.set_placement(&first.placement()).expect("empty"));
    assert_eq!(second.placement(), first.placement());
    assert!(
        !first.set_placement(&third.placement()).expect("asked"),
        "it has records"
    );
    assert!(!second.set_placement(b"of another version").expect("asked"));
    second.presize(30_000).expect("prepared");
    let before = second.stats().expect("stats").index_pages;
    assert_eq!(before, 64);
    // Not again: it is not what it was.
    second.presize(1_000_000).expect("nothing");
    assert_eq!(second.stats().expect("stats").index_pages, before);
    let mut session = second.session().expect("session");
    for (key, (value, expires)) in &all {
        session.set_entry(key, value, *expires).expect("set");
    }
    let (found, entries) = pass(&mut second.checkpoint_pass().expect("a pass"), 1);
    assert!(found == all && entries == all.len());
    let splits = second.counters().expect("counters").page_splits;
    // By chance a page gets more records than it has room for: not one in a thousand does.
    assert!((63..=65).contains(&splits), "those before: {splits}");
    // It is an index like any other: it shrinks when its records are gone.
    for key in all.keys() {
        session.delete(key).expect("delete");
    }
    second.sweep().expect("sweep");
    assert_eq!(second.stats().expect("stats").index_pages, 1);
}
