//! Why an operator said CONFLICT, and which sessions hold the locks on a key.

use crate::common;

use std::time::Duration;

use bpfdb::{Conflict, ConflictCause, LockHolder, LockMode, Session, Status, abi};
use common::engine;

/// Sessions and modes.
fn holders(session: &mut Session, key: &[u8]) -> Vec<(u32, LockMode)> {
    let found = session.lock_holders(key).expect("holders");
    assert!(
        found
            .iter()
            .all(|holder| holder.idle < Duration::from_secs(60))
    );
    let what = |holder: &LockHolder| (holder.session, holder.mode);
    found.iter().map(what).collect()
}

#[test]
fn a_writer_is_known_by_its_session() {
    let engine = engine();
    let [mut a, mut b] = [(); 2].map(|()| engine.session().expect("session"));
    assert_eq!(a.last_conflict(), None);
    a.begin().expect("begin");
    a.set(b"k", b"1").expect("set");
    assert_eq!(b.set(b"k", b"2"), Err(Status::Conflict));
    let written = Conflict {
        cause: ConflictCause::Written,
        session: Some(a.index()),
    };
    assert_eq!(b.last_conflict(), Some(written));
    b.begin().expect("begin");
    assert_eq!(b.get(b"k"), Err(Status::Conflict));
    assert_eq!(b.last_conflict(), Some(written));
    b.rollback().expect("rollback");
    a.commit().expect("commit");
    assert_eq!(b.set(b"k", b"2"), Ok(()));
}

#[test]
fn readers_are_only_counted() {
    let engine = engine();
    let [mut a, mut b] = [(); 2].map(|()| engine.session().expect("session"));
    a.begin().expect("begin");
    assert_eq!(a.get(b"absent"), Ok(None));
    let before = engine.counters().expect("counters").conflicts;
    assert_eq!(b.set(b"absent", b"2"), Err(Status::Conflict));
    let read = Conflict {
        cause: ConflictCause::Read,
        session: None,
    };
    assert_eq!(b.last_conflict(), Some(read));
    let after = engine.counters().expect("counters").conflicts;
    let which = ConflictCause::Read as usize;
    assert!(after[which] > before[which]);
}

#[test]
fn holders_are_found_also_in_lock_blocks_and_of_long_keys() {
    let engine = engine();
    let [mut a, mut b, mut looks] = [(); 3].map(|()| engine.session().expect("session"));
    let long = vec![b'l'; abi::BPFDB_KEY_MAX as usize];
    a.begin().expect("begin");
    for i in 0..2 * abi::BPFDB_LOCKS_INLINE {
        a.set(format!("key {i}").as_bytes(), b"1").expect("set");
    }
    a.set(&long, b"1").expect("set");
    b.begin().expect("begin");
    b.get(b"shared").expect("get");
    a.get(b"shared").expect("get");

    let exclusive = (a.index(), LockMode::Exclusive);
    let last = format!("key {}", 2 * abi::BPFDB_LOCKS_INLINE - 1);
    for key in [&b"key 0"[..], last.as_bytes(), &long] {
        assert_eq!(holders(&mut looks, key), [exclusive]);
    }
    let shared = [&a, &b].map(|session| (session.index(), LockMode::Shared));
    let mut found = holders(&mut looks, b"shared");
    found.sort_by_key(|&(session, _)| session);
    assert_eq!(found, shared);
    assert_eq!(holders(&mut looks, b"free"), []);
    std::thread::sleep(Duration::from_millis(1100));
    let idle = looks.lock_holders(&long).expect("holders")[0].idle;
    assert!(idle >= Duration::from_secs(1), "{idle:?}");
    a.commit().expect("commit");
    assert_eq!(holders(&mut looks, &long), []);
}

/// Who asks in a transaction, also in one that has failed, changes nothing about it.
#[test]
fn asking_disturbs_no_transaction() {
    let engine = engine();
    let [mut a, mut b] = [(); 2].map(|()| engine.session().expect("session"));
    a.begin().expect("begin");
    a.set(b"k", b"1").expect("set");
    b.begin().expect("begin");
    b.set(b"mine", b"1").expect("set");
    assert_eq!(holders(&mut b, b"mine").len(), 1);
    assert_eq!(b.set(b"k", b"2"), Err(Status::Conflict));
    assert_eq!(b.state(), abi::BPFDB_TXN_FAILED);
    assert_eq!(holders(&mut b, b"k").len(), 1);
    assert_eq!(b.state(), abi::BPFDB_TXN_FAILED);
    assert_eq!(b.lock_holders(b""), Err(Status::KeyTooLarge));
    assert_eq!(b.get(b"mine"), Err(Status::WrongState));
    b.rollback().expect("rollback");
    a.commit().expect("commit");
    assert_eq!(b.get(b"k"), Ok(Some(b"1".to_vec())));
}
