//! Transactions whose BEGIN and SETs wait for the next operation with a result.

use crate::common;

use bpfdb::{Session, Status, abi};

fn engine() -> common::Lent {
    common::lent(0)
}

fn value(session: &mut Session, key: &[u8]) -> Option<Vec<u8>> {
    session.get(key).expect("get")
}

#[test]
fn what_waits_is_seen_by_the_transaction_and_committed_with_it() {
    let engine = engine();
    let mut writer = engine.session().expect("session");
    let mut reader = engine.session().expect("session");

    writer.begin_deferred().expect("begin");
    assert_eq!(writer.state(), abi::BPFDB_TXN_WRITE);
    writer.set(b"a", b"1").expect("set");
    writer.set_entry(b"b", b"2", None).expect("set");
    assert_eq!(value(&mut reader, b"a"), None);
    assert_eq!(reader.begin(), Ok(()), "nothing is locked yet");
    assert_eq!(reader.get_for_update(b"b"), Ok(None));
    assert_eq!(reader.rollback(), Ok(()));
    assert_eq!(writer.get(b"a"), Ok(Some(b"1".to_vec())));
    assert_eq!(reader.get(b"a"), Ok(None));
    writer.set(b"c", b"3").expect("set");
    writer.commit().expect("commit");
    for (key, expected) in [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")] {
        assert_eq!(value(&mut reader, key).as_deref(), Some(&expected[..]));
    }
    assert_eq!(writer.state(), abi::BPFDB_TXN_NONE);

    // The session is what it was before.
    writer.set(b"a", b"4").expect("set");
    assert_eq!(value(&mut reader, b"a").as_deref(), Some(&b"4"[..]));
}

#[test]
fn a_rollback_takes_back_what_waits_and_what_was_executed() {
    let engine = engine();
    let mut session = engine.session().expect("session");

    session.begin_deferred().expect("begin");
    session.set(b"a", b"1").expect("set");
    session.rollback().expect("of nothing yet");
    assert_eq!(value(&mut session, b"a"), None);

    session.begin_deferred().expect("begin");
    session.set(b"a", b"1").expect("set");
    session.flush().expect("flush");
    session.set(b"b", b"1").expect("set");
    session.rollback().expect("rollback");
    assert_eq!(value(&mut session, b"a"), None);
    assert_eq!(value(&mut session, b"b"), None);

    session.begin_deferred().expect("begin");
    session.commit().expect("of nothing");
    assert_eq!(session.commit(), Err(Status::WrongState));
}

#[test]
fn the_error_of_a_set_is_that_of_what_comes_next_and_nothing_is_done() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    other.begin().expect("begin");
    other.set(b"locked", b"x").expect("set");

    // By the commit: it rolls back.
    session.begin_deferred().expect("begin");
    session.set(b"a", b"1").expect("set");
    session.set(b"locked", b"1").expect("set");
    session.set(b"b", b"1").expect("set");
    assert_eq!(session.commit(), Err(Status::Conflict));
    assert_eq!(session.state(), abi::BPFDB_TXN_NONE);

    // By a read.
    session.begin_deferred().expect("begin");
    session.set(b"a", b"1").expect("set");
    session.set(b"locked", b"1").expect("set");
    assert_eq!(session.get(b"a"), Err(Status::Conflict));
    assert_eq!(session.state(), abi::BPFDB_TXN_FAILED);
    session.rollback().expect("rollback");

    other.commit().expect("commit");
    assert_eq!(value(&mut session, b"a"), None);
    assert_eq!(value(&mut session, b"b"), None);
    assert_eq!(value(&mut session, b"locked").as_deref(), Some(&b"x"[..]));
}

/// A second BEGIN is refused, and what was to be done inside must not be done
/// without a transaction.
#[test]
fn nothing_is_executed_behind_a_begin_that_failed() {
    let engine = engine();
    let mut session = engine.session().expect("session");

    for by_commit in [false, true] {
        session.begin().expect("begin");
        session.begin_deferred().expect("later");
        session.set(b"a", b"1").expect("set");
        if by_commit {
            assert_eq!(session.commit(), Err(Status::WrongState));
        } else {
            assert_eq!(session.get(b"a"), Err(Status::WrongState));
            assert_eq!(session.set(b"a", b"1"), Err(Status::WrongState));
            assert_eq!(session.delete(b"a"), Err(Status::WrongState));
            session.rollback().expect("of what never began");
        }
        if session.state() != abi::BPFDB_TXN_NONE {
            session.rollback().expect("the first transaction");
        }
        assert_eq!(value(&mut session, b"a"), None);
    }
}

#[test]
fn a_snapshot_begins_with_the_first_read() {
    let engine = engine();
    let mut reader = engine.session().expect("session");
    let mut writer = engine.session().expect("session");

    reader.begin_read_only_deferred().expect("begin");
    assert_eq!(reader.state(), abi::BPFDB_TXN_READ);
    writer.set(b"a", b"1").expect("set");
    assert_eq!(reader.get(b"a"), Ok(Some(b"1".to_vec())));
    writer.set(b"a", b"2").expect("set");
    assert_eq!(reader.get(b"a"), Ok(Some(b"1".to_vec())));
    reader.set(b"a", b"3").expect("waits");
    assert_eq!(reader.commit(), Err(Status::ReadOnly));
    assert_eq!(value(&mut reader, b"a").as_deref(), Some(&b"2"[..]));
}

/// More than the buffer takes, in bytes and in operations.
#[test]
fn what_does_not_fit_is_executed_before() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    for (count, len) in [(40, 40_000), (900, 8), (9, 65_536)] {
        session.begin_deferred().expect("begin");
        for i in 0..count {
            let value = vec![i as u8; len];
            session
                .set(format!("{len}:{i}").as_bytes(), &value)
                .expect("set");
        }
        session.commit().expect("commit");
        for i in 0..count {
            let found = value(&mut session, format!("{len}:{i}").as_bytes());
            assert!(found == Some(vec![i as u8; len]), "{i} of {len} bytes");
        }
    }
    // Writes wait before a batch and a scan as well.
    session.begin_deferred().expect("begin");
    session.set(b"mine", b"1").expect("set");
    let (_, keys) = session.scan(0, 100_000).expect("scan");
    assert!(keys.contains(&b"mine".to_vec()));
    session.rollback().expect("rollback");
    session.begin_read_only_deferred().expect("begin");
    let (_, keys) = session.scan(0, 100_000).expect("scan");
    assert!(!keys.contains(&b"mine".to_vec()));
    session.commit().expect("commit");
    session.begin_deferred().expect("begin");
    session.set(b"mine", b"2").expect("set");
    let found = session.batch(&[bpfdb::Operation::Get(b"mine")], 16);
    assert_eq!(found.expect("batch"), [Ok(Some(b"2".to_vec()))]);
    session.rollback().expect("rollback");
    assert_eq!(value(&mut session, b"mine"), None);
}
