//! What had room in an engine has room in one of the same size again, whatever the log or the
//! checkpoint says on the way there.

use crate::it::common;

use std::collections::BTreeMap;
use std::time::Duration;

use bpfdb::{Engine, Entry, Session, Status, ValueType};
use bpfdb_durability::{Durability, Error};
use bpfdb_log::simulation::SimulatedDisk;
use common::{quick, start, wait_until};

/// Of the engine's memory.
const LIMIT: u64 = 64 << 20;
/// There is no room for two.
const LARGE: usize = 40 << 20;
/// Milliseconds of UNIX time, in the year 2096.
const LATER: u64 = 4_000_000_000_000;

fn engine(limit: u64) -> Engine {
    let options = bpfdb::Options {
        memory_limit: limit,
        log_ring: 1 << 20,
        user_sessions: 8,
        ..bpfdb::Options::default()
    };
    Engine::create(&options).expect("the engine starts")
}

/// Each key with its value, of any type.
fn contents(engine: &Engine) -> BTreeMap<Vec<u8>, (ValueType, Entry)> {
    let mut session = engine.session().expect("a session");
    let (mut all, mut cursor) = (BTreeMap::new(), 0);
    loop {
        let (next, keys) = session.scan(cursor, 1000).expect("scan");
        for key in keys {
            let found = session.typed_entry(&key).expect("read");
            all.insert(key, found.expect("nobody writes"));
        }
        if next == 0 {
            return all;
        }
        cursor = next;
    }
}

fn large(seed: u8) -> Vec<u8> {
    (0..LARGE).map(|n| (n / 8) as u8 ^ seed).collect()
}

/// What was deleted gives its memory back in a moment.
fn set(session: &mut Session, key: &[u8], value: &[u8]) {
    wait_until("there is room", || match session.set(key, value) {
        Ok(()) => true,
        Err(Status::OutOfMemory | Status::MemoryPending | Status::LogFull) => false,
        Err(status) => panic!("{status}"),
    });
}

fn share(session: &mut Session, from: &[u8], to: &[u8], expires: Option<u64>) {
    session.begin().expect("begun");
    assert_eq!(session.share_large(from, to, expires), Ok(true));
    if from != to && expires.is_some() {
        session.delete(from).expect("deleted");
    }
    session.commit().expect("committed");
}

/// Writes, and begins anew in an engine of the same size: with the log alone, and with a checkpoint.
#[track_caller]
fn comes_back(write: impl Fn(&mut Session)) {
    let (old, disk) = (engine(LIMIT), SimulatedDisk::new(1));
    let durability = start(&old, &disk, quick());
    write(&mut old.session().expect("a session"));
    durability.settle(old.now()).expect("durable");
    durability.close().expect("closed");
    let log_alone = disk.fork();
    let durability = start(&old, &disk, quick());
    let number = durability.checkpoint().expect("begun");
    durability.await_checkpoint(number).expect("a checkpoint");
    durability.close().expect("closed");
    let expected = contents(&old);
    drop(old);

    for (disk, has_checkpoint) in [(log_alone, false), (disk, true)] {
        let new = engine(LIMIT);
        let (durability, restored) =
            Durability::start(&new, disk, quick()).expect("there was room before");
        assert!(contents(&new) == expected, "{restored:?}");
        assert_eq!(has_checkpoint, restored.checkpoint_entries > 0);
        durability.close().expect("closed");
    }
}

#[test]
fn another_time_to_expire_takes_no_room() {
    comes_back(|session| {
        set(session, b"large", &large(1));
        share(session, b"large", b"large", Some(LATER));
        share(session, b"large", b"large", None);
    });
}

#[test]
fn a_copy_takes_no_room() {
    comes_back(|session| {
        set(session, b"small", b"value");
        set(session, b"large", &large(1));
        share(session, b"large", b"second", None);
        share(session, b"second", b"third", None);
        session.delete(b"second").expect("deleted");
        share(session, b"large", b"fourth", None);
    });
}

#[test]
fn a_copy_of_what_is_no_string_takes_no_room() {
    comes_back(|session| {
        session
            .set_typed(b"large", ValueType::TEST, &large(1), None)
            .expect("set");
        share(session, b"large", b"second", Some(LATER));
        share(session, b"second", b"third", None);
        share(session, b"third", b"third", Some(LATER));
    });
}

/// The same bytes of another type are another value.
#[test]
fn what_has_another_type_is_not_shared() {
    let short = large(1)[..1 << 20].to_vec();
    comes_back(|session| {
        for (key, kind) in [
            (&b"string"[..], ValueType::STRING),
            (b"typed", ValueType::TEST),
            (b"hash", ValueType::HASH),
        ] {
            session.set_typed(key, kind, &short, None).expect("set");
            share(session, key, &[key, b"copy"].concat(), None);
        }
    });
}

#[test]
fn a_copy_in_the_same_transaction_takes_no_room() {
    comes_back(|session| {
        session.begin().expect("begun");
        session.set(b"first", &large(1)).expect("set");
        for name in [b"second", b"third_"] {
            assert_eq!(session.share_large(b"first", name, None), Ok(true));
        }
        session.commit().expect("committed");
    });
}

#[test]
fn another_name_takes_no_room() {
    comes_back(|session| {
        set(session, b"first", &large(1));
        for names in [[b"first", b"other"], [b"other", b"third"]] {
            share(session, names[0], names[1], Some(LATER));
        }
    });
}

/// Whichever processor has the one key, and whichever the other.
#[test]
fn what_was_deleted_before_takes_no_room() {
    comes_back(|session| {
        for key in [b"a", b"b", b"c", b"d"] {
            set(session, key, &large(key[0]));
            session.delete(key).expect("deleted");
        }
        set(session, b"last", &large(1));
    });
}

/// The index of many keys gives way to values.
#[test]
fn many_small_keys_that_are_gone_take_no_room() {
    let name = |number: usize| number.to_le_bytes();
    comes_back(|session| {
        for number in 0..150_000 {
            set(session, &name(number), b"value");
        }
        for number in 0..150_000 {
            session.delete(&name(number)).expect("deleted");
        }
        for number in 0..2_400 {
            set(session, &name(number), &[number as u8; 20_000]);
        }
    });
}

/// Somebody waits for the answer.
#[test]
fn an_engine_that_is_too_small_is_told_so() {
    let (old, disk) = (engine(LIMIT), SimulatedDisk::new(2));
    let durability = start(&old, &disk, quick());
    set(&mut old.session().expect("a session"), b"large", &large(1));
    durability.close().expect("closed");
    let begun = std::time::Instant::now();
    let refused = Durability::start(&engine(LIMIT / 2), disk.clone(), quick());
    let refused = refused.expect_err("there is no room");
    assert!(
        matches!(refused, Error::Refused(Status::OutOfMemory)),
        "{refused}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60));
    start(&engine(LIMIT), &disk, quick());
}
