//! Files that are written into an engine: all of it, or nothing, or with a report of how much.

use crate::it::common;

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use bpfdb::{Engine, Status};
use bpfdb_copies::{Error, Existing, Format, Options, Snapshot, VerifiedCopy, dump_file};
use common::engine::{all, dumped, engine, file, keys, load, set_all};
use common::{FORMS, boundaries, noise, written};

#[test]
fn what_is_dumped_is_restored() {
    let mut data = boundaries();
    data.insert(b"large".to_vec(), (noise(5_000_001, 2), None));
    let (from, to) = (engine(), engine());
    set_all(&from, &data);
    for form in FORMS {
        let (_folder, path) = file(&dumped(&from, form));
        let loaded = load(&to, &path, Existing::Flush).expect("loaded");
        assert_eq!(loaded.written, data.len() as u64);
        assert!(all(&to) == data, "{form:?}");
    }
}

#[test]
fn what_an_interrupt_leaves() {
    let engine = engine();
    let data: BTreeMap<_, _> = (0..10_000_u32)
        .map(|n| (n.to_le_bytes().to_vec(), (vec![1], None)))
        .collect();
    set_all(&engine, &data);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("copy");
    let snapshot = Snapshot::take(&engine).expect("a snapshot");
    let mut stop = |_| Err(Error::Interrupted);
    let outcome = dump_file(snapshot, Format::Binary, &path, &mut stop);
    assert!(matches!(outcome, Err(Error::Interrupted)));
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);

    let (_folder, path) = file(&dumped(&engine, Format::Jsonl));
    let options = Options {
        existing: Existing::Flush,
        ..Options::default()
    };
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    let mut stop_later = |written| match written {
        0 => Ok(()),
        _ => Err(Error::Interrupted),
    };
    match copy.load(&engine, &mut stop_later) {
        Err(Error::Unfinished { written, cause }) => {
            assert!(matches!(*cause, Error::Interrupted));
            assert_eq!(all(&engine).len() as u64, written);
            assert!((1..10_000).contains(&written));
        }
        other => panic!("{other:?}"),
    }
}

/// Who sees that it is the wrong database can still save what is there.
#[test]
fn a_flush_can_be_interrupted() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    for number in 0..10_000 {
        let key = format!("key {number}");
        session.set(key.as_bytes(), b"value").expect("set");
    }
    let (_folder, path) = file(&dumped(&engine, Format::Binary));
    let options = Options {
        existing: Existing::Flush,
        ..Options::default()
    };
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    let mut steps = 0;
    let mut stop = |_| {
        steps += 1;
        match steps {
            1..3 => Ok(()),
            _ => Err(Error::Interrupted),
        }
    };
    match copy.load(&engine, &mut stop) {
        Err(Error::Flushing { deleted, cause }) => {
            assert!(matches!(*cause, Error::Interrupted));
            assert!((1..5000).contains(&deleted), "{deleted}");
            assert_eq!(all(&engine).len() as u64, 10_000 - deleted);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn verifying_can_be_interrupted() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    for number in 0..100 {
        let key = format!("key {number}");
        session.set(key.as_bytes(), &[0x5a; 30_000]).expect("set");
    }
    let (_folder, path) = file(&dumped(&engine, Format::Jsonl));
    let mut stop = |_| Err(Error::Interrupted);
    let outcome = VerifiedCopy::open_watched(&path, Options::default(), &mut stop);
    assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
}

#[test]
fn what_is_there_stays_or_gives_way() {
    let engine = engine();
    let value = |text: &str| (text.as_bytes().to_vec(), None);
    let old = BTreeMap::from([(b"a".to_vec(), value("old")), (b"b".to_vec(), value("old"))]);
    let new = BTreeMap::from([(b"b".to_vec(), value("new")), (b"c".to_vec(), value("new"))]);
    let (_folder, path) = file(&written(Format::Jsonl, &new, 9));

    set_all(&engine, &old);
    assert!(matches!(
        load(&engine, &path, Existing::Refuse),
        Err(Error::Refused(_))
    ));
    assert!(all(&engine) == old);

    load(&engine, &path, Existing::Replace).expect("loaded");
    let mut both = old;
    both.extend(new.clone());
    assert!(all(&engine) == both);

    load(&engine, &path, Existing::Flush).expect("loaded");
    assert!(all(&engine) == new);
}

/// Functions are no keys, and are data all the same.
#[test]
fn functions_that_are_there_are_told_as_such() {
    let engine = engine();
    let functions = bpfdb_copies::rdb::functions::encode([&b"#!lua name=ours\n"[..]]);
    let own = (functions, None);
    set_all(
        &engine,
        &BTreeMap::from([(bpfdb::FUNCTIONS_KEY.to_vec(), own.clone())]),
    );
    let (_folder, path) = file(&written(Format::Jsonl, &keys(0, 1), usize::MAX));
    let refused = |what: &str| match load(&engine, &path, Existing::Refuse) {
        Err(Error::Refused(text)) => assert_eq!(
            text,
            format!(
                "the database has {what}; --replace lets those of the file take their place, \
                 --flush deletes all before"
            )
        ),
        other => panic!("{other:?}"),
    };
    refused("functions");
    set_all(&engine, &keys(7, 1));
    refused("keys");
}

#[test]
fn nothing_happens_with_a_file_that_is_not_right() {
    let engine = engine();
    let old = BTreeMap::from([(b"a".to_vec(), (b"old".to_vec(), None))]);
    set_all(&engine, &old);
    for form in FORMS {
        let bytes = written(form, &boundaries(), usize::MAX);
        let mut damaged = bytes.clone();
        damaged[bytes.len() - 40] ^= 4;
        for bad in [&bytes[..bytes.len() - 1], &damaged] {
            let (_folder, path) = file(bad);
            for existing in [Existing::Flush, Existing::Replace, Existing::Refuse] {
                let outcome = load(&engine, &path, existing);
                assert!(matches!(
                    outcome,
                    Err(Error::Cut { .. } | Error::Damaged { .. })
                ));
                assert!(all(&engine) == old);
            }
        }
    }
}

/// What is asked for may be a mistake: nothing is deleted for it.
#[test]
fn a_choice_that_takes_nothing_is_refused() {
    let engine = engine();
    let old = BTreeMap::from([(b"a".to_vec(), (b"old".to_vec(), None))]);
    set_all(&engine, &old);
    for form in FORMS {
        let (_folder, path) = file(&written(form, &boundaries(), usize::MAX));
        let options = Options {
            existing: Existing::Flush,
            database: Some(1),
            ..Options::default()
        };
        let refused = VerifiedCopy::open(&path, options).map(drop);
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    // Nothing is in a copy of nothing, whatever is chosen.
    let (_folder, path) = file(&written(Format::Rdb, &BTreeMap::new(), usize::MAX));
    let options = Options {
        existing: Existing::Flush,
        database: Some(1),
        ..Options::default()
    };
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    assert!(all(&engine) == old);
    copy.load(&engine, &mut |_| Ok(())).expect("loaded");
    assert!(all(&engine).is_empty());
}

#[test]
fn what_was_verified_is_what_is_loaded() {
    let engine = engine();
    let (one, other) = (keys(0, 1000), keys(1000, 1000));
    let (folder, path) = file(&written(Format::Binary, &one, usize::MAX));
    let options = Options::default();
    // Another file takes its name.
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    let new = folder.path().join("new");
    fs::write(&new, written(Format::Binary, &other, usize::MAX)).expect("written");
    fs::rename(&new, &path).expect("renamed");
    copy.load(&engine, &mut |_| Ok(())).expect("loaded");
    assert!(all(&engine) == one);

    // It is written over: nothing of a damaged block is loaded.
    let options = Options {
        existing: Existing::Flush,
        ..options
    };
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    let mut bytes = fs::read(&path).expect("read");
    bytes[100] ^= 1;
    fs::write(&path, bytes).expect("written");
    match copy.load(&engine, &mut |_| Ok(())) {
        Err(Error::Unfinished { written: 0, cause }) => {
            assert!(matches!(*cause, Error::Damaged { offset: 64, .. }));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_has_expired_is_left_out() {
    let engine = engine();
    let now = engine.now_ms();
    let data = BTreeMap::from([
        (b"over".to_vec(), (b"1".to_vec(), Some(now - 1))),
        (b"long over".to_vec(), (noise(100_000, 1), Some(1))),
        (b"lasts".to_vec(), (b"1".to_vec(), Some(now + 3_600_000))),
        (b"stays".to_vec(), (b"1".to_vec(), None)),
    ]);
    for form in FORMS {
        let (_folder, path) = file(&written(form, &data, 9));
        let loaded = load(&engine, &path, Existing::Flush).expect("loaded");
        assert_eq!((loaded.written, loaded.expired), (2, 2));
        let mut left = data.clone();
        left.retain(|key, _| !key.ends_with(b"over"));
        assert!(all(&engine) == left);
    }
}

/// A key that is locked is written when the lock is gone; others are not kept back.
#[test]
fn locks_are_waited_for() {
    let engine = engine();
    let data: BTreeMap<_, _> = (0..100_u8).map(|n| (vec![n], (vec![n], None))).collect();
    let (_folder, path) = file(&written(Format::Binary, &data, 9));
    let mut session = engine.session().expect("a session");
    session.begin().expect("begun");
    session.set(&[50], b"locked").expect("set");
    thread::scope(|scope| {
        let loading = scope.spawn(|| load(&engine, &path, Existing::Replace));
        thread::sleep(Duration::from_millis(200));
        assert!(!loading.is_finished());
        session.commit().expect("committed");
        assert_eq!(
            loading.join().expect("no panic").expect("loaded").written,
            100
        );
    });
    assert!(all(&engine) == data);
}

#[test]
fn memory_that_runs_out_is_told() {
    let engine = Engine::create(&bpfdb::Options {
        memory_limit: 32 << 20,
        ..bpfdb::Options::default()
    })
    .expect("an engine");
    let data: BTreeMap<_, _> = (0..100_u8)
        .map(|n| (vec![n], (noise(1 << 20, 3), None)))
        .collect();
    let (_folder, path) = file(&written(Format::Rdb, &data, usize::MAX));
    match load(&engine, &path, Existing::Refuse) {
        Err(Error::Unfinished { written, cause }) => {
            assert!(matches!(
                *cause,
                Error::Write {
                    status: Status::OutOfMemory,
                    ..
                }
            ));
            assert_eq!(all(&engine).len() as u64, written);
        }
        other => panic!("{other:?}"),
    }
}
