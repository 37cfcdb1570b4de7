//! Tokens of WATCH: they tell whether the key was written since.

use crate::common;

use std::thread;

use bpfdb::{Engine, Operation, Session, Status, WatchToken};

fn engine() -> common::Lent {
    common::lent(1000)
}

const KEYS: [&[u8]; 2] = [b"k", b"a key that is not inline"];

type Change = fn(&mut Session, &[u8]);

fn set(session: &mut Session, key: &[u8]) {
    session.set(key, b"value").expect("set");
}

/// All that writes a key, beginning with one that is there or not.
#[rustfmt::skip]
const WRITES: [(&str, Change); 6] = [
    ("the same value", set),
    ("a long value", |s, key| s.set(key, &[1; 1000]).expect("set")),
    ("an expiry", |s, key| s.set_entry(key, b"value", Some(2000)).expect("set")),
    ("set and deleted", |s, key| { set(s, key); s.delete(key).expect("delete"); }),
    ("deleted and set", |s, key| { s.delete(key).expect("delete"); set(s, key); }),
    ("in a transaction", |s, key| { s.begin().expect("begin"); set(s, key); s.commit().expect("commit"); }),
];

/// Is the key as it was? Asked as EXEC asks: under a lock.
fn holds(session: &mut Session, key: &[u8], token: &WatchToken) -> bool {
    session.begin().expect("begin");
    session.get(key).expect("get");
    let now = session.watch(key).expect("watch");
    session.rollback().expect("rollback");
    token.still_holds(&now)
}

fn watch(session: &mut Session, key: &[u8]) -> WatchToken {
    session.watch(key).expect("watch")
}

#[test]
fn whatever_writes_a_key_is_seen() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");

    for key in KEYS {
        for there in [false, true] {
            for (name, write) in WRITES {
                session.delete(key).expect("delete");
                if there {
                    set(&mut session, key);
                }
                let token = watch(&mut session, key);
                assert!(holds(&mut session, key, &token));
                session.get(key).expect("get");
                assert!(holds(&mut session, key, &token), "reading changes nothing");
                write(&mut other, key);
                assert!(!holds(&mut session, key, &token), "{name}, there: {there}");
                // What was written before does not matter.
                let token = watch(&mut session, key);
                assert!(holds(&mut session, key, &token), "{name}, there: {there}");
            }
        }
    }
    assert_eq!(session.watch(b"").err(), Some(Status::KeyTooLarge));
    // In a transaction that has failed neither a token nor a scan is of use.
    other.begin().expect("begin");
    set(&mut other, b"k");
    session.begin().expect("begin");
    assert_eq!(session.get(b"k"), Err(Status::Conflict));
    assert_eq!(session.watch(b"l").err(), Some(Status::WrongState));
    assert_eq!(session.scan(0, 10), Err(Status::WrongState));
}

/// Nobody writes here, whatever is done.
#[test]
fn what_is_done_in_vain_does_not_matter() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    let in_vain: [(&str, Change); 5] = [
        ("a read", |s, key| drop(s.get(key).expect("get"))),
        ("a lock", |s, key| drop(s.get_for_update(key).expect("get"))),
        ("a write", set),
        ("a long write", |s, key| {
            s.set(key, &[1; 1000]).expect("set")
        }),
        ("a deletion", |s, key| assert!(s.delete(key).is_ok())),
    ];

    for key in KEYS {
        for there in [false, true] {
            session.delete(key).expect("delete");
            if there {
                set(&mut session, key);
            }
            let token = watch(&mut session, key);
            for (name, work) in in_vain {
                other.begin().expect("begin");
                work(&mut other, key);
                other.rollback().expect("rollback");
                assert!(holds(&mut session, key, &token), "{name}, there: {there}");
            }
            // A comparison that failed: a lock, and then a commit of nothing.
            other.begin().expect("begin");
            other.get_for_update(key).expect("get");
            other.commit().expect("commit");
            assert!(holds(&mut session, key, &token), "there: {there}");
            if !there {
                assert!(!other.delete(key).expect("delete"));
                assert!(holds(&mut session, key, &token));
            }
        }
    }
}

/// Other keys come, so many that the index is split, and go, so that it is merged.
#[test]
fn other_keys_do_not_matter() {
    const WATCHED: u32 = 64;
    const OTHERS: u32 = 20_000;
    // Its index is as small as it can be.
    let engine = common::engine();
    let mut session = engine.session().expect("session");
    let watched = |i: u32| [b"watched", &i.to_ne_bytes()[..]].concat();
    for i in 0..WATCHED / 2 {
        set(&mut session, &watched(i));
    }
    let tokens: Vec<_> = (0..WATCHED)
        .map(|i| watch(&mut session, &watched(i)))
        .collect();
    let holding = |session: &mut Session| -> Vec<bool> {
        let keys = tokens.iter().zip(0..);
        keys.map(|(token, i)| holds(session, &watched(i), token))
            .collect()
    };

    let before = engine.counters().expect("counters").page_splits;
    for i in 0..OTHERS {
        set(&mut session, &i.to_ne_bytes());
    }
    assert!(engine.counters().expect("counters").page_splits > before);
    assert!(holding(&mut session).iter().all(|holds| *holds));
    // Each key that goes may make an absent one look written: 1 in 65,536.
    for i in 0..OTHERS / 100 {
        assert!(session.delete(&i.to_ne_bytes()).expect("delete"));
    }
    let holding = holding(&mut session);
    let (present, absent) = holding.split_at(WATCHED as usize / 2);
    assert!(present.iter().all(|holds| *holds));
    let lost = absent.iter().filter(|holds| !**holds).count();
    assert!(lost <= 3, "{lost}: 0.1 are to be expected");
}

#[test]
fn expiry_is_seen() {
    let engine = engine();
    let mut session = engine.session().expect("session");

    session.set_entry(b"k", b"v", Some(1500)).expect("set");
    let token = watch(&mut session, b"k");
    engine.stop_clock(1499);
    assert!(holds(&mut session, b"k", &token));
    engine.stop_clock(1500);
    assert!(!holds(&mut session, b"k", &token));

    // It had expired before: nothing happens when it is removed.
    let token = watch(&mut session, b"k");
    assert!(holds(&mut session, b"k", &token));
    sweep(&engine);
    assert!(holds(&mut session, b"k", &token));

    // It came and went, and left no record.
    let token = watch(&mut session, b"l");
    session.set_entry(b"l", b"v", Some(1600)).expect("set");
    engine.stop_clock(1600);
    sweep(&engine);
    assert!(!holds(&mut session, b"l", &token));
}

fn sweep(engine: &Engine) {
    engine.sweep().expect("sweep");
    assert_eq!(engine.stats().expect("stats").records, 0);
}

/// The session's own locks do not count, its changes do.
#[test]
fn tokens_are_compared_under_a_lock() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    type Lock = fn(&mut Session, &[u8]);
    let locks: [Lock; 2] = [
        |s, key| drop(s.get(key).expect("get")),
        |s, key| drop(s.get_for_update(key).expect("get")),
    ];

    for key in KEYS {
        for there in [false, true] {
            for lock in locks {
                session.delete(key).expect("delete");
                if there {
                    set(&mut session, key);
                }
                let token = watch(&mut session, key);
                session.begin().expect("begin");
                lock(&mut session, key);
                assert!(token.still_holds(&watch(&mut session, key)));
                set(&mut session, key);
                assert!(!token.still_holds(&watch(&mut session, key)));
                session.commit().expect("commit");
                assert!(!holds(&mut session, key, &token));
            }
        }
    }
    // While a snapshot runs, deleted records stay.
    let mut snapshot = engine.session().expect("session");
    set(&mut session, b"k");
    let token = watch(&mut session, b"k");
    snapshot.begin_read_only().expect("begin");
    session.delete(b"k").expect("delete");
    assert!(!holds(&mut session, b"k", &token));
    let deleted = watch(&mut session, b"k");
    assert!(holds(&mut session, b"k", &deleted));
    snapshot.rollback().expect("rollback");
    assert!(holds(&mut session, b"k", &deleted));
}

#[test]
fn a_batch_has_tokens() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let token = watch(&mut session, b"k");
    let operations = [
        Operation::Begin,
        Operation::Get(b"k"),
        Operation::Watch(b"k"),
        Operation::Rollback,
    ];
    let batch = session.prepare(&operations, 16).expect("prepare");
    session.run(&batch).expect("run");
    assert!(token.still_holds(&session.token_of(&batch, 2).expect("token")));
}

/// Optimistic increments: WATCH, GET, then a transaction that compares.
#[test]
fn no_increment_is_lost() {
    const WORKERS: usize = 3;
    const INCREMENTS: u64 = 2_000;
    const COUNTERS: usize = 2;
    let engine = engine();
    let attempt = |session: &mut Session, key: &[u8]| -> Result<bool, Status> {
        let token = session.watch(key)?;
        let read = session.get(key)?;
        let number = read.map_or(0, |v| u64::from_ne_bytes(v.try_into().expect("8 bytes")));
        session.begin()?;
        session.get_for_update(key)?;
        if !token.still_holds(&session.watch(key)?) {
            session.rollback()?;
            return Ok(false);
        }
        session.set(key, &(number + 1).to_ne_bytes())?;
        session.commit()?;
        Ok(true)
    };

    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let engine = &engine;
            scope.spawn(move || {
                let mut session = engine.session().expect("session");
                let mut done = 0;
                while done < INCREMENTS {
                    let key = KEYS[(worker + done as usize) % COUNTERS];
                    match attempt(&mut session, key) {
                        Ok(true) => done += 1,
                        Ok(false) => {}
                        Err(Status::Conflict) => session.rollback().expect("rollback"),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let mut session = engine.session().expect("session");
    let sum: u64 = KEYS
        .iter()
        .map(|key| session.get(key).expect("get").expect("a number"))
        .map(|v| u64::from_ne_bytes(v.try_into().expect("8 bytes")))
        .sum();
    assert_eq!(sum, WORKERS as u64 * INCREMENTS);
}

/// A snapshot compares without locks: what was written up to it is seen, and what is
/// not committed is not.
#[test]
fn a_snapshot_compares_without_locks() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    let compare = |session: &mut Session, key: &[u8], token: &WatchToken| {
        session.begin_read_only().expect("begin");
        let now = watch(session, key);
        session.commit().expect("commit");
        token.still_holds(&now)
    };

    for key in KEYS {
        for there in [false, true] {
            for (name, write) in WRITES {
                session.delete(key).expect("delete");
                if there {
                    set(&mut session, key);
                }
                let token = watch(&mut session, key);
                // Locked, and written by one that may still roll back.
                other.begin().expect("begin");
                other.get_for_update(key).expect("get");
                assert!(compare(&mut session, key, &token), "{name}, there: {there}");
                set(&mut other, key);
                assert!(compare(&mut session, key, &token), "{name}, there: {there}");
                other.rollback().expect("rollback");
                assert!(compare(&mut session, key, &token), "{name}, there: {there}");
                write(&mut other, key);
                assert!(
                    !compare(&mut session, key, &token),
                    "{name}, there: {there}"
                );
            }
        }
    }
    // By the time of the snapshot.
    session.set_entry(b"e", b"v", Some(1500)).expect("set");
    let token = watch(&mut session, b"e");
    session.begin_read_only().expect("begin");
    engine.stop_clock(1500);
    let now = watch(&mut session, b"e");
    assert!(token.still_holds(&now));
    session.commit().expect("commit");
    assert!(!compare(&mut session, b"e", &token));
}

/// What reads of one moment have found of a key, with a token of it.
fn at_one_moment(session: &mut Session, key: &[u8]) -> (Option<Vec<u8>>, WatchToken, u64) {
    let reads = [Operation::GetAny(key), Operation::Watch(key)];
    let found = session.read_at_one_moment(&reads, 1024).expect("read");
    assert_eq!(found.len(), 2);
    let value = session.value_in(&found, 0).expect("a GET");
    let token = session.token_of(&found, 1).expect("a token");
    (value.map(Vec::from), token, session.snapshot())
}

/// As what keeps values beside the engine does: a token of the snapshot that has seen a value holds until the
/// key is written, by whatever commit.
#[test]
fn tokens_of_snapshots() {
    let engine = engine();
    let (mut reader, mut writer) = (
        engine.session().expect("session"),
        engine.session().expect("session"),
    );
    for key in KEYS {
        for (name, write) in WRITES {
            set(&mut writer, key);
            let (value, _, snapshot) = at_one_moment(&mut reader, key);
            assert_eq!(value.as_deref(), Some(&b"value"[..]), "{name}");
            let seen = WatchToken::of_snapshot(snapshot, true);
            let (_, now, _) = at_one_moment(&mut reader, key);
            assert!(seen.still_holds(&now), "{name}");
            // Locked, and not committed: a snapshot does not see it.
            writer.begin().expect("begin");
            set(&mut writer, key);
            let (_, now, later) = at_one_moment(&mut reader, key);
            assert!(seen.still_holds(&now), "{name}");
            writer.rollback().expect("rollback");
            assert!(later > snapshot);
            write(&mut writer, key);
            let (_, now, _) = at_one_moment(&mut reader, key);
            assert!(!seen.still_holds(&now), "{name}");
        }
    }
}

#[test]
fn reads_of_one_moment_are_those_for_which_there_is_room() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    session.set(b"long", &[1; 2000]).expect("set");
    session.set(b"short", &[2; 20]).expect("set");
    let reads = [
        Operation::Get(b"long"),
        Operation::Get(b"none"),
        Operation::Get(b"short"),
    ];
    let found = session.read_at_one_moment(&reads, 1024).expect("read");
    assert_eq!(session.value_in(&found, 0), Err(Status::BadRequest));
    assert_eq!(session.value_in(&found, 1), Ok(None));
    assert_eq!(session.value_in(&found, 2), Ok(Some(&[2; 20][..])));
    let many = vec![Operation::Get(b"short"); 100];
    let found = session.read_at_one_moment(&many, 32_000).expect("read");
    assert!((1..20).contains(&found.len()), "{}", found.len());
    for number in 0..found.len() {
        assert_eq!(session.value_in(&found, number), Ok(Some(&[2; 20][..])));
    }
    // It is not in a transaction afterwards.
    session.set(b"short", b"other").expect("set");
    assert_eq!(session.get(b"short"), Ok(Some(b"other".to_vec())));
}
