//! Random schedules: the same operators, on a target and on the model.
//!
//! A schedule names sessions, keys and value lengths by small numbers, so that
//! it shrinks well. After every step the outcome, the committed contents, the
//! locks and the open transactions must be those of the model; at the end
//! everything is deleted and nothing may be left. The report of a difference is
//! a script (see [`crate::script`]) of the steps up to it.

use bpfdb_model::{Gauges, Model, Op, Outcome, Rules, SessionId};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::target::{Client, Target, scrub};
use crate::words::{op_to_text, outcome_to_text};

#[derive(Clone, Debug)]
pub struct Schedule {
    pub sessions: usize,
    pub keys: usize,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Step {
    session: Index,
    verb: Verb,
    key: Index,
    length: usize,
    /// Milliseconds.
    time: u64,
    /// What is committed then is compared in a snapshot. Chosen, not by turns: so that
    /// a step less is not another schedule, and schedules shrink.
    in_snapshot: bool,
}

/// Operators that one session calls together.
struct Batch {
    session: usize,
    ops: Vec<Op>,
    in_snapshot: bool,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Begin,
    BeginReadOnly,
    Get,
    GetForUpdate,
    Set,
    SetFor,
    /// Of this type.
    SetTyped(u8),
    GetAny,
    Expiry,
    Delete,
    Scan,
    Commit,
    Rollback,
    Reconnect,
    Pass,
    Sweep,
}

/// Keys at the limits of the layout, some equal but for zeros at their end.
pub fn keys() -> Vec<Vec<u8>> {
    let keys = [
        b"a".to_vec(),
        b"a\0".to_vec(),
        vec![b'k'; 16],
        vec![b'k'; 17],
        vec![b'k'; 512],
        vec![b'k'; 511],
        vec![0; 8],
        b"k\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
    ];
    keys.to_vec()
}

/// What a batch may bring: one slot. Longer values are for tests/large.rs.
const LONGEST: usize = bpfdb::abi::BPFDB_VALUE_MAX as usize;
/// Of a collection.
const LONGER: usize = 2 * LONGEST + 100;
/// Hash, list, set and sorted set.
const TYPES: &[u8] = &[
    bpfdb::abi::BPFDB_TYPE_HASH as u8,
    bpfdb::abi::BPFDB_TYPE_LIST as u8,
    bpfdb::abi::BPFDB_TYPE_SET as u8,
    bpfdb::abi::BPFDB_TYPE_SORTED_SET as u8,
];
/// Value lengths at the limits of the layout.
const LENGTHS: &[usize] = &[0, 1, 8, 15, 16, 17, 100, 1024, 8192, LONGEST - 1, LONGEST];

/// Up to `bursts` bursts: a session rarely gets far if it is interrupted after
/// every step.
pub fn schedules(bursts: usize) -> impl Strategy<Value = Schedule> {
    (3..=8usize, 2..=keys().len()).prop_flat_map(move |(sessions, keys)| {
        prop::collection::vec(burst(), 1..=bursts).prop_map(move |bursts| Schedule {
            sessions,
            keys,
            steps: bursts.into_iter().flatten().collect(),
        })
    })
}

/// Some steps of one session.
fn burst() -> impl Strategy<Value = Vec<Step>> {
    let verb = prop_oneof![
        6 => Just(Verb::Get),
        7 => Just(Verb::Set),
        4 => Just(Verb::Begin),
        3 => Just(Verb::BeginReadOnly),
        3 => Just(Verb::GetForUpdate),
        3 => Just(Verb::Delete),
        4 => Just(Verb::Commit),
        2 => Just(Verb::Rollback),
        1 => Just(Verb::Reconnect),
        4 => Just(Verb::SetFor),
        2 => select(TYPES).prop_map(Verb::SetTyped),
        2 => Just(Verb::GetAny),
        2 => Just(Verb::Expiry),
        3 => Just(Verb::Pass),
        1 => Just(Verb::Sweep),
        2 => Just(Verb::Scan),
    ];
    // Mostly lengths around the inline limit: the longest cost the most time.
    let length = prop_oneof![6 => select(&LENGTHS[..7]), 1 => select(&LENGTHS[7..])];
    let steps = prop::collection::vec(
        (verb, any::<Index>(), length, 0..=4u64, any::<bool>()),
        1..=6,
    );
    (any::<Index>(), steps).prop_map(|(session, steps)| {
        let step = |(verb, key, length, time, in_snapshot)| Step {
            session,
            verb,
            key,
            length,
            time,
            in_snapshot,
        };
        steps.into_iter().map(step).collect()
    })
}

impl Schedule {
    /// Steps in a row of one session, up to `size` of them.
    fn batches(&self, size: usize) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for ((session, op), step) in self.ops().into_iter().zip(&self.steps) {
            match batches.last_mut() {
                Some(last) if last.session == session && last.ops.len() < size => {
                    last.ops.push(op);
                    last.in_snapshot = step.in_snapshot;
                }
                _ => batches.push(Batch {
                    session,
                    ops: vec![op],
                    in_snapshot: step.in_snapshot,
                }),
            }
        }
        batches
    }

    /// Session and operator of every step.
    fn ops(&self) -> Vec<(usize, Op)> {
        let keys = keys();
        let op = |(number, step): (usize, &Step)| {
            let key = keys[step.key.index(self.keys)].clone();
            let op = match step.verb {
                Verb::Begin => Op::Begin,
                Verb::BeginReadOnly => Op::BeginReadOnly,
                Verb::Get => Op::Get(key),
                Verb::GetForUpdate => Op::GetForUpdate(key),
                Verb::Set => Op::Set(key, value(number, step.length)),
                Verb::SetFor => Op::SetFor(key, value(number, step.length), step.time),
                Verb::SetTyped(kind) => Op::SetTyped(key, kind, typed_value(number, step.length)),
                Verb::GetAny => Op::GetAny(key),
                Verb::Expiry => Op::Expiry(key),
                Verb::Delete => Op::Delete(key),
                Verb::Scan => Op::Scan,
                Verb::Commit => Op::Commit,
                Verb::Rollback => Op::Rollback,
                Verb::Reconnect => Op::Reconnect,
                Verb::Pass => Op::Pass(step.time),
                Verb::Sweep => Op::Sweep,
            };
            (step.session.index(self.sessions), op)
        };
        self.steps.iter().enumerate().map(op).collect()
    }
}

/// One letter all over, another one for every step: a torn value has two.
fn value(number: usize, length: usize) -> Vec<u8> {
    vec![b'A' + (number % 58) as u8; length]
}

/// The longest ones become longer than a slot, of which one piece is no longer enough.
fn typed_value(number: usize, length: usize) -> Vec<u8> {
    let length = match length {
        LONGEST => LONGER,
        0 => 1,
        length => length,
    };
    value(number, length)
}

/// Runs the schedule on an empty target, and leaves it empty, or says where it
/// differs from the model. Up to `batch` operators of one session are called
/// together, if the schedule has them in a row.
pub fn run<T: Target>(
    target: &T,
    rules: Rules,
    schedule: &Schedule,
    batch: usize,
) -> Result<(), String> {
    let script = follow(target, rules, schedule, batch)?;
    scrub(target, &keys()[..schedule.keys])
        .map_err(|difference| format!("{script}at the end: {difference}\n"))
}

/// The same, and leaves what the schedule has written: the script of it.
pub fn follow<T: Target>(
    target: &T,
    rules: Rules,
    schedule: &Schedule,
    batch: usize,
) -> Result<String, String> {
    let keys = &keys()[..schedule.keys];
    let mut mirror = Mirror::new(target, rules, schedule.sessions);
    let mut script = format!("versions {}\n", rules.versions);
    for batch in schedule.batches(batch) {
        let session = batch.session;
        let mut same = Ok(());
        for (op, expected, actual) in mirror.step(session, &batch.ops) {
            let (op, expected) = (op_to_text(&op), outcome_to_text(&expected));
            script += &format!("s{session} {op} -> {expected}\n");
            let actual = outcome_to_text(&actual);
            if actual != expected {
                same = Err(format!("the outcome is {actual}"));
                break;
            }
        }
        same.and_then(|()| mirror.compare_state(batch.in_snapshot, keys))
            .map_err(|difference| format!("{script}but {difference}\n"))?;
    }
    Ok(script)
}

/// A target beside the model.
struct Mirror<'a, T: Target> {
    target: &'a T,
    clients: Vec<T::Client<'a>>,
    /// Reads what is committed, with the last one of the ids.
    observer: T::Client<'a>,
    model: Model,
    ids: Vec<SessionId>,
}

impl<'a, T: Target> Mirror<'a, T> {
    fn new(target: &'a T, rules: Rules, sessions: usize) -> Self {
        let mut model = Model::new(rules);
        Mirror {
            target,
            clients: (0..sessions).map(|_| target.client()).collect(),
            observer: target.client(),
            ids: (0..=sessions).map(|_| model.open()).collect(),
            model,
        }
    }

    /// Each operator with the outcome that is expected and the actual one.
    fn step(&mut self, session: usize, ops: &[Op]) -> Vec<(Op, Outcome, Outcome)> {
        let actual = self.clients[session].apply_all(ops, LONGEST);
        assert_eq!(actual.len(), ops.len(), "an outcome for each operator");
        let expected = ops.iter().map(|op| self.model.apply(self.ids[session], op));
        ops.iter()
            .zip(expected)
            .zip(actual)
            .map(|((op, expected), actual)| (op.clone(), expected, actual))
            .collect()
    }

    fn compare_state(&mut self, in_snapshot: bool, keys: &[Vec<u8>]) -> Result<(), String> {
        if !in_snapshot {
            self.compare_contents(keys)?;
        } else {
            self.observe(&Op::BeginReadOnly)?;
            self.compare_contents(keys)?;
            self.observe(&Op::Commit)?;
        }
        let (expected, actual) = (self.model.gauges(), self.target.gauges());
        let compared = |gauges: Gauges| (gauges.locks, gauges.transactions);
        if compared(expected) != compared(actual) {
            return Err(format!("the gauges are {actual:?}, not {expected:?}"));
        }
        Ok(())
    }

    fn compare_contents(&mut self, keys: &[Vec<u8>]) -> Result<(), String> {
        keys.iter().try_for_each(|key| {
            self.observe(&Op::GetAny(key.clone()))?;
            self.observe(&Op::Get(key.clone()))?;
            self.observe(&Op::Expiry(key.clone()))
        })
    }

    fn observe(&mut self, op: &Op) -> Result<(), String> {
        let observer = *self.ids.last().unwrap();
        let expected = self.model.apply(observer, op);
        let actual = self.observer.apply(op);
        if expected == actual {
            return Ok(());
        }
        let (expected, actual) = (outcome_to_text(&expected), outcome_to_text(&actual));
        Err(format!(
            "{} of an observer is {actual}, not {expected}",
            op_to_text(op)
        ))
    }
}
