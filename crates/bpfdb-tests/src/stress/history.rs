//! Records what parallel clients do and see, for the history checker.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_model::history::{Key, Recorder, Transaction, Workload, decode, encode};
use bpfdb_model::{Error, check};

use super::{Tally, in_parallel};
use crate::random::Random;
use crate::target::{Client, Target, scrub};

#[derive(Clone, Copy, Debug)]
pub struct Histories {
    pub seed: u64,
    pub workload: Workload,
    pub clients: usize,
    /// Keys in use at a time.
    pub keys: usize,
    /// Of each client, failed ones included.
    pub transactions: usize,
}

/// Writes per key, after which clients go on to the next keys: lists stay short.
const WRITES_PER_KEY: u32 = 200;

pub fn record<T: Target>(target: &T, plan: Histories) -> Result<Tally, String> {
    record_slowly(target, plan, Duration::ZERO)
}

/// Each client rests before each of its transactions.
pub fn record_slowly<T: Target>(
    target: &T,
    plan: Histories,
    rest: Duration,
) -> Result<Tally, String> {
    let clock = Instant::now();
    let elements = AtomicU32::new(1);
    let done = std::sync::Mutex::new(Vec::new());
    let mut tally = in_parallel(target, plan.clients, (), |number, client, stop| {
        let mut worker = Worker {
            plan,
            client,
            random: Random::new(plan.seed + number as u64),
            recorder: Recorder::new(number, clock),
            elements: &elements,
            tally: Tally::default(),
        };
        for _ in 0..plan.transactions {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if !rest.is_zero() {
                thread::sleep(rest);
            }
            worker.transaction()?;
        }
        done.lock().unwrap().append(&mut worker.recorder.done);
        Ok(worker.tally)
    })?;
    let mut history: Vec<Transaction> = done.into_inner().unwrap();
    let keys = plan.all_keys(elements.into_inner());
    history.push(read_everything(&mut target.client(), &keys, clock)?);
    tally.snapshots += 1;
    check(plan.workload, &history).map_err(|violation| violation.to_string())?;
    let names: Vec<Vec<u8>> = keys.map(name).collect();
    scrub(target, &names)?;
    Ok(tally)
}

impl Histories {
    /// The keys move on as elements are used up.
    pub(super) fn first_key(&self, element: u32) -> Key {
        element / (WRITES_PER_KEY * self.keys as u32) * self.keys as u32
    }

    pub(super) fn all_keys(&self, elements: u32) -> std::ops::Range<Key> {
        0..self.first_key(elements) + self.keys as u32
    }
}

/// What reads and deletes everything at the end of a history.
pub trait Last {
    /// The elements under a key, as `bpfdb_model::history::encode` writes them.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn delete(&mut self, key: &[u8]) -> Result<bool, Error>;
}

impl<C: Client> Last for C {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Client::get(self, key)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        Client::delete(self, key)
    }
}

/// The last word: what is missing here is lost.
pub(super) fn read_everything(
    client: &mut impl Last,
    keys: &std::ops::Range<Key>,
    clock: Instant,
) -> Result<Transaction, String> {
    let mut recorder = Recorder::new(usize::MAX, clock);
    recorder.begin();
    for key in keys.clone() {
        let value = client
            .get(&name(key))
            .map_err(|error| format!("GET at the end: {error}"))?;
        recorder.read(key, elements_of(value)?);
    }
    recorder.end(true);
    Ok(recorder.done.remove(0))
}

pub(super) fn name(key: Key) -> Vec<u8> {
    // Odd keys do not fit the cell.
    match key % 2 {
        0 => format!("{key}").into_bytes(),
        _ => format!("a key with a long name: {key}").into_bytes(),
    }
}

pub(super) fn elements_of(value: Option<Vec<u8>>) -> Result<Vec<u32>, String> {
    let value = value.unwrap_or_default();
    decode(&value).ok_or(format!("nobody wrote {value:?}"))
}

struct Worker<'a, C> {
    plan: Histories,
    client: &'a mut C,
    random: Random,
    recorder: Recorder,
    elements: &'a AtomicU32,
    tally: Tally,
}

/// A finding outside, an Error of the engine inside.
type Checked = Result<Result<(), Error>, String>;

impl<C: Client> Worker<'_, C> {
    fn transaction(&mut self) -> Result<(), String> {
        self.recorder.begin();
        let outcome = match self.random.below(8) {
            0 | 1 => self.snapshot()?,
            2 => self.auto_commit()?,
            _ => self.read_write()?,
        };
        self.recorder.end(outcome.is_ok());
        match outcome {
            Ok(()) => self.tally.committed += 1,
            Err(error) => self.tally.expect(error)?,
        }
        Ok(())
    }

    fn key(&mut self) -> Key {
        let now = self.elements.load(Ordering::Relaxed);
        self.plan.first_key(now) + self.random.below(self.plan.keys) as Key
    }

    fn snapshot(&mut self) -> Checked {
        let fail = |error: Error| format!("Error in a read-only transaction: {error}");
        self.client.begin_read_only().map_err(fail)?;
        for _ in 0..1 + self.random.below(4) {
            self.pause();
            self.read(false)?.map_err(fail)?;
        }
        self.client.commit().map_err(fail)?;
        self.tally.snapshots += 1;
        Ok(Ok(()))
    }

    fn auto_commit(&mut self) -> Checked {
        match self.plan.workload {
            // A list is read before it is written.
            Workload::Registers if self.random.one_in(2) => self.write_blindly(),
            _ => Ok(Ok(self
                .read(false)?
                .map_err(|error| format!("auto-commit GET: {error}"))?)),
        }
    }

    fn read_write(&mut self) -> Checked {
        self.client
            .begin()
            .map_err(|error| format!("BEGIN: {error}"))?;
        let mut steps = || -> Checked {
            for _ in 0..1 + self.random.below(4) {
                self.pause();
                let done = match (self.random.below(2), self.plan.workload) {
                    (0, _) => self.read(true)?,
                    (_, Workload::Lists) => self.append()?,
                    (_, Workload::Registers) => self.write_blindly()?,
                };
                if done.is_err() {
                    return Ok(done);
                }
            }
            Ok(Ok(()))
        };
        let done = steps()?;
        if done.is_ok() && !self.random.one_in(16) {
            return Ok(self.client.commit());
        }
        self.give_up(done.is_err())?;
        // Given up on purpose: the same to the history as a conflict.
        Ok(done.and(Err(Error::Conflict)))
    }

    fn give_up(&mut self, failed: bool) -> Result<(), String> {
        if failed && self.random.one_in(2) {
            return match self.client.commit() {
                Err(Error::RolledBack) => Ok(()),
                other => Err(format!("COMMIT of a failed transaction: {other:?}")),
            };
        }
        self.client
            .rollback()
            .map_err(|error| format!("ROLLBACK: {error}"))
    }

    /// Lets others in between, now and then.
    fn pause(&mut self) {
        if self.random.one_in(4) {
            thread::yield_now();
        }
    }

    fn read(&mut self, may_lock: bool) -> Checked {
        let key = self.key();
        let value = match may_lock && self.random.one_in(4) {
            true => self.client.get_for_update(&name(key)),
            false => self.client.get(&name(key)),
        };
        match value {
            Ok(value) => self.recorder.read(key, elements_of(value)?),
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }

    fn append(&mut self) -> Checked {
        let key = self.key();
        let value = match self.random.one_in(2) {
            true => self.client.get_for_update(&name(key)),
            false => self.client.get(&name(key)),
        };
        let mut list = match value {
            Ok(value) => elements_of(value)?,
            Err(error) => return Ok(Err(error)),
        };
        self.recorder.read(key, list.clone());
        let element = self.elements.fetch_add(1, Ordering::Relaxed);
        list.push(element);
        self.write(key, element, &list)
    }

    fn write_blindly(&mut self) -> Checked {
        let key = self.key();
        let element = self.elements.fetch_add(1, Ordering::Relaxed);
        self.write(key, element, &[element])
    }

    fn write(&mut self, key: Key, element: u32, list: &[u32]) -> Checked {
        let outcome = self.client.set(&name(key), &encode(list));
        if outcome.is_ok() {
            self.recorder.wrote(key, element);
        }
        Ok(outcome)
    }
}
