//! Transactions that keep what they have read for update and what they have written.

use crate::common;

use bpfdb::{Engine, Status, ValueType, abi};

/// How often the engine has set a value.
fn sets(engine: &Engine) -> u64 {
    let stats = engine.stats().expect("figures");
    stats.counters.operations[abi::BPFDB_OP_SET as usize]
}

#[test]
fn a_key_is_read_once_and_written_once() {
    let engine = common::lent(0);
    let mut writer = engine.session().expect("session");
    let mut reader = engine.session().expect("session");
    writer.set(b"a", b"0").expect("set");
    let before = sets(&engine);

    writer.begin_keeping().expect("begin");
    assert_eq!(writer.state(), abi::BPFDB_TXN_WRITE);
    for number in 0..100_u8 {
        let expected = if number == 0 { b'0' } else { number - 1 };
        assert_eq!(writer.get_for_update(b"a"), Ok(Some(vec![expected])));
        writer.set(b"a", &[number]).expect("set");
        assert_eq!(writer.get(b"a"), Ok(Some(vec![number])));
    }
    assert_eq!(sets(&engine), before);
    assert_eq!(reader.get(b"a"), Ok(Some(b"0".to_vec())));
    assert_eq!(reader.begin(), Ok(()));
    assert_eq!(reader.get_for_update(b"a"), Err(Status::Conflict));
    assert_eq!(reader.rollback(), Ok(()));
    writer.commit().expect("commit");
    assert_eq!(sets(&engine), before + 1);
    assert_eq!(reader.get(b"a"), Ok(Some(vec![99])));

    // The session is what it was before.
    writer.set(b"a", b"1").expect("set");
    assert_eq!(reader.get(b"a"), Ok(Some(b"1".to_vec())));
}

#[test]
fn types_and_times_stay_what_they_are() {
    let engine = common::lent(0);
    let mut session = engine.session().expect("session");
    let later = Some(engine.now_ms() + 1_000_000);
    let over = Some(engine.now_ms() - 1);
    let hash = ValueType::HASH;
    session.set_typed(b"h", hash, b"1", later).expect("set");
    session.set_typed(b"over", hash, b"1", None).expect("set");

    session.begin_keeping().expect("begin");
    for value in [b"2", b"3"] {
        session.head_for_update(b"h").expect("head");
        session.set_typed(b"h", hash, value, later).expect("set");
        let head = session
            .head_for_update(b"h")
            .expect("head")
            .expect("a value");
        assert_eq!((head.value_type, head.expires_at), (hash, later));
        assert_eq!(head.value.as_deref(), Some(&value[..]));
    }
    session.head_for_update(b"over").expect("head");
    session.set_typed(b"over", hash, b"2", None).expect("set");
    session.set_typed(b"over", hash, b"3", over).expect("set");
    assert_eq!(session.head_for_update(b"over"), Ok(None));
    session.commit().expect("commit");
    let (kind, entry) = session.typed_entry(b"h").expect("get").expect("a value");
    assert_eq!(
        (kind, &entry.value[..], entry.expires_at),
        (hash, &b"3"[..], later)
    );
    assert_eq!(session.typed_entry(b"over"), Ok(None));

    // A string is asked for, where there is none.
    session.begin_keeping().expect("begin");
    session.head_for_update(b"h").expect("head");
    assert_eq!(session.get_for_update(b"h"), Err(Status::WrongType));
    session.rollback().expect("rollback");
}

#[test]
fn what_is_deleted_is_absent_and_what_comes_again_is_there() {
    let engine = common::lent(0);
    let mut session = engine.session().expect("session");
    session.set(b"a", b"1").expect("set");
    session.set(b"b", b"1").expect("set");

    session.begin_keeping().expect("begin");
    for key in [b"a", b"b", b"c"] {
        session.get_for_update(key).expect("get");
    }
    assert_eq!(session.delete(b"a"), Ok(true));
    assert_eq!(session.delete(b"a"), Ok(false));
    assert_eq!(session.get_for_update(b"a"), Ok(None));
    assert_eq!(session.delete(b"b"), Ok(true));
    session.set(b"b", b"2").expect("set");
    session.set(b"c", b"2").expect("set");
    assert_eq!(session.delete(b"c"), Ok(true));
    session.set(b"new", b"2").expect("set");
    assert_eq!(session.delete(b"never read"), Ok(false));
    session.commit().expect("commit");
    let found = [&b"a"[..], b"b", b"c", b"new"].map(|key| session.get(key).expect("get"));
    let two = Some(b"2".to_vec());
    assert_eq!(found, [None, two.clone(), None, two]);
}

/// Whatever is not kept comes behind the writes that are.
#[test]
fn other_operations_see_what_is_kept() {
    let engine = common::lent(0);
    let mut session = engine.session().expect("session");
    let long = vec![b'x'; 100_000];
    session.begin_keeping().expect("begin");
    for key in [b"a", b"b", b"c"] {
        session.get_for_update(key).expect("get");
        session.set(key, b"1").expect("set");
    }
    session
        .get_with(b"a", |value| assert_eq!(value, Some(&b"1"[..])))
        .expect("get");
    session.set(b"b", &long).expect("set");
    assert_eq!(session.get_for_update(b"b"), Ok(Some(long.clone())));
    session.share_large(b"b", b"c", None).expect("share");
    assert_eq!(session.value_len(b"c"), Ok(Some(100_000)));
    session.set(b"b", b"2").expect("set");
    session.commit().expect("commit");
    assert_eq!(session.get(b"a"), Ok(Some(b"1".to_vec())));
    assert_eq!(session.get(b"b"), Ok(Some(b"2".to_vec())));
    assert_eq!(session.get(b"c"), Ok(Some(long)));
}

#[test]
fn nothing_is_left_of_what_fails() {
    let engine = common::lent(0);
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    other.begin().expect("begin");
    other.set(b"locked", b"x").expect("set");

    session.begin_keeping().expect("begin");
    session.get_for_update(b"a").expect("get");
    session.set(b"a", b"1").expect("set");
    session.rollback().expect("rollback");
    assert_eq!(session.get(b"a"), Ok(None));

    // The lock of a key that was not read comes with the write.
    session.begin_keeping().expect("begin");
    session.set(b"a", b"1").expect("set");
    session.set(b"locked", b"1").expect("set");
    assert_eq!(session.commit(), Err(Status::Conflict));
    assert_eq!(session.state(), abi::BPFDB_TXN_NONE);
    assert_eq!(session.get(b"a"), Ok(None));

    session.begin_keeping().expect("begin");
    assert_eq!(session.get_for_update(b"locked"), Err(Status::Conflict));
    assert!(session.commit().is_err());
    other.commit().expect("commit");
    assert_eq!(session.get(b"locked"), Ok(Some(b"x".to_vec())));
}
