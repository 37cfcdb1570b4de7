//! What the model says of operators and transactions, with two sessions.

use bpfdb_model::{Answer, Error, Gauges, Model, Op, Outcome, Rules, SessionId};

/// A model with two sessions, and words for them.
struct Pair {
    model: Model,
    a: SessionId,
    b: SessionId,
}

impl Pair {
    fn new(versions: usize) -> Pair {
        let mut model = Model::new(Rules {
            versions,
            ..Rules::default()
        });
        let (a, b) = (model.open(), model.open());
        Pair { model, a, b }
    }

    fn a(&mut self, op: Op) -> Outcome {
        self.model.apply(self.a, &op)
    }

    fn b(&mut self, op: Op) -> Outcome {
        self.model.apply(self.b, &op)
    }
}

fn get(key: &str) -> Op {
    Op::Get(key.into())
}

fn set(key: &str, value: &str) -> Op {
    Op::Set(key.into(), value.into())
}

fn delete(key: &str) -> Op {
    Op::Delete(key.into())
}

const DONE: Outcome = Ok(Answer::Done);
const ABSENT: Outcome = Ok(Answer::Absent);

fn value(value: &str) -> Outcome {
    Ok(Answer::Value(value.into()))
}

#[test]
fn without_a_transaction_every_operator_commits() {
    let mut pair = Pair::new(4);
    assert_eq!(pair.a(get("x")), ABSENT);
    assert_eq!(pair.a(delete("x")), ABSENT);
    assert_eq!(pair.a(set("x", "1")), DONE);
    assert_eq!(pair.b(get("x")), value("1"));
    assert_eq!(pair.b(delete("x")), DONE);
    assert_eq!(pair.a(get("x")), ABSENT);
    pair.model.sweep();
    assert_eq!(pair.model.gauges(), Gauges::default());
}

#[test]
fn changes_are_private_until_commit() {
    let mut pair = Pair::new(4);
    pair.a(Op::Begin).unwrap();
    pair.a(set("x", "1")).unwrap();
    assert_eq!(pair.a(get("x")), value("1"));
    assert_eq!(pair.b(get("x")), ABSENT);
    pair.a(Op::Commit).unwrap();
    assert_eq!(pair.b(get("x")), value("1"));
}

#[test]
fn rollback_and_close_undo() {
    for end in [Op::Rollback, Op::Reconnect] {
        let mut pair = Pair::new(4);
        pair.a(set("x", "1")).unwrap();
        pair.a(Op::Begin).unwrap();
        pair.a(set("x", "2")).unwrap();
        pair.a(delete("y")).unwrap();
        assert_eq!(pair.model.gauges().locks, 2);
        pair.a(end).unwrap();
        assert_eq!(pair.b(get("x")), value("1"));
        assert_eq!(pair.model.gauges().locks, 0);
        assert_eq!(pair.model.gauges().transactions, 0);
    }
}

#[test]
fn a_conflict_fails_the_transaction_until_it_ends() {
    let mut pair = Pair::new(4);
    pair.a(Op::Begin).unwrap();
    pair.b(Op::Begin).unwrap();
    pair.a(set("x", "1")).unwrap();
    pair.b(set("y", "1")).unwrap();
    assert_eq!(pair.b(get("x")), Err(Error::Conflict));
    assert_eq!(pair.b(get("y")), Err(Error::WrongState));
    assert_eq!(pair.b(Op::Begin), Err(Error::WrongState));
    // Its locks are held to the end.
    assert_eq!(pair.model.gauges().locks, 2);
    assert_eq!(pair.b(Op::Commit), Err(Error::RolledBack));
    assert_eq!(pair.b(get("y")), ABSENT);
    assert_eq!(pair.a(Op::Commit), DONE);
}

#[test]
fn only_the_only_reader_may_write() {
    let mut pair = Pair::new(4);
    pair.a(Op::Begin).unwrap();
    pair.b(Op::Begin).unwrap();
    pair.a(get("x")).unwrap();
    pair.b(get("x")).unwrap();
    assert_eq!(pair.a(set("x", "1")), Err(Error::Conflict));
    assert_eq!(pair.b(set("x", "1")), Err(Error::Conflict));
    pair.a(Op::Rollback).unwrap();
    pair.b(Op::Rollback).unwrap();
    pair.b(Op::Begin).unwrap();
    pair.b(get("x")).unwrap();
    assert_eq!(pair.b(set("x", "1")), DONE);
}

#[test]
fn a_snapshot_does_not_move_and_cannot_write() {
    let mut pair = Pair::new(4);
    pair.b(set("x", "1")).unwrap();
    pair.a(Op::BeginReadOnly).unwrap();
    pair.b(set("x", "2")).unwrap();
    pair.b(set("y", "2")).unwrap();
    assert_eq!(pair.a(get("x")), value("1"));
    assert_eq!(pair.a(get("y")), ABSENT);
    assert_eq!(pair.a(set("x", "3")), Err(Error::ReadOnly));
    assert_eq!(pair.a(get("x")), value("1"));
    pair.a(Op::Commit).unwrap();
    assert_eq!(pair.a(get("x")), value("2"));
}

#[test]
fn a_scan_sees_a_snapshot_or_what_is_committed() {
    let keys = |keys: &[&str]| {
        let keys = keys.iter().map(|key| key.as_bytes().to_vec());
        Ok(Answer::Keys(keys.collect()))
    };
    let mut pair = Pair::new(4);
    pair.b(set("y", "1")).unwrap();
    pair.b(set("x", "1")).unwrap();
    pair.a(Op::BeginReadOnly).unwrap();
    pair.b(set("z", "1")).unwrap();
    pair.b(delete("x")).unwrap();
    assert_eq!(pair.a(Op::Scan), keys(&["x", "y"]));
    assert_eq!(pair.b(Op::Scan), keys(&["y", "z"]));
    pair.a(Op::Commit).unwrap();
    pair.a(Op::Begin).unwrap();
    pair.a(set("own", "1")).unwrap();
    assert_eq!(pair.a(Op::Scan), keys(&["own", "y", "z"]));
    // Others may change values, and no more.
    pair.b(set("y", "2")).unwrap();
    assert_eq!(pair.b(set("x", "1")), Err(Error::Conflict));
    assert_eq!(pair.b(delete("y")), Err(Error::Conflict));
    assert_eq!(pair.b(delete("x")), ABSENT);
    pair.b(Op::Begin).unwrap();
    assert_eq!(pair.b(Op::Scan), Err(Error::Conflict));
    assert_eq!(pair.b(Op::Commit), Err(Error::RolledBack));
    assert_eq!(pair.a(Op::Scan), keys(&["own", "y", "z"]));
    pair.a(Op::Commit).unwrap();
    pair.b(set("x", "1")).unwrap();
    // A key that comes and is not decided.
    pair.b(Op::Begin).unwrap();
    pair.b(set("new", "1")).unwrap();
    pair.a(Op::Begin).unwrap();
    assert_eq!(pair.a(Op::Scan), Err(Error::Conflict));
    assert_eq!(pair.a(Op::Scan), Err(Error::WrongState));
    assert_eq!(pair.a(Op::Commit), Err(Error::RolledBack));
}

#[test]
fn a_set_that_would_drop_a_visible_version_is_refused() {
    for versions in 1..=4 {
        let mut pair = Pair::new(versions);
        for i in 0..versions {
            pair.b(set("x", "1")).unwrap();
            let reader = pair.model.open();
            pair.model.apply(reader, &Op::BeginReadOnly).unwrap();
            assert_eq!(pair.model.gauges().history, i as u64);
        }
        assert_eq!(pair.b(set("x", "2")), Err(Error::VersionsFull));
        assert_eq!(pair.b(set("y", "2")), DONE);
    }
}

#[test]
fn versions_that_nobody_sees_make_room() {
    let mut pair = Pair::new(2);
    pair.b(set("x", "1")).unwrap();
    pair.a(Op::BeginReadOnly).unwrap();
    for i in 0..9 {
        assert_eq!(pair.b(set("x", &i.to_string())), DONE);
    }
    assert_eq!(pair.a(get("x")), value("1"));
    pair.a(Op::Rollback).unwrap();
    pair.model.sweep();
    assert_eq!(pair.model.gauges().history, 0);
}

fn set_for(key: &str, value: &str, time: u64) -> Op {
    Op::SetFor(key.into(), value.into(), time)
}

fn expiry(key: &str) -> Op {
    Op::Expiry(key.into())
}

#[test]
fn a_value_expires() {
    let mut pair = Pair::new(4);
    assert_eq!(pair.a(set_for("x", "1", 10)), DONE);
    pair.a(Op::Pass(9)).unwrap();
    assert_eq!(pair.b(get("x")), value("1"));
    assert_eq!(pair.b(expiry("x")), Ok(Answer::Left(1)));
    pair.a(Op::Pass(1)).unwrap();
    assert_eq!(pair.b(get("x")), ABSENT);
    assert_eq!(pair.b(delete("x")), ABSENT);
    assert_eq!(pair.model.gauges().records, 1);
    pair.model.sweep();
    assert_eq!(pair.model.gauges(), Gauges::default());
    assert_eq!(pair.a(set_for("x", "1", 10)), DONE);
    assert_eq!(pair.a(set("x", "2")), DONE);
    assert_eq!(pair.b(expiry("x")), DONE);
    assert_eq!(pair.a(set_for("x", "3", 0)), DONE);
    assert_eq!(pair.b(get("x")), ABSENT);
}

#[test]
fn a_string_is_not_read_of_another_type() {
    let (wrong, any) = (Err(Error::WrongType), Op::GetAny("x".into()));
    let list = |value: &str| Op::SetTyped("x".into(), 2, value.into());
    let mut pair = Pair::new(4);
    assert_eq!(pair.a(list("1")), DONE);
    pair.a(Op::Begin).unwrap();
    assert_eq!(pair.a(get("x")), wrong);
    assert_eq!(pair.a(Op::GetForUpdate("x".into())), wrong);
    // It has not failed, and has locked the key.
    assert_eq!(pair.a(any.clone()), Ok(Answer::Typed(2, b"1".to_vec())));
    assert_eq!(pair.b(list("2")), Err(Error::Conflict));
    assert_eq!(pair.a(set("x", "2")), DONE);
    assert_eq!(pair.a(any.clone()), value("2"));
    assert_eq!(pair.a(Op::Rollback), DONE);
    assert_eq!(pair.b(expiry("x")), wrong);
    assert_eq!(pair.b(delete("x")), DONE);
    assert_eq!(pair.b(any), ABSENT);
}

#[test]
fn a_transaction_judges_by_one_time() {
    let mut pair = Pair::new(4);
    for begin in [Op::Begin, Op::BeginReadOnly] {
        pair.b(set_for("x", "1", 10)).unwrap();
        pair.a(begin).unwrap();
        assert_eq!(pair.a(get("x")), value("1"));
        pair.a(Op::Pass(20)).unwrap();
        pair.model.sweep();
        assert_eq!(pair.a(get("x")), value("1"));
        assert_eq!(pair.a(expiry("x")), Ok(Answer::Left(-10)));
        assert_eq!(pair.b(get("x")), ABSENT);
        pair.a(Op::Commit).unwrap();
        assert_eq!(pair.a(get("x")), ABSENT);
        pair.model.sweep();
        assert_eq!(pair.model.gauges(), Gauges::default());
    }
}

#[test]
fn limits() {
    let mut pair = Pair::new(4);
    let long = |len| "k".repeat(len);
    assert_eq!(pair.a(get("")), Err(Error::KeyTooLarge));
    assert_eq!(pair.a(get(&long(513))), Err(Error::KeyTooLarge));
    assert_eq!(pair.a(set(&long(512), &long(65536))), DONE);
    assert_eq!(pair.a(set("x", &long(65537))), DONE);
    let too_long = long((512 << 20) + 1);
    assert_eq!(pair.a(set("x", &too_long)), Err(Error::ValueTooLarge));
    pair.a(Op::Begin).unwrap();
    for i in 0..1000 {
        pair.a(get(&i.to_string())).unwrap();
    }
    assert_eq!(pair.a(get("7")), ABSENT);
    assert_eq!(pair.a(get("1000")), Err(Error::TooManyLocks));
}
