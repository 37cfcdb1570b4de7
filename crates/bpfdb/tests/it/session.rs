//! The library's promises, one by one.

use crate::common::lent;

use std::time::Duration;

use bpfdb::{Engine, Operation, Options, Status};

fn engine() -> Engine {
    let options = Options {
        memory_limit: 64 << 20,
        max_sessions: 64,
        ..Options::default()
    };
    Engine::create(&options).expect("the engine starts")
}

#[test]
fn a_value_comes_back() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");

    for key_len in [1, 7, 8, 9, 15, 16, 17, 24, 31, 64, 511, 512] {
        for value_len in [0, 1, 8, 15, 16, 17, 100, 1024, 4096, 65535, 65536] {
            let key = vec![b'k'; key_len];
            let value: Vec<u8> = (0..value_len).map(|i| (i * 7 + key_len) as u8).collect();
            session.set(&key, &value).expect("set");
            assert_eq!(
                session.get(&key).expect("get").as_deref(),
                Some(&value[..]),
                "key of {key_len}, value of {value_len} bytes"
            );
        }
    }
}

#[test]
fn limits_are_errors() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");

    assert_eq!(session.get(b""), Err(Status::KeyTooLarge));
    assert_eq!(session.set(&[0; 513], b"v"), Err(Status::KeyTooLarge));
    assert_eq!(session.refuse_value(), Status::ValueTooLarge);
    assert_eq!(session.commit(), Err(Status::WrongState));
    assert_eq!(session.rollback(), Err(Status::WrongState));
    assert_eq!(session.get_for_update(b"k"), Err(Status::WrongState));
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let engine = lent(0);
    let mut writer = engine.session().expect("session");
    let mut reader = engine.session().expect("session");

    writer.begin().expect("begin");
    writer.set(b"a", b"1").expect("set");
    writer.set(b"b", b"2").expect("set");
    assert_eq!(writer.get(b"a"), Ok(Some(b"1".to_vec())));
    assert_eq!(reader.get(b"a"), Ok(None));
    writer.commit().expect("commit");
    assert_eq!(reader.get(b"a"), Ok(Some(b"1".to_vec())));
    assert_eq!(reader.get(b"b"), Ok(Some(b"2".to_vec())));

    writer.begin().expect("begin");
    assert_eq!(writer.delete(b"a"), Ok(true));
    assert_eq!(writer.get(b"a"), Ok(None));
    writer.rollback().expect("rollback");
    assert_eq!(reader.get(b"a"), Ok(Some(b"1".to_vec())));
}

#[test]
fn conflicts_are_told_at_once() {
    let engine = lent(0);
    let mut first = engine.session().expect("session");
    let mut second = engine.session().expect("session");

    first.begin().expect("begin");
    assert_eq!(first.get(b"absent"), Ok(None));
    assert_eq!(second.set(b"absent", b"1"), Err(Status::Conflict));
    second.begin().expect("begin");
    assert_eq!(second.get(b"absent"), Ok(None));
    assert_eq!(second.set(b"absent", b"1"), Err(Status::Conflict));
    assert_eq!(second.get(b"x"), Err(Status::WrongState));
    assert_eq!(second.commit(), Err(Status::RolledBack));
    first.set(b"absent", b"2").expect("upgrade");
    first.commit().expect("commit");
    assert_eq!(second.get(b"absent"), Ok(Some(b"2".to_vec())));
}

#[test]
fn a_snapshot_stays_what_it_was() {
    let engine = lent(0);
    let mut writer = engine.session().expect("session");
    let mut reader = engine.session().expect("session");

    writer.set(b"a", b"old").expect("set");
    writer.set(b"gone", &[7; 100]).expect("set");
    reader.begin_read_only().expect("begin");
    writer.set(b"a", b"new").expect("set");
    writer.set(b"a", &[1; 1000]).expect("set");
    writer.set(b"b", b"later").expect("set");
    assert_eq!(writer.delete(b"gone"), Ok(true));
    assert_eq!(reader.get(b"a"), Ok(Some(b"old".to_vec())));
    assert_eq!(reader.get(b"b"), Ok(None));
    assert_eq!(reader.get(b"gone"), Ok(Some(vec![7; 100])));
    assert_eq!(reader.set(b"a", b"x"), Err(Status::ReadOnly));
    reader.commit().expect("commit");
    assert_eq!(reader.get(b"a"), Ok(Some(vec![1; 1000])));
    assert_eq!(reader.get(b"gone"), Ok(None));
}

#[test]
fn nothing_is_left_after_deletes() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");

    for i in 0..20_000u32 {
        session
            .set(&i.to_ne_bytes(), &vec![1; i as usize % 3000])
            .expect("set");
    }
    assert_eq!(engine.stats().expect("stats").records, 20_000);
    for i in 0..20_000u32 {
        assert_eq!(session.delete(&i.to_ne_bytes()), Ok(true));
    }
    engine.sweep().expect("sweep");
    let stats = engine.stats().expect("stats");
    assert_eq!(stats.records, 0);
    assert_eq!(stats.slots_used(), 0);
    assert_eq!(stats.history_versions, 0);
    assert_eq!(stats.locks, 0);
}

#[test]
fn a_batch_is_one_system_call() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");
    let outcomes = session
        .batch(
            &[
                Operation::Begin,
                Operation::Set(b"k", b"v"),
                Operation::Get(b"k"),
                Operation::Commit,
                Operation::Get(b"none"),
                Operation::Commit,
            ],
            64,
        )
        .expect("batch");
    assert_eq!(
        outcomes,
        [
            Ok(None),
            Ok(None),
            Ok(Some(b"v".to_vec())),
            Ok(None),
            Ok(None),
            Err(Status::WrongState)
        ]
    );
}

#[test]
fn memory_of_the_index_comes_back() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut records = 0u32;

    // Nothing but index, up to the limit.
    while session.set(&records.to_ne_bytes(), b"small").is_ok() {
        records += 1;
    }
    let full = engine.stats().expect("stats");
    assert_eq!(full.records, u64::from(records));
    assert!(full.index_pages > 700, "{} index pages", full.index_pages);
    assert_eq!(session.set(b"large", &[1; 65536]), Err(Status::OutOfMemory));

    for i in 0..records {
        assert_eq!(session.delete(&i.to_ne_bytes()), Ok(true), "record {i}");
    }
    engine.sweep().expect("sweep");
    let empty = engine.stats().expect("stats");
    assert_eq!(empty.records, 0);
    assert!(empty.index_pages < 8, "{} index pages", empty.index_pages);

    // All of it for values.
    let mut values = 0u32;
    while session.set(&values.to_ne_bytes(), &[1; 65536]).is_ok() {
        values += 1;
    }
    assert!(values > 900, "{values} values of 64 KiB in 64 MiB");
}

#[test]
fn records_stay_reachable_while_the_index_grows_and_shrinks() {
    records_stay_reachable(2);
}

#[test]
#[ignore = "takes minutes"]
fn soak_records_stay_reachable_while_the_index_grows_and_shrinks() {
    records_stay_reachable(60);
}

fn records_stay_reachable(rounds: u32) {
    let engine = engine();
    let stop = std::sync::atomic::AtomicBool::new(false);

    std::thread::scope(|scope| {
        for number in 0..2u32 {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || {
                let mut session = engine.session().expect("session");
                let key = |i: u32| [number.to_ne_bytes(), i.to_ne_bytes()].concat();
                // One in sixteen stays and must be found at any time.
                for round in 0..rounds {
                    for i in 0..40_000 {
                        session.set(&key(i), &i.to_ne_bytes()).expect("set");
                    }
                    for i in 0..40_000 {
                        if i % 16 != 0 {
                            assert_eq!(session.delete(&key(i)), Ok(true), "{i} in {round}");
                        }
                        let kept = i / 16 * 16;
                        let value = session.get(&key(kept)).expect("get");
                        assert_eq!(value.as_deref(), Some(&kept.to_ne_bytes()[..]));
                    }
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
        }
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            engine.sweep().expect("sweep");
        }
    });
    engine.sweep().expect("sweep");
    let stats = engine.stats().expect("stats");
    assert_eq!(stats.records, 2 * 40_000 / 16);
    assert!(stats.counters.page_merges > 0);
    assert!(stats.index_pages < 64, "{} index pages", stats.index_pages);
}

/// The reaper enters another user's session for a moment, and may be interrupted there.
#[test]
fn an_operation_waits_for_the_reaper() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");
    let index = session.index();
    let mut occupied = |work: &mut dyn FnMut(&mut bpfdb::Session)| {
        engine.occupy_session(index, true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                engine.occupy_session(index, false);
            });
            work(&mut session);
        });
    };

    occupied(&mut |session| assert_eq!(session.set(b"a", b"a long value of 1"), Ok(())));
    occupied(&mut |session| {
        session.begin_deferred().expect("begin");
        session.set(b"b", b"another long value").expect("set");
        assert_eq!(session.get(b"a"), Ok(Some(b"a long value of 1".to_vec())));
    });
    occupied(&mut |session| assert_eq!(session.commit(), Ok(())));
    occupied(&mut |session| {
        let operations = [
            Operation::Get(b"b"),
            Operation::Set(b"c", b"one more long value"),
            Operation::Get(b"c"),
        ];
        let outcomes = session.batch(&operations, 100).expect("executed");
        assert_eq!(outcomes[0], Ok(Some(b"another long value".to_vec())));
        assert_eq!(outcomes[2], Ok(Some(b"one more long value".to_vec())));
    });
}

/// Its writes would be commits of their own.
#[test]
fn a_transaction_without_its_begin_is_not_executed() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");
    let mut reader = engine.session().expect("session");
    session.never_wait();
    let index = session.index();
    let transaction = [
        Operation::Begin,
        Operation::Set(b"a", b"1"),
        Operation::Set(b"b", b"1"),
        Operation::Commit,
    ];
    let mut refused = 0;
    for round in 0..500 {
        engine.occupy_session(index, true);
        let outcomes = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(round));
                engine.occupy_session(index, false);
            });
            session.batch(&transaction, 16).expect("executed")
        });
        let first = outcomes[0].clone();
        refused += u32::from(first.is_err());
        assert!(
            outcomes.iter().all(|outcome| *outcome == first),
            "{outcomes:?}"
        );
        let found = [&b"a"[..], b"b"].map(|key| reader.delete(key).expect("deleted"));
        assert_eq!(found, [first.is_ok(); 2]);
    }
    assert!(refused > 0);

    // The same if there is a transaction already: what follows is not of this one.
    session.begin().expect("begin");
    let outcomes = session.batch(&transaction, 16).expect("executed");
    assert_eq!(outcomes, vec![Err(Status::WrongState); 4]);
    session.rollback().expect("rolled back");
}

/// One that stays inside shows, and nothing is executed that follows in the batch.
#[test]
fn an_operation_does_not_wait_for_ever() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");
    session.set(b"a", b"1").expect("set");

    engine.occupy_session(session.index(), true);
    assert_eq!(session.set(b"a", b"2"), Err(Status::SessionBusy));
    let operations = [
        Operation::Get(b"a"),
        Operation::Set(b"a", b"2"),
        Operation::Get(b"a"),
        Operation::Delete(b"a"),
    ];
    let batch = session.prepare(&operations, 16).expect("room");
    assert_eq!(session.run(&batch).expect("run"), 2);
    // Outside of a transaction no other session is in its way.
    assert_eq!(session.outcome(&batch, 0), Ok(Some(b"1".to_vec())));
    for i in 1..4 {
        assert_eq!(session.status_of(&batch, i), Status::SessionBusy);
    }
    engine.occupy_session(session.index(), false);
    assert_eq!(session.get(b"a"), Ok(Some(b"1".to_vec())));
}
