//! Continuation-passing style: `bpf/tests/continuation.bpf.c` and
//! `procedure.bpf.c`, in which programs of an application reach the operators
//! by tail call.

use crate::common;

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status, abi};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

/// `BPFDB_CPS_END` of both objects.
const ENDED: u32 = 99;

struct Chain {
    engine: Engine,
    object: Object,
    session: Session,
}

/// Chains that one test after the other has, one of each object: the verifier needs seconds for it.
static IDLE: Mutex<Vec<(&str, Chain)>> = Mutex::new(Vec::new());

/// A chain without keys and without a transaction, until the test ends.
struct Lent {
    name: &'static str,
    /// `None` only within [`Drop::drop`].
    chain: Option<Chain>,
}

impl Lent {
    fn of(name: &'static str) -> Self {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = idle.iter().position(|(other, _)| *other == name);
        let found = place.map(|place| idle.swap_remove(place).1);
        drop(idle);
        Self {
            name,
            chain: Some(found.unwrap_or_else(|| Chain::new(name))),
        }
    }
}

impl Deref for Lent {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        self.chain.as_ref().expect("it is lent")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Chain {
        self.chain.as_mut().expect("it is lent")
    }
}

/// What a failed test had is not lent again.
impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut chain) = self.chain.take().filter(|_| !thread::panicking()) else {
            return;
        };
        chain.empty();
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((self.name, chain));
    }
}

impl Chain {
    fn new(name: &str) -> Self {
        let engine = common::engine();
        let object = common::load(&engine, name);
        let session = engine.session().expect("session");
        Self {
            engine,
            object,
            session,
        }
    }

    fn empty(&mut self) {
        if self.session.state() != abi::BPFDB_TXN_NONE {
            self.session.rollback().expect("rollback");
        }
        let (_, keys) = self.session.scan(0, 1000).expect("scan");
        for key in keys {
            self.session.delete(&key).expect("delete");
        }
        let (next, keys) = self.session.scan(0, 1000).expect("scan");
        assert!(next == 0 && keys.is_empty(), "{} keys are left", keys.len());
    }

    fn call(&self, program: &str, number: u64) -> u32 {
        let program = bpfdb::find_program(&self.object, program).expect("program");
        let arguments = [u64::from(self.session.index()), number];
        program.run(&arguments).expect("run")
    }

    /// One operator with its operands; the outcome whose continuation ran.
    fn operator(&self, style: &str, operator: &str, key: u64) -> u32 {
        assert_eq!(self.call("operands", key), Status::Ok.code());
        self.call(&format!("{style}_{operator}"), key)
    }

    fn counted(&self, status: Status) -> u64 {
        let stats = self.engine.stats().expect("stats");
        stats.counters.statuses[status.code() as usize]
    }

    fn programs(&self) -> MapHandle {
        let map = self.object.maps().find(|m| m.name() == "bpfdb_programs");
        MapHandle::try_from(&map.expect("the map of programs")).expect("handle")
    }

    fn id(&self, program: &str) -> u32 {
        let program = self.object.progs().find(|p| p.name() == program);
        let fd = program.expect("program");
        libbpf_rs::Program::id_from_fd(fd.as_fd()).expect("id")
    }

    /// The slot that a program is in.
    fn slot_of(&self, program: &str) -> [u8; 4] {
        let (programs, id) = (self.programs(), self.id(program).to_ne_bytes());
        (1u32..64)
            .map(u32::to_ne_bytes)
            .find(|slot| {
                let found = programs.lookup(slot, MapFlags::ANY);
                found.ok().flatten().is_some_and(|value| value == id)
            })
            .unwrap_or_else(|| panic!("{program} is in no slot"))
    }

    fn put(&self, slot: [u8; 4], program: &str) {
        let program = self.object.progs().find(|p| p.name() == program);
        let fd = program.expect("program").as_fd().as_raw_fd();
        self.programs()
            .update(&slot, &fd.to_ne_bytes(), MapFlags::ANY)
            .expect("update of a slot");
    }
}

/// The paper's Table 1, and DELETE: what each operator can continue with. The
/// session is brought to the state before, by the first closure.
type Case = (
    &'static str,
    fn(&mut Session, &mut Session, u64),
    Status,
    fn(&mut Session, &mut Session),
);

fn nothing(_: &mut Session, _: &mut Session, _: u64) {}
fn over(_: &mut Session, _: &mut Session) {}
fn roll_back(session: &mut Session, other: &mut Session) {
    for session in [session, other] {
        if session.state() != abi::BPFDB_TXN_NONE {
            session.rollback().expect("rollback");
        }
    }
}
fn begin(session: &mut Session, _: &mut Session, _: u64) {
    session.begin().expect("begin");
}
fn begin_read_only(session: &mut Session, _: &mut Session, _: u64) {
    session.begin_read_only().expect("begin");
}
fn exists(_: &mut Session, other: &mut Session, key: u64) {
    other.set(&key.to_ne_bytes(), b"value").expect("set");
}
fn begin_with_key(session: &mut Session, other: &mut Session, key: u64) {
    exists(session, other, key);
    session.begin().expect("begin");
}
fn read_only_with_key(session: &mut Session, other: &mut Session, key: u64) {
    exists(session, other, key);
    session.begin_read_only().expect("begin");
}
fn locked(_: &mut Session, other: &mut Session, key: u64) {
    other.begin().expect("begin");
    other.set(&key.to_ne_bytes(), b"locked").expect("set");
}
fn begin_locked(session: &mut Session, other: &mut Session, key: u64) {
    locked(session, other, key);
    session.begin().expect("begin");
}
fn read_only_locked(session: &mut Session, other: &mut Session, key: u64) {
    read_only_with_key(session, other, key);
    locked(session, other, key);
}
fn failed(session: &mut Session, other: &mut Session, key: u64) {
    begin_locked(session, other, key);
    let conflict = session.set(&key.to_ne_bytes(), b"mine");
    assert_eq!(conflict, Err(Status::Conflict));
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("begin", nothing, Status::Ok, roll_back),
    ("begin", begin, Status::WrongState, roll_back),
    ("begin_read_only", nothing, Status::Ok, roll_back),
    ("get", begin_with_key, Status::Found, roll_back),
    ("get", begin, Status::NotFound, roll_back),
    ("get", begin_locked, Status::Conflict, roll_back),
    ("get_for_update", begin_with_key, Status::Found, roll_back),
    ("get_for_update", begin, Status::NotFound, roll_back),
    ("get_for_update", begin_locked, Status::Conflict, roll_back),
    ("get_read_only", read_only_with_key, Status::Found, roll_back),
    ("get_read_only", read_only_locked, Status::Found, roll_back),
    ("get_read_only", begin_read_only, Status::NotFound, roll_back),
    ("get_auto_commit", exists, Status::Found, over),
    ("get_auto_commit", nothing, Status::NotFound, over),
    ("get_auto_commit", locked, Status::NotFound, roll_back),
    ("set", begin, Status::Ok, roll_back),
    ("set", begin_locked, Status::Conflict, roll_back),
    ("set", nothing, Status::Ok, over),
    ("set", locked, Status::Conflict, roll_back),
    ("delete", begin_with_key, Status::Found, roll_back),
    ("delete", begin, Status::NotFound, roll_back),
    ("delete", begin_locked, Status::Conflict, roll_back),
    ("delete", exists, Status::Found, over),
    ("delete", nothing, Status::NotFound, over),
    ("delete", locked, Status::Conflict, roll_back),
    ("commit", begin, Status::Ok, over),
    ("commit", failed, Status::RolledBack, roll_back),
    ("commit_read_only", begin_read_only, Status::Ok, over),
    ("rollback", begin, Status::Ok, over),
    ("rollback", failed, Status::Ok, roll_back),
];

#[test]
fn operators_have_the_outcomes_of_the_table() {
    let mut chain = Lent::of("continuation");
    let mut other = chain.engine.session().expect("session");
    let mut key = 0;

    for style in ["tail", "inline"] {
        for (number, &(operator, before, outcome, after)) in CASES.iter().enumerate() {
            key += 1;
            before(&mut chain.session, &mut other, key);
            let ran = chain.operator(style, operator, key);
            assert_eq!(ran, outcome.code(), "case {number}: {style}_{operator}");
            assert_eq!(chain.call("status_of", 0), outcome.code());
            after(&mut chain.session, &mut other);
        }
    }
}

/// What an operator may not do in a state ends the chain, and says why.
#[test]
fn an_outcome_that_an_operator_has_not_ends_the_chain() {
    let chain = Lent::of("continuation");

    for style in ["tail", "inline"] {
        let before = chain.counted(Status::WrongState);
        assert_eq!(chain.operator(style, "rollback", 1), ENDED);
        assert_eq!(chain.call("status_of", 0), Status::WrongState.code());
        assert_eq!(chain.counted(Status::WrongState), before + 1);
    }
}

#[test]
fn no_session_ends_the_chain() {
    let chain = Lent::of("continuation");
    let before = chain.counted(Status::NoSession);
    let program = bpfdb::find_program(&chain.object, "tail_get").expect("program");

    assert_eq!(program.run(&[u64::from(u32::MAX), 0]).expect("run"), ENDED);
    assert_eq!(chain.counted(Status::NoSession), before + 1);
}

#[test]
fn a_missed_tail_call_is_an_error_and_fails_the_transaction() {
    let mut chain = Lent::of("continuation");
    let before = chain.counted(Status::MissedTailCall);

    chain.session.begin().expect("begin");
    chain.call("operands", 7);
    chain.call("forget", 0);
    assert_eq!(chain.call("tail_set", 7), ENDED);
    assert_eq!(chain.call("status_of", 0), Status::MissedTailCall.code());
    assert_eq!(chain.counted(Status::MissedTailCall), before + 1);
    assert_eq!(chain.session.commit(), Err(Status::RolledBack));
    assert_eq!(chain.session.get(&7u64.to_ne_bytes()), Ok(None));
}

#[test]
fn the_kernels_limit_of_tail_calls_is_a_missed_one() {
    let chain = Lent::of("continuation");
    let before = chain.counted(Status::MissedTailCall);

    assert_eq!(chain.call("for_ever", 0), ENDED);
    assert_eq!(chain.call("status_of", 0), Status::MissedTailCall.code());
    assert_eq!(chain.counted(Status::MissedTailCall), before + 1);
}

#[test]
fn a_procedure_runs_by_tail_calls_and_inlined() {
    let mut chain = Lent::of("procedure");
    let missed = chain.counted(Status::MissedTailCall);
    let key = 5u64.to_ne_bytes();

    for (count, style) in ["count_by_tail_calls", "count_inlined"]
        .into_iter()
        .cycle()
        .take(10)
        .enumerate()
    {
        assert_eq!(chain.call(style, 5), Status::Ok.code(), "{style}");
        let value = (count as u64 + 1).to_ne_bytes().to_vec();
        assert_eq!(chain.session.get(&key), Ok(Some(value)), "{style}");
    }
    assert_eq!(chain.counted(Status::MissedTailCall), missed);
}

#[test]
fn a_procedure_that_meets_an_error_rolls_back() {
    let mut chain = Lent::of("procedure");
    let mut other = chain.engine.session().expect("session");
    let key = 5u64.to_ne_bytes();

    for style in ["count_by_tail_calls", "count_inlined"] {
        other.begin().expect("begin");
        other.set(&key, b"mine").expect("set");
        assert_eq!(chain.call(style, 5), Status::Conflict.code(), "{style}");
        assert_eq!(chain.session.state(), abi::BPFDB_TXN_NONE);
        other.rollback().expect("rollback");
        assert_eq!(chain.session.get(&key), Ok(None));

        // BEGIN fails: nothing of its own is open, and nothing is rolled back.
        chain.session.begin().expect("begin");
        assert_eq!(chain.call(style, 5), Status::WrongState.code(), "{style}");
        chain.session.rollback().expect("rollback");
    }
}

#[test]
fn an_operator_that_is_gone_ends_the_procedure() {
    let mut chain = Lent::of("procedure");
    let missed = chain.counted(Status::MissedTailCall);
    let slot = chain.slot_of("count_set");

    chain.programs().delete(&slot).expect("delete");
    assert_eq!(chain.call("count_by_tail_calls", 5), ENDED);
    assert_eq!(chain.counted(Status::MissedTailCall), missed + 1);
    assert_eq!(chain.session.state(), abi::BPFDB_TXN_FAILED);
    assert_eq!(chain.session.commit(), Err(Status::RolledBack));
    chain.put(slot, "count_set");
    assert_eq!(chain.call("count_by_tail_calls", 5), Status::Ok.code());
}

#[test]
fn an_operator_is_swapped_while_it_runs() {
    const SWAPS: u64 = 500;
    let mut chain = Lent::of("procedure");
    let missed = chain.counted(Status::MissedTailCall);
    let slot = chain.slot_of("count_set");
    let (stop, runs) = (AtomicBool::new(false), AtomicU64::new(0));
    let program = bpfdb::find_program(&chain.object, "count_by_tail_calls").expect("program");
    let arguments = [u64::from(chain.session.index()), 5];

    let marks = || u64::from(chain.call("count_marks", 0));
    let swaps = thread::scope(|scope| {
        let runner = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(program.run(&arguments).expect("run"), Status::Ok.code());
                runs.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Until both operators had their turn, as the threads have theirs. Each
        // run marks itself before it is counted.
        let both = || (1..runs.load(Ordering::Relaxed)).contains(&marks());
        let (start, mut swaps) = (Instant::now(), 0);
        while !runner.is_finished() && (swaps < SWAPS || !both()) {
            assert!(start.elapsed() < Duration::from_secs(60), "one has no turn");
            let names = ["count_set_marked", "count_set"];
            chain.put(slot, names[(swaps % 2) as usize]);
            swaps += 1;
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        runner.join().expect("every run is whole");
        swaps
    });

    let (runs, marks) = (runs.into_inner(), marks());
    println!("{runs} runs, {marks} through the other operator, {swaps} swaps");
    assert!(marks > 0 && marks < runs, "{marks} of {runs}");
    let value = runs.to_ne_bytes().to_vec();
    assert_eq!(chain.session.get(&5u64.to_ne_bytes()), Ok(Some(value)));
    assert_eq!(chain.counted(Status::MissedTailCall), missed);
    // The next test wants the operator that was there.
    chain.put(slot, "count_set");
}
