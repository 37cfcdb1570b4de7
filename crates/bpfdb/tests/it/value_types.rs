//! Values that are no strings: what reads a string refuses them, what takes any type does not, and
//! their memory comes back.

use crate::common;

use bpfdb::abi::{BPFDB_LARGE_MAX, BPFDB_TYPE_COUNT, BPFDB_VALUE_MAX};
use bpfdb::{Engine, Operation, Session, Status, ValueType};

const START: u64 = 1_000_000;
const TEST: ValueType = ValueType::TEST;
/// Around every limit of the layout of strings, which these values do not have.
const LENGTHS: [usize; 7] = [1, 8, 9, 16, 17, 100, BPFDB_VALUE_MAX as usize];
/// Of large ones: the shortest, one without a whole page, one of several parts.
const LARGE: [usize; 3] = [BPFDB_VALUE_MAX as usize + 1, 33 << 10, 1 << 20];

/// Its clock stands still at START.
fn engine() -> common::Lent {
    common::lent(START)
}

fn value(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

/// Type, bytes and expiry of a key.
fn typed(session: &mut Session, key: &[u8]) -> Option<(ValueType, Vec<u8>, Option<u64>)> {
    let head = session.head(key).expect("of any type")?;
    let (kind, entry) = session.typed_entry(key).expect("read").expect("there");
    assert_eq!(head.value_type, kind);
    assert_eq!(head.len, entry.value.len() as u64);
    assert_eq!(head.expires_at, entry.expires_at);
    let is_large = entry.value.len() > BPFDB_VALUE_MAX as usize;
    let bytes = (!is_large).then_some(&entry.value);
    assert!(head.value.as_ref() == bytes, "what is large is not read");
    Some((kind, entry.value, entry.expires_at))
}

/// Slots in use, when what has no holder has been given back.
fn slots(engine: &Engine) -> u64 {
    engine.sweep().expect("sweep");
    engine.stats().expect("figures").slots_used()
}

#[test]
fn they_are_read_by_what_takes_any_type() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    for length in LENGTHS.into_iter().chain(LARGE) {
        for expires_at in [None, Some(START + 5)] {
            let value = value(length);
            session
                .set_typed(b"key", TEST, &value, expires_at)
                .expect("set");
            let found = Some((TEST, value.clone(), expires_at));
            assert!(typed(&mut session, b"key") == found, "{length}");
            assert_eq!(session.get(b"key"), Err(Status::WrongType));
            assert_eq!(session.value_len(b"key"), Err(Status::WrongType));
            assert_eq!(
                session.get_range(b"key", |len| 0..len),
                Err(Status::WrongType)
            );
            assert_eq!(session.entry(b"key"), Err(Status::WrongType));
            // A transaction that meets one goes on.
            session.begin().expect("begin");
            assert_eq!(session.get_for_update(b"key"), Err(Status::WrongType));
            session
                .set(b"other", b"1")
                .expect("the transaction has not failed");
            let entry = session.entry_of_any_type_for_update(b"key").expect("read");
            assert!(entry.map(|entry| entry.value) == Some(value), "{length}");
            session.commit().expect("commit");
        }
    }
    engine.stop_clock(START + 5);
    assert_eq!(typed(&mut session, b"key"), None);
    assert_eq!(session.get(b"key"), Ok(None));
}

#[test]
fn a_set_may_change_the_type() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    session.set(b"key", b"a string").expect("set");
    session
        .set_typed(b"key", TEST, b"no string", None)
        .expect("set");
    assert_eq!(session.get(b"key"), Err(Status::WrongType));
    session.set(b"key", b"a string").expect("set");
    assert_eq!(session.get(b"key"), Ok(Some(b"a string".to_vec())));
    session
        .set_typed(b"key", TEST, b"no string", None)
        .expect("set");
    assert_eq!(session.delete(b"key"), Ok(true));
    assert_eq!(session.get(b"key"), Ok(None));
}

#[test]
fn a_snapshot_sees_the_type_of_its_time() {
    let engine = engine();
    let (mut writer, mut reader) = (engine.session().unwrap(), engine.session().unwrap());
    writer
        .set_typed(b"key", TEST, b"no string", None)
        .expect("set");
    reader.begin_read_only().expect("begin");
    assert_eq!(reader.get(b"key"), Err(Status::WrongType));
    writer.set(b"key", b"a string").expect("set");
    assert_eq!(reader.get(b"key"), Err(Status::WrongType));
    let found = Some((TEST, b"no string".to_vec(), None));
    assert_eq!(typed(&mut reader, b"key"), found);
    reader.commit().expect("commit");
    assert_eq!(reader.get(b"key"), Ok(Some(b"a string".to_vec())));
}

#[test]
fn a_rollback_brings_the_type_back() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    session.set(b"key", b"a string").expect("set");
    session.begin().expect("begin");
    session
        .set_typed(b"key", TEST, b"no string", None)
        .expect("set");
    assert_eq!(session.get(b"key"), Err(Status::WrongType));
    session.rollback().expect("rollback");
    assert_eq!(session.get(b"key"), Ok(Some(b"a string".to_vec())));
}

#[test]
fn what_is_no_value_is_refused() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let set = session.set_typed(b"key", TEST, b"", None);
    assert_eq!(set, Err(Status::BadRequest));
    // Never written to, so that it takes no memory.
    let too_long = vec![0; BPFDB_LARGE_MAX as usize + 1];
    let set = session.set_typed(b"key", TEST, &too_long, None);
    assert_eq!(set, Err(Status::ValueTooLarge));
    let before = slots(&engine);
    for code in (BPFDB_TYPE_COUNT as u8..16).filter(|&code| code != TEST.code()) {
        let kind = ValueType::from_code(code);
        for value in [&b"value"[..], &value(LARGE[1])] {
            let set = session.set_typed(b"key", kind, value, None);
            assert_eq!(set, Err(Status::BadRequest), "{code}");
        }
    }
    assert_eq!(session.get(b"key"), Ok(None));
    assert_eq!(slots(&engine), before);
}

#[test]
fn each_type_comes_back() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let is_string = |kind: &ValueType| *kind == ValueType::STRING;
    let types: Vec<_> = (ValueType::all().skip_while(is_string))
        .chain([TEST])
        .collect();
    for length in [1, LARGE[1]] {
        for &kind in &types {
            let value = value(length);
            session.set_typed(b"key", kind, &value, None).expect("set");
            assert!(typed(&mut session, b"key") == Some((kind, value, None)));
            assert_eq!(session.get(b"key"), Err(Status::WrongType));
        }
    }
}

#[test]
fn large_ones_are_shared_with_their_type() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let before = slots(&engine);
    for length in LARGE {
        let value = value(length);
        session.set_typed(b"from", TEST, &value, None).expect("set");
        let one = slots(&engine);
        session.begin().expect("begin");
        let until = Some(START + 5);
        assert_eq!(session.share_large(b"from", b"to", until), Ok(true));
        assert_eq!(session.share_large(b"from", b"from", until), Ok(true));
        session.commit().expect("commit");
        assert_eq!(slots(&engine), one, "nothing is copied");
        for key in [&b"from"[..], b"to"] {
            assert!(typed(&mut session, key) == Some((TEST, value.clone(), until)));
            assert_eq!(session.get(key), Err(Status::WrongType));
        }
        assert_eq!(session.delete(b"from"), Ok(true));
        assert!(typed(&mut session, b"to") == Some((TEST, value, until)));
        assert_eq!(session.delete(b"to"), Ok(true));
        assert_eq!(slots(&engine), before);
    }
}

/// What is not large is read, and written, by all that want to share it.
#[test]
fn a_short_one_is_not_shared() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    session
        .set_typed(b"from", TEST, b"no string", None)
        .expect("set");
    session.begin().expect("begin");
    assert_eq!(session.share_large(b"from", b"to", None), Ok(false));
    session.commit().expect("the transaction has not failed");
    assert_eq!(typed(&mut session, b"to"), None);
}

#[test]
fn a_large_one_changes_its_type() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let (first, second) = (value(LARGE[1]), value(LARGE[2]));
    session.set(b"key", &first).expect("set");
    session.begin().expect("begin");
    session.set_typed(b"key", TEST, &second, None).expect("set");
    assert_eq!(session.get(b"key"), Err(Status::WrongType));
    session.rollback().expect("rollback");
    assert!(session.get(b"key") == Ok(Some(first.clone())));
    session.set_typed(b"key", TEST, &second, None).expect("set");
    let mut reader = engine.session().expect("session");
    reader.begin_read_only().expect("begin");
    assert_eq!(reader.get(b"key"), Err(Status::WrongType));
    session.set(b"key", &first).expect("set");
    assert!(typed(&mut reader, b"key") == Some((TEST, second, None)));
    reader.commit().expect("commit");
    assert!(reader.get(b"key") == Ok(Some(first)));
}

#[test]
fn reads_ahead_of_others_are_not_disturbed() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    session
        .set_typed(b"typed", TEST, b"no string", None)
        .expect("set");
    session.set(b"key", b"a string").expect("set");
    let reads = [Operation::Get(b"typed"), Operation::Get(b"key")];
    session.prefetch(&reads).expect("read");
    session.expose(0..2);
    assert_eq!(session.get(b"typed"), Err(Status::WrongType));
    assert_eq!(session.get(b"key"), Ok(Some(b"a string".to_vec())));
    assert!(session.head(b"typed").expect("read").is_some());
    session.clear_read_cache();
}

#[test]
fn their_memory_comes_back() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let used = || engine.stats().expect("figures").slots_used();
    let before = used();
    for round in 0..3 {
        for length in LENGTHS {
            let key = format!("key{length}").into_bytes();
            let expires_at = (round == 1).then_some(START + 5);
            session
                .set_typed(&key, TEST, &value(length), expires_at)
                .expect("set");
        }
    }
    assert!(used() > before);
    for length in LENGTHS {
        let key = format!("key{length}").into_bytes();
        assert_eq!(session.delete(&key), Ok(true));
    }
    assert_eq!(used(), before);
}

#[test]
fn a_mistake_fails_a_transaction() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    session.begin().expect("begin");
    session.set(b"before", b"1").expect("set");
    let unknown = ValueType::from_code(13);
    let set = session.set_typed(b"key", unknown, b"value", None);
    assert_eq!(set, Err(Status::BadRequest));
    assert_eq!(session.commit(), Err(Status::RolledBack));
    assert_eq!(session.get(b"before"), Ok(None));
}

/// Fill once, run many times.
#[test]
fn a_batch_runs_again() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let sets = [
        Operation::SetTyped(b"typed", TEST, b"no string", Some(START + 5)),
        Operation::SetEntry(b"string", b"text", Some(START + 5)),
    ];
    let batch = session.prepare(&sets, 0).expect("prepared");
    for _ in 0..3 {
        assert_eq!(session.run(&batch).expect("executed"), 2);
        for number in 0..2 {
            assert_eq!(session.outcome(&batch, number), Ok(None));
        }
    }
    let found = Some((TEST, b"no string".to_vec(), Some(START + 5)));
    assert_eq!(typed(&mut session, b"typed"), found);
    let head = session.head(b"string").expect("read").expect("there");
    assert_eq!(head.expires_at, Some(START + 5));
}
