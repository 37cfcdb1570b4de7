//! Tokens of WATCH: equal only if the key was not written in between.

use std::thread;

use bpfdb::{Engine, Operation, Options, Session, Status};

fn engine() -> Engine {
    let options = Options {
        memory_limit: 128 << 20,
        max_sessions: 64,
        ..Options::default()
    };
    let engine = Engine::create(&options).expect("the engine starts");
    engine.stop_clock(1000);
    engine
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

#[test]
fn whatever_writes_a_key_changes_its_token() {
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
                let token = session.watch(key);
                assert_eq!(session.watch(key), token);
                session.get(key).expect("get");
                assert_eq!(session.watch(key), token, "reading changes nothing");
                write(&mut other, key);
                assert_ne!(session.watch(key), token, "{name}, there: {there}");
            }
        }
    }
    assert_eq!(session.watch(b""), Err(Status::KeyTooLarge));
    // In a transaction that has failed neither a token nor a scan is of use.
    other.begin().expect("begin");
    set(&mut other, b"k");
    session.begin().expect("begin");
    assert_eq!(session.get(b"k"), Err(Status::Conflict));
    assert_eq!(session.watch(b"l"), Err(Status::WrongState));
    assert_eq!(session.scan(0, 10), Err(Status::WrongState));
}

#[test]
fn rolled_back_reads_do_not_matter() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");

    for there in [false, true] {
        if there {
            set(&mut session, b"k");
        }
        let token = session.watch(b"k");
        other.begin().expect("begin");
        assert_eq!(other.get(b"k").expect("get").is_some(), there);
        assert_eq!(session.watch(b"k"), token, "there: {there}");
        other.rollback().expect("rollback");
        assert_eq!(session.get(b"k").expect("get").is_some(), there);
        if there {
            assert_eq!(session.watch(b"k"), token);
        }
    }
}

/// A record keeps its token while others come. An absent key keeps it unless one
/// of them has the same home, of which the index has more than a thousand from
/// the start; where a key's home is differs from run to run.
#[test]
fn other_keys_do_not_matter() {
    const KEYS: u32 = 64;
    let engine = engine();
    let mut session = engine.session().expect("session");
    let watched = |i: u32| [b"watched", &i.to_ne_bytes()[..]].concat();
    let tokens = |session: &mut Session| -> Vec<_> {
        let token = |i| session.watch(&watched(i)).expect("watch");
        (0..KEYS).map(token).collect()
    };

    for there in [false, true] {
        for i in (0..KEYS).filter(|_| there) {
            set(&mut session, &watched(i));
        }
        let before = tokens(&mut session);
        for i in 0..KEYS {
            set(&mut session, &[there.into(), i as u8]);
        }
        let after = tokens(&mut session);
        let kept = before.iter().zip(&after).filter(|(b, a)| a == b).count() as u32;
        let least = if there { KEYS } else { KEYS / 2 };
        assert!(kept >= least, "{kept} of {KEYS}, there: {there}");
    }
}

#[test]
fn expiry_changes_the_token() {
    let engine = engine();
    let mut session = engine.session().expect("session");

    session.set_entry(b"k", b"v", Some(1500)).expect("set");
    let token = session.watch(b"k");
    engine.stop_clock(1499);
    assert_eq!(session.watch(b"k"), token);
    engine.stop_clock(1500);
    assert_ne!(session.watch(b"k"), token);
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
                let token = session.watch(key);
                session.begin().expect("begin");
                lock(&mut session, key);
                assert_eq!(session.watch(key), token, "there: {there}");
                set(&mut session, key);
                assert_ne!(session.watch(key), token);
                session.commit().expect("commit");
                assert_ne!(session.watch(key), token);
            }
        }
    }
    // The engine was created with the only snapshot that matters: none. With one
    // running, deleted records stay for a while.
    let mut snapshot = engine.session().expect("session");
    set(&mut session, b"k");
    let token = session.watch(b"k");
    snapshot.begin_read_only().expect("begin");
    session.delete(b"k").expect("delete");
    let deleted = session.watch(b"k");
    assert_ne!(deleted, token);
    session.begin().expect("begin");
    session.get(b"k").expect("get");
    assert_eq!(session.watch(b"k"), deleted);
    session.rollback().expect("rollback");
}

#[test]
fn a_batch_has_tokens() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let token = session.watch(b"k");
    let operations = [
        Operation::Begin,
        Operation::Get(b"k"),
        Operation::Watch(b"k"),
        Operation::Rollback,
    ];
    let batch = session.prepare(&operations, 16).expect("prepare");
    session.run(&batch).expect("run");
    assert_eq!(session.token_of(&batch, 2), token);
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
        if session.watch(key)? != token {
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
