//! The target of the tests.

use std::sync::{Arc, Mutex};

use bpfdb_model::{Answer, Error, Gauges, Model, Op, Outcome, Rules, SessionId};

/// An engine.
pub trait Target: Sync {
    type Client<'a>: Client + Send
    where
        Self: 'a;

    fn client(&self) -> Self::Client<'_>;
    fn gauges(&self) -> Gauges;
    /// Bytes in use for keys and values, gaps included.
    fn memory(&self) -> u64;
    /// Does all the clean-up that is left to be done.
    fn sweep(&self);
}

/// A session of an engine. Dropped, it closes.
pub trait Client {
    fn begin(&mut self) -> Result<(), Error>;
    fn begin_read_only(&mut self) -> Result<(), Error>;
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error>;
    /// A value of a type that is no string, by the number of the type.
    fn set_typed(&mut self, key: &[u8], kind: u8, value: &[u8]) -> Result<(), Error>;
    /// A value of any type, and the number of that.
    fn get_any(&mut self, key: &[u8]) -> Result<Option<(u8, Vec<u8>)>, Error>;
    /// A value that expires after so many milliseconds.
    fn set_for(&mut self, key: &[u8], value: &[u8], time: u64) -> Result<(), Error>;
    /// GET; milliseconds until the value expires: see [`Answer::Left`].
    fn expiry(&mut self, key: &[u8]) -> Result<Option<Option<i64>>, Error>;
    /// Whether there was a value.
    fn delete(&mut self, key: &[u8]) -> Result<bool, Error>;
    /// All keys that have a value, in order.
    fn scan(&mut self) -> Result<Vec<Vec<u8>>, Error>;
    fn commit(&mut self) -> Result<(), Error>;
    fn rollback(&mut self) -> Result<(), Error>;
    /// Closes the session and opens a new one.
    fn reconnect(&mut self);
    /// So many milliseconds go by, for all clients.
    fn pass(&mut self, time: u64);
    /// As [`Target::sweep`].
    fn sweep(&mut self);

    /// One after the other, in as few calls as possible. No value is longer than
    /// `longest`.
    fn apply_all(&mut self, ops: &[Op], longest: usize) -> Vec<Outcome> {
        let _ = longest;
        ops.iter().map(|op| self.apply(op)).collect()
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        let done = |()| Answer::Done;
        let value = |value: Option<Vec<u8>>| value.map_or(Answer::Absent, Answer::Value);
        let deleted = |found| if found { Answer::Done } else { Answer::Absent };
        match op {
            Op::Begin => self.begin().map(done),
            Op::BeginReadOnly => self.begin_read_only().map(done),
            Op::Get(key) => self.get(key).map(value),
            Op::GetForUpdate(key) => self.get_for_update(key).map(value),
            Op::Set(key, bytes) => self.set(key, bytes).map(done),
            Op::SetFor(key, bytes, time) => self.set_for(key, bytes, *time).map(done),
            Op::SetTyped(key, kind, bytes) => self.set_typed(key, *kind, bytes).map(done),
            Op::GetAny(key) => self.get_any(key).map(any_answer),
            Op::Expiry(key) => self.expiry(key).map(expiry_answer),
            Op::Delete(key) => self.delete(key).map(deleted),
            Op::Scan => self.scan().map(Answer::Keys),
            Op::Commit => self.commit().map(done),
            Op::Rollback => self.rollback().map(done),
            Op::Reconnect => {
                self.reconnect();
                Ok(Answer::Done)
            }
            Op::Pass(time) => {
                self.pass(*time);
                Ok(Answer::Done)
            }
            Op::Sweep => {
                self.sweep();
                Ok(Answer::Done)
            }
        }
    }
}

/// Of a value of any type.
fn any_answer(value: Option<(u8, Vec<u8>)>) -> Answer {
    match value {
        None => Answer::Absent,
        Some((0, value)) => Answer::Value(value),
        Some((kind, value)) => Answer::Typed(kind, value),
    }
}

/// Of a value that is there or not, and that expires or not.
pub fn expiry_answer(expiry: Option<Option<i64>>) -> Answer {
    match expiry {
        None => Answer::Absent,
        Some(None) => Answer::Done,
        Some(Some(left)) => Answer::Left(left),
    }
}

/// Deletes the keys and sweeps: nothing may be left of a test that has closed
/// its sessions.
pub fn scrub<T: Target>(target: &T, keys: &[Vec<u8>]) -> Result<(), String> {
    let held = target.gauges();
    if (held.locks, held.transactions) != (0, 0) {
        return Err(format!("held although every session is closed: {held:?}"));
    }
    let mut client = target.client();
    for key in keys {
        client
            .delete(key)
            .map_err(|error| format!("DELETE at the end: {error}"))?;
    }
    target.sweep();
    match target.gauges() {
        left if left == Gauges::default() => Ok(()),
        left => Err(format!("left although everything is deleted: {left:?}")),
    }
}

/// The model as a target.
pub struct ModelTarget(Arc<Mutex<Model>>);

pub struct ModelClient {
    model: Arc<Mutex<Model>>,
    id: SessionId,
    turns: u64,
}

impl ModelTarget {
    pub fn new(rules: Rules) -> ModelTarget {
        ModelTarget(Arc::new(Mutex::new(Model::new(rules))))
    }
}

impl Target for ModelTarget {
    type Client<'a> = ModelClient;

    fn client(&self) -> ModelClient {
        let id = self.0.lock().unwrap().open();
        ModelClient {
            model: self.0.clone(),
            id,
            turns: 0,
        }
    }

    fn gauges(&self) -> Gauges {
        self.0.lock().unwrap().gauges()
    }

    fn memory(&self) -> u64 {
        self.0.lock().unwrap().bytes()
    }

    fn sweep(&self) {
        self.0.lock().unwrap().sweep();
    }
}

impl ModelClient {
    /// Lets another thread in now and then, so that parallel runs are parallel
    /// on a busy machine, too.
    fn run(&mut self, op: Op) -> Outcome {
        self.turns += 1;
        if self.turns.is_multiple_of(3) {
            std::thread::yield_now();
        }
        self.model.lock().unwrap().apply(self.id, &op)
    }
}

fn found(answer: Answer) -> Option<Vec<u8>> {
    match answer {
        Answer::Value(value) => Some(value),
        _ => None,
    }
}

impl Client for ModelClient {
    fn begin(&mut self) -> Result<(), Error> {
        self.run(Op::Begin).map(drop)
    }

    fn begin_read_only(&mut self) -> Result<(), Error> {
        self.run(Op::BeginReadOnly).map(drop)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.run(Op::Get(key.to_vec())).map(found)
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.run(Op::GetForUpdate(key.to_vec())).map(found)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.run(Op::Set(key.to_vec(), value.to_vec())).map(drop)
    }

    fn set_typed(&mut self, key: &[u8], kind: u8, value: &[u8]) -> Result<(), Error> {
        self.run(Op::SetTyped(key.to_vec(), kind, value.to_vec()))
            .map(drop)
    }

    fn get_any(&mut self, key: &[u8]) -> Result<Option<(u8, Vec<u8>)>, Error> {
        self.run(Op::GetAny(key.to_vec()))
            .map(|answer| match answer {
                Answer::Value(value) => Some((0, value)),
                Answer::Typed(kind, value) => Some((kind, value)),
                _ => None,
            })
    }

    fn set_for(&mut self, key: &[u8], value: &[u8], time: u64) -> Result<(), Error> {
        self.run(Op::SetFor(key.to_vec(), value.to_vec(), time))
            .map(drop)
    }

    fn expiry(&mut self, key: &[u8]) -> Result<Option<Option<i64>>, Error> {
        self.run(Op::Expiry(key.to_vec()))
            .map(|answer| match answer {
                Answer::Left(left) => Some(Some(left)),
                Answer::Done => Some(None),
                _ => None,
            })
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.run(Op::Delete(key.to_vec()))
            .map(|answer| answer == Answer::Done)
    }

    fn scan(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        self.run(Op::Scan).map(|answer| match answer {
            Answer::Keys(keys) => keys,
            other => panic!("SCAN answers {other:?}"),
        })
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.run(Op::Commit).map(drop)
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.run(Op::Rollback).map(drop)
    }

    fn reconnect(&mut self) {
        self.run(Op::Reconnect).expect("RECONNECT cannot fail");
    }

    fn pass(&mut self, time: u64) {
        self.run(Op::Pass(time)).expect("time cannot fail to pass");
    }

    fn sweep(&mut self) {
        self.run(Op::Sweep).expect("the sweeper cannot fail");
    }
}

impl Drop for ModelClient {
    fn drop(&mut self) {
        self.model.lock().unwrap().close(self.id);
    }
}
