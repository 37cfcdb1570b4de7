//! The knobs that are constants to the verifier: engines of every setting load
//! and keep to it.

use crate::common;

use std::thread;
use std::time::Duration;

use bpfdb::{Engine, Options, Session, Status};

fn engine(options: Options) -> Engine {
    Engine::create(&options).expect("the engine starts")
}

/// As many snapshots as there are versions, each of its own value; one SET
/// more is refused, and served when a snapshot ends.
fn versions_are_bounded(engine: &Engine, versions: usize) {
    let mut writer = engine.session().expect("session");
    let mut readers: Vec<Session> = Vec::new();

    writer.set(b"k", b"0").expect("set");
    for i in 0..versions {
        let mut reader = engine.session().expect("session");
        reader.begin_read_only().expect("begin");
        readers.push(reader);
        let next = writer.set(b"k", (i + 1).to_string().as_bytes());
        let expected = if i + 1 < versions {
            Ok(())
        } else {
            Err(Status::VersionsFull)
        };
        assert_eq!(next, expected, "version {i} of {versions}");
    }
    for (i, reader) in readers.iter_mut().enumerate() {
        let value = Some(i.to_string().into_bytes());
        assert_eq!(reader.get(b"k"), Ok(value), "{versions} versions");
    }
    readers.remove(0);
    assert_eq!(writer.set(b"k", b"last"), Ok(()));
    drop(readers);
    assert_eq!(writer.delete(b"k"), Ok(true));
    engine.sweep().expect("sweep");
    let stats = engine.stats().expect("stats");
    assert_eq!((stats.records, stats.history_versions), (0, 0));
}

fn keep_versions(numbers: impl IntoIterator<Item = u32>) {
    for versions in numbers {
        let engine = engine(Options {
            versions,
            user_sessions: 16,
            ..common::options()
        });
        assert_eq!(engine.config().versions, versions);
        versions_are_bounded(&engine, versions as usize);
    }
}

/// The least, the default and the most.
#[test]
fn versions_from_one_to_eight() {
    keep_versions([1, 4, 8]);
}

#[test]
#[ignore = "an engine for each: make soak"]
fn soak_every_number_of_versions() {
    keep_versions(1..=8);
}

/// With one version there is nothing but the head that a snapshot could stand in the way
/// of: it ends for a writer as well, if it is old enough, and no other does.
#[test]
fn an_old_snapshot_ends_for_a_writer_of_the_only_version() {
    const AGE: Duration = Duration::from_millis(300);
    let engine = engine(Options {
        versions: 1,
        snapshot_max_age: AGE,
        user_sessions: 16,
        ..common::options()
    });
    let mut writer = engine.session().expect("session");
    let mut old = engine.session().expect("session");
    let mut young = engine.session().expect("session");

    for key in [b"a", b"b", b"c"] {
        writer.set(key, b"0").expect("set");
    }
    old.begin_read_only().expect("begin");
    assert_eq!(old.get(b"a"), Ok(Some(b"0".to_vec())));
    assert_eq!(writer.set(b"a", b"1"), Err(Status::VersionsFull));
    thread::sleep(2 * AGE);
    assert_eq!(old.get(b"a"), Ok(Some(b"0".to_vec())), "in nobody's way");

    // One that began just now sees the same version: the old one ends in vain, if it does.
    young.begin_read_only().expect("begin");
    assert_eq!(writer.set(b"a", b"1"), Err(Status::VersionsFull));
    assert_eq!(
        old.get(b"a"),
        Ok(Some(b"0".to_vec())),
        "it would not have helped"
    );
    young.commit().expect("commit");

    assert_eq!(writer.set(b"a", b"1"), Ok(()));
    assert_eq!(old.get(b"a"), Err(Status::SnapshotTooOld));
    assert_eq!(old.commit(), Ok(()));
    assert_eq!(old.get(b"a"), Ok(Some(b"1".to_vec())));

    // Inside a transaction, and for DELETE.
    for deletes in [false, true] {
        old.begin_read_only().expect("begin");
        assert_eq!(old.get(b"b"), Ok(Some(b"0".to_vec())));
        thread::sleep(2 * AGE);
        writer.begin().expect("begin");
        if deletes {
            assert_eq!(writer.delete(b"b"), Ok(true));
        } else {
            assert_eq!(writer.set(b"b", b"0"), Ok(()));
        }
        writer.commit().expect("commit");
        assert_eq!(old.get(b"b"), Err(Status::SnapshotTooOld));
        old.commit().expect("commit");
    }
    assert_eq!(engine.stats().expect("stats").counters.snapshots_revoked, 3);
}

fn keep_locks(numbers: &[u32]) {
    for &max_locks in numbers {
        let engine = engine(Options {
            max_locks,
            ..common::options()
        });
        let mut session = engine.session().expect("session");

        session.begin().expect("begin");
        for i in 0..max_locks {
            session.set(&i.to_ne_bytes(), b"v").expect("set");
        }
        assert_eq!(session.set(b"more", b"v"), Err(Status::TooManyLocks));
        session.rollback().expect("rollback");
        assert_eq!(engine.stats().expect("stats").slots_used(), 0);
        // Auto-commit needs none.
        session.set(b"more", b"v").expect("set");
    }
}

/// The least, the first one beyond those in the session, beyond a block of them, in a page, and many in a
/// page. A million is for the suite `long_blocks` of the server.
#[test]
fn locks_of_a_transaction() {
    keep_locks(&[1, 9, 73, 969, 1993]);
}

#[test]
#[ignore = "an engine for each: make soak"]
fn soak_locks_on_both_sides_of_each_limit() {
    keep_locks(&[1, 2, 7, 8, 9, 72, 73, 200, 967, 968, 969, 1993]);
}

#[test]
fn sessions_of_an_engine() {
    for max_sessions in [1, 2, 64, 65, 1000] {
        let engine = engine(Options {
            max_sessions,
            user_sessions: max_sessions + 1,
            ..common::options()
        });
        let mut sessions: Vec<Session> = (0..max_sessions)
            .map(|_| engine.session().expect("session"))
            .collect();

        assert!(engine.session().is_err(), "{max_sessions} sessions");
        for (i, session) in sessions.iter_mut().enumerate() {
            session.set(&i.to_ne_bytes(), b"v").expect("set");
            session.begin_read_only().expect("begin");
            assert_eq!(session.get(&i.to_ne_bytes()), Ok(Some(b"v".to_vec())));
        }
        drop(sessions);
        engine.session().expect("a session is free again");
    }
}

#[test]
fn the_smallest_engine_works() {
    let engine = engine(Options {
        versions: 1,
        memory_limit: 1,
        memory_ahead: 0,
        max_sessions: 1,
        user_sessions: 1,
        max_locks: 1,
        ..Options::default()
    });
    let mut session = engine.session().expect("session");

    for i in 0..10_000u32 {
        session.set(&i.to_ne_bytes(), b"value").expect("set");
    }
    assert_eq!(engine.stats().expect("stats").records, 10_000);
    assert_eq!(
        session.get(&77u32.to_ne_bytes()),
        Ok(Some(b"value".to_vec()))
    );
}
