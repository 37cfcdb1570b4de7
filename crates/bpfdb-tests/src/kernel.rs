//! The real engine as a target. Whatever changes in the API of the crate
//! `bpfdb`, its tests change here only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Entry, Operation, Options, Session, Status, ValueType, abi};
use bpfdb_model::{Answer, Error, Gauges, Op, Outcome, Rules};
use bpfdb_tier::Tier;

use crate::log::{self, TestLog};
use crate::target::{Client, Target, expiry_answer};
use crate::tier;

/// What tests want to be different.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub versions: u32,
    pub memory: u64,
    pub sessions: u32,
    /// Of one transaction.
    pub locks: u32,
    pub idle: Duration,
    /// Values go to files all the time.
    pub tier: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            versions: 4,
            memory: 512 << 20,
            sessions: 64,
            locks: abi::BPFDB_LOCKS_MAX,
            idle: Duration::from_secs(600),
            tier: tier::is_wanted(),
        }
    }
}

/// Longer than a busy machine takes for a group of the log.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many times in a row, and so far apart, nothing is left: values that the tier had chosen before have been given to a file, or
/// found gone, in between.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// What was written must be recovered from the log, if there is one.
impl Drop for Kernel {
    fn drop(&mut self) {
        self.tier.iter().for_each(|tier| tier::count(tier));
        if let Some(log) = self.log.take().filter(|_| !thread::panicking()) {
            log.compare(&self.engine);
        }
    }
}

/// What the clock of expiry says until a test lets time pass: it stands still,
/// so that a test gives the same result each time.
const START: u64 = 1_000_000;

/// An engine of its own, not pinned and not attached to anything.
pub struct Kernel {
    pub engine: Engine,
    log: Option<TestLog>,
    tier: Option<Arc<Tier>>,
}

impl Kernel {
    pub fn with(limits: Limits) -> Kernel {
        let options = Options {
            versions: limits.versions,
            memory_limit: limits.memory,
            // Checkpoints keep one.
            max_sessions: limits.sessions + u32::from(log::is_wanted()),
            // Besides: one for recovery, one for the writer of the log, one for its comparison,
            // one for checkpoints.
            user_sessions: limits.sessions + 4,
            max_locks: limits.locks,
            idle_limit: limits.idle,
            ..Options::default()
        };
        let engine = Engine::create(&tier::options(limits.tier, &log::options(&options)));
        let engine =
            engine.unwrap_or_else(|error| panic!("no engine (tests run as root): {error}"));
        engine.stop_clock(START);
        let log = TestLog::start(&engine);
        let tier = tier::start(limits.tier, &engine);
        Kernel { engine, log, tier }
    }

    pub fn with_versions(versions: usize) -> Kernel {
        Kernel::with(Limits {
            versions: versions as u32,
            ..Limits::default()
        })
    }

    /// Of cold values, if it has any.
    pub fn tier(&self) -> Option<bpfdb_tier::Figures> {
        self.tier.as_ref().map(|tier| tier.figures())
    }

    /// What the model has to know about this engine.
    pub fn rules(versions: usize) -> Rules {
        Rules {
            versions,
            locks_max: abi::BPFDB_LOCKS_MAX as usize,
            key_max: abi::BPFDB_KEY_MAX as usize,
            value_max: abi::BPFDB_LARGE_MAX as usize,
            fault: None,
        }
    }

    pub fn try_client(&self) -> Result<KernelClient, Error> {
        KernelClient::of(&self.engine)
    }

    /// What has gone to files, or come back, is given back by the tier's thread.
    fn wait_for_tier(&self) {
        let (begun, mut looks) = (Instant::now(), 0);
        while looks < LOOKS && begun.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
            let stats = self.stats();
            let is_waited_for = stats.records == 0 && stats.slots_used() > 0;
            looks = if is_waited_for { 0 } else { looks + 1 };
        }
    }

    fn stats(&self) -> bpfdb::Stats {
        self.engine.stats().expect("read the gauges")
    }
}

impl Target for Kernel {
    type Client<'a> = KernelClient;

    fn client(&self) -> KernelClient {
        self.try_client().expect("a free session")
    }

    fn gauges(&self) -> Gauges {
        let stats = self.stats();
        Gauges {
            records: stats.records,
            locks: stats.locks,
            transactions: stats.transactions,
            history: stats.history_versions,
            slots: stats.slots_used(),
        }
    }

    fn memory(&self) -> u64 {
        self.stats().memory_used()
    }

    fn sweep(&self) {
        if let Some(log) = &self.log {
            log.settle(&self.engine);
        }
        self.engine.sweep().expect("sweep");
        if self.tier.is_some() {
            self.wait_for_tier();
        }
    }
}

pub struct KernelClient {
    engine: Engine,
    /// None only while reconnecting.
    session: Option<Session>,
}

/// The model's name for a status: both are named as in the ABI.
fn error(status: Status) -> Error {
    let name = format!("{status:?}");
    let same = |(error, _): &&(Error, &str)| format!("{error:?}") == name;
    match Error::NAMED.iter().find(same) {
        Some((error, _)) => *error,
        None => Error::Other(status.code()),
    }
}

/// A session that waits for the writer of the log, however busy the machine is.
trait WithRoom {
    fn with_room<T>(
        &mut self,
        work: impl FnMut(&mut Session) -> Result<T, Status>,
    ) -> Result<T, Status>;
}

impl WithRoom for Session {
    fn with_room<T>(
        &mut self,
        mut work: impl FnMut(&mut Session) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let start = Instant::now();
        loop {
            match work(self) {
                Err(status) if status.is_refused_by_log() && start.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(1));
                }
                outcome => return outcome,
            }
        }
    }
}

impl KernelClient {
    /// Of an engine that others use too, such as a server.
    pub fn of(engine: &Engine) -> Result<KernelClient, Error> {
        let engine = engine.clone();
        match engine.session() {
            Ok(session) => Ok(KernelClient {
                engine,
                session: Some(session),
            }),
            Err(bpfdb::Error::Engine(status)) => Err(error(status)),
            Err(other) => panic!("cannot open a session: {other}"),
        }
    }

    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("the session is open")
    }
}

/// The outcome of an operation of a batch. It does not tell a DELETE that found
/// nothing, and a GET that found an empty value, from others: the status does.
fn outcome(op: &Op, status: Status, result: Result<Option<Vec<u8>>, Status>) -> Outcome {
    match (op, result.map_err(error)?) {
        (Op::Get(_) | Op::GetForUpdate(_), Some(value)) => Ok(Answer::Value(value)),
        (Op::Get(_) | Op::GetForUpdate(_), None) => Ok(Answer::Absent),
        (Op::Delete(_), _) if status == Status::NotFound => Ok(Answer::Absent),
        _ => Ok(Answer::Done),
    }
}

impl KernelClient {
    /// A BEGIN that is refused ends a batch. The model executes all of them, one by one: so another
    /// batch has the rest.
    fn batches(&mut self, ops: &[Op], longest: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while outcomes.len() < ops.len() {
            outcomes.extend(self.batch(&ops[outcomes.len()..], longest));
        }
        outcomes
    }

    fn batch(&mut self, ops: &[Op], longest: usize) -> Vec<Outcome> {
        let now = self.engine.now_ms();
        let operations: Vec<Operation> = ops.iter().map(|op| operation(op, now)).collect();
        let session = self.session();
        let batch = session
            .prepare(&operations, longest)
            .expect("fits the buffer");
        let done = session.run(&batch).expect("run a batch");
        let is_refused = matches!(ops[done - 1], Op::Begin | Op::BeginReadOnly)
            && session.status_of(&batch, done - 1).is_error();
        assert!(done == ops.len() || is_refused, "{done} of {ops:?} ran");
        let outcome = |(i, op): (usize, &Op)| match op {
            Op::Expiry(_) => {
                let entry = session.entry_of(&batch, i).map_err(error)?;
                Ok(expiry_answer(entry.map(|entry| left(&entry, now))))
            }
            _ => outcome(op, session.status_of(&batch, i), session.outcome(&batch, i)),
        };
        ops[..done].iter().enumerate().map(outcome).collect()
    }
}

/// Milliseconds until it expires.
fn left(entry: &Entry, now: u64) -> Option<i64> {
    entry.expires_at.map(|time| time as i64 - now as i64)
}

/// Does it have to be called on its own? What is written may be longer than a slot, and what is read
/// of any type, too.
fn is_no_operation(op: &Op) -> bool {
    match op {
        Op::Scan | Op::Reconnect | Op::Pass(_) | Op::Sweep | Op::GetAny(_) => true,
        Op::SetTyped(.., value) => value.len() > abi::BPFDB_VALUE_MAX as usize,
        _ => false,
    }
}

fn operation(op: &Op, now: u64) -> Operation<'_> {
    match op {
        Op::Begin => Operation::Begin,
        Op::BeginReadOnly => Operation::BeginReadOnly,
        Op::Get(key) | Op::Expiry(key) => Operation::Get(key),
        Op::GetForUpdate(key) => Operation::GetForUpdate(key),
        Op::Set(key, value) => Operation::Set(key, value),
        Op::SetFor(key, value, time) => Operation::SetEntry(key, value, Some(now + time)),
        Op::SetTyped(key, kind, value) => {
            Operation::SetTyped(key, ValueType::from_code(*kind), value, None)
        }
        Op::Delete(key) => Operation::Delete(key),
        Op::Commit => Operation::Commit,
        Op::Rollback => Operation::Rollback,
        Op::Scan | Op::Reconnect | Op::Pass(_) | Op::Sweep | Op::GetAny(_) => {
            unreachable!("no operation of a batch")
        }
    }
}

impl Client for KernelClient {
    fn begin(&mut self) -> Result<(), Error> {
        self.session().begin().map_err(error)
    }

    fn begin_read_only(&mut self) -> Result<(), Error> {
        self.session().begin_read_only().map_err(error)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.session().get(key).map_err(error)
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.session().get_for_update(key).map_err(error)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.session()
            .with_room(|session| session.set(key, value))
            .map_err(error)
    }

    fn set_typed(&mut self, key: &[u8], kind: u8, value: &[u8]) -> Result<(), Error> {
        let kind = ValueType::from_code(kind);
        self.session()
            .with_room(|session| session.set_typed(key, kind, value, None))
            .map_err(error)
    }

    /// Two reads without a transaction around them: of a key that others may write, use one.
    fn get_any(&mut self, key: &[u8]) -> Result<Option<(u8, Vec<u8>)>, Error> {
        let Some(head) = self.session().head(key).map_err(error)? else {
            return Ok(None);
        };
        let value = match head.value {
            Some(value) => Some(value),
            None => {
                let entry = self.session().entry_of_any_type(key).map_err(error)?;
                entry.map(|entry| entry.value)
            }
        };
        Ok(value.map(|value| (head.value_type.code(), value)))
    }

    fn set_for(&mut self, key: &[u8], value: &[u8], time: u64) -> Result<(), Error> {
        let expires_at = Some(self.engine.now_ms() + time);
        self.session()
            .with_room(|session| session.set_entry(key, value, expires_at))
            .map_err(error)
    }

    fn expiry(&mut self, key: &[u8]) -> Result<Option<Option<i64>>, Error> {
        let now = self.engine.now_ms();
        let entry = self.session().entry(key).map_err(error)?;
        Ok(entry.map(|entry| left(&entry, now)))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.session()
            .with_room(|session| session.delete(key))
            .map_err(error)
    }

    fn scan(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        const COUNT: usize = 10;
        let mut found = BTreeSet::new();
        let mut cursor = 0;
        loop {
            let (next, keys) = self.session().scan(cursor, COUNT).map_err(error)?;
            found.extend(keys);
            cursor = next;
            if cursor == 0 {
                return Ok(found.into_iter().collect());
            }
        }
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.session().with_room(Session::try_commit).map_err(error)
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.session().rollback().map_err(error)
    }

    fn apply_all(&mut self, ops: &[Op], longest: usize) -> Vec<Outcome> {
        match ops {
            [op] => vec![self.apply(op)],
            _ if ops.iter().any(is_no_operation) => ops.iter().map(|op| self.apply(op)).collect(),
            _ => self.batches(ops, longest),
        }
    }

    fn reconnect(&mut self) {
        self.session = None;
        self.session = Some(self.engine.session().expect("open a session again"));
    }

    fn pass(&mut self, time: u64) {
        self.engine.stop_clock(self.engine.now_ms() + time);
    }

    fn sweep(&mut self) {
        self.engine.sweep().expect("sweep");
    }
}
