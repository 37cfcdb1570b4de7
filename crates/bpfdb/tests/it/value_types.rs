//! Values that are no strings: what reads a string refuses them, what takes any type does not, and
//! their memory comes back.

use bpfdb::abi::BPFDB_VALUE_MAX;
use bpfdb::{Engine, Operation, Options, Session, Status, ValueType};

const START: u64 = 1_000_000;
const TEST: ValueType = ValueType::TEST;
/// Around every limit of the layout of strings, which these values do not have.
const LENGTHS: [usize; 7] = [1, 8, 9, 16, 17, 100, BPFDB_VALUE_MAX as usize];

/// Its clock stands still at START.
fn engine() -> Engine {
    let options = Options {
        memory_limit: 128 << 20,
        max_sessions: 64,
        ..Options::default()
    };
    let engine = Engine::create(&options).expect("the engine starts");
    engine.stop_clock(START);
    engine
}

fn value(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

/// Type, bytes and expiry of a key.
fn typed(session: &mut Session, key: &[u8]) -> Option<(ValueType, Vec<u8>, Option<u64>)> {
    let head = session.head(key).expect("of any type")?;
    let value = head.value.expect("not a large one");
    assert_eq!(head.len, value.len() as u64);
    Some((head.value_type, value, head.expires_at))
}

#[test]
fn they_are_read_by_what_takes_any_type() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    for length in LENGTHS {
        for expires_at in [None, Some(START + 5)] {
            let value = value(length);
            session
                .set_typed(b"key", TEST, &value, expires_at)
                .expect("set");
            let found = Some((TEST, value.clone(), expires_at));
            assert_eq!(typed(&mut session, b"key"), found, "{length}");
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
            assert_eq!(entry.map(|entry| entry.value), Some(value));
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
    let too_long = vec![7; BPFDB_VALUE_MAX as usize + 1];
    for wrong in [&b""[..], &too_long] {
        let set = session.set_typed(b"key", TEST, wrong, None);
        assert_eq!(set, Err(Status::BadRequest), "{}", wrong.len());
    }
    for code in (1..16).filter(|&code| code != TEST.code()) {
        let kind = ValueType::from_code(code);
        let set = session.set_typed(b"key", kind, b"value", None);
        assert_eq!(set, Err(Status::BadRequest), "{code}");
    }
    assert_eq!(session.get(b"key"), Ok(None));
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
