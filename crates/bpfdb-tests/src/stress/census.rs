//! Keys are counted.
//!
//! Clerks list all keys, and add an *entry* whose value is the number of entries that they have found.
//! Sweepers list all keys and delete the entries: in a serial order their values are 0, 1, 2 … Others
//! list nothing: some make and delete sets of keys, each in one transaction, of which whoever lists
//! keys finds all or none; some make and delete single keys without a transaction. So long as a
//! transaction is open that has listed keys, it finds the same ones.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use bpfdb_model::Error;

use super::{Tally, in_parallel};
use crate::random::Random;
use crate::target::{Client, Target, scrub};

#[derive(Clone, Copy, Debug)]
pub struct Census {
    pub seed: u64,
    pub workers: usize,
    /// Tries of each worker.
    pub rounds: usize,
    /// Keys of a set.
    pub members: usize,
}

pub fn census<T: Target>(target: &T, plan: Census) -> Result<Tally, String> {
    let tally = in_parallel(target, plan.workers, (), |number, client, stop| {
        let mut worker = Worker {
            plan,
            number,
            random: Random::new(plan.seed + number as u64),
            entries: 0,
            is_there: false,
        };
        worker.work(client, stop)
    })?;
    let mut client = target.client();
    let fail = |error: Error| format!("at the end: {error}");
    let keys = client.scan().map_err(fail)?;
    check(&mut client, plan, &keys)?.map_err(fail)?;
    drop(client);
    scrub(target, &keys)?;
    Ok(tally)
}

/// A finding outside, an Error of the engine inside.
type Checked<V> = Result<Result<V, Error>, String>;

/// Leaves a function of [`Checked`] with an Error of the engine.
macro_rules! or_error {
    ($outcome:expr) => {
        match $outcome {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}

struct Worker {
    plan: Census,
    number: usize,
    random: Random,
    /// Entries that it has made.
    entries: usize,
    /// Is its set, or its single key?
    is_there: bool,
}

impl Worker {
    fn work<C: Client>(&mut self, client: &mut C, stop: &AtomicBool) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for _ in 0..self.plan.rounds {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let done = match self.number % 4 {
                0 => self.transaction(client, Self::add_entry)?,
                1 => self.transaction(client, Self::sweep)?,
                2 => self.transaction(client, Self::change_set)?,
                _ if self.random.one_in(4) => {
                    self.look(client)?;
                    tally.snapshots += 1;
                    continue;
                }
                _ => self.change_single(client).map(|()| true),
            };
            match done {
                Ok(true) => tally.committed += 1,
                Ok(false) => tally.given_up += 1,
                Err(error) => tally.expect(error)?,
            }
        }
        Ok(tally)
    }

    /// False: given up.
    fn transaction<C: Client>(
        &mut self,
        client: &mut C,
        statements: impl FnOnce(&mut Self, &mut C) -> Checked<()>,
    ) -> Checked<bool> {
        let fail = |error: Error| format!("{error}, of BEGIN or ROLLBACK");
        client.begin().map_err(fail)?;
        let was_there = self.is_there;
        let done = statements(self, client)?;
        let gives_up = self.random.one_in(10);
        let outcome = match done {
            Ok(()) if !gives_up => client.commit().map(|()| true),
            Ok(()) if self.random.one_in(2) => {
                client.reconnect();
                Ok(false)
            }
            Ok(()) => client.rollback().map(|()| false),
            Err(error) => {
                client.rollback().map_err(fail)?;
                Err(error)
            }
        };
        if !matches!(outcome, Ok(true)) {
            self.is_there = was_there;
        }
        Ok(outcome)
    }

    fn add_entry<C: Client>(&mut self, client: &mut C) -> Checked<()> {
        let keys = or_error!(client.scan());
        check_sets(self.plan, &keys)?;
        let count = keys.iter().filter(|key| is_entry(key)).count();
        self.entries += 1;
        let entry = entry(self.number, self.entries);
        or_error!(client.set(&entry, &(count as u64).to_le_bytes()));
        let mut expected = keys;
        expected.push(entry);
        expected.sort();
        self.scan_again(client, &expected)
    }

    fn sweep<C: Client>(&mut self, client: &mut C) -> Checked<()> {
        let keys = or_error!(client.scan());
        or_error!(check(client, self.plan, &keys)?);
        for key in keys.iter().filter(|key| is_entry(key)) {
            if !or_error!(client.delete(key)) {
                return Err(format!("{} is listed, and not there", key.escape_ascii()));
            }
        }
        let left: Vec<Vec<u8>> = keys.into_iter().filter(|key| !is_entry(key)).collect();
        self.scan_again(client, &left)
    }

    fn scan_again<C: Client>(&mut self, client: &mut C, expected: &[Vec<u8>]) -> Checked<()> {
        if self.random.one_in(4) {
            std::thread::yield_now();
        }
        let keys = or_error!(client.scan());
        if keys == *expected {
            return Ok(Ok(()));
        }
        let (before, now): (BTreeSet<_>, BTreeSet<_>) =
            (expected.iter().collect(), keys.iter().collect());
        let name = |key: &&Vec<u8>| key.escape_ascii().to_string();
        let changed: Vec<String> = before.symmetric_difference(&now).map(name).collect();
        Err(format!(
            "listed twice in one transaction, and differ: {changed:?}"
        ))
    }

    fn change_set<C: Client>(&mut self, client: &mut C) -> Checked<()> {
        for member in 0..self.plan.members {
            let key = member_key(self.number, member);
            if self.is_there {
                or_error!(client.delete(&key));
            } else {
                or_error!(client.set(&key, b"member"));
            }
        }
        self.is_there = !self.is_there;
        Ok(Ok(()))
    }

    /// Sometimes it only gets a time, which is its end, or loses that.
    fn change_single<C: Client>(&mut self, client: &mut C) -> Result<(), Error> {
        let key = format!("single {}", self.number).into_bytes();
        match self.random.below(4) {
            0 => client.delete(&key).map(drop),
            1 => client.set_for(&key, b"for a while", 60_000),
            2 => client.set_for(&key, b"over", 0),
            _ => client.set(&key, b"single"),
        }
    }

    /// In a snapshot.
    fn look<C: Client>(&self, client: &mut C) -> Result<(), String> {
        let fail = |error: Error| format!("Error in a read-only transaction: {error}");
        client.begin_read_only().map_err(fail)?;
        let keys = client.scan().map_err(fail)?;
        check(client, self.plan, &keys)?.map_err(fail)?;
        client.commit().map_err(fail)
    }
}

/// Of all lengths, as keys are.
fn entry(worker: usize, number: usize) -> Vec<u8> {
    let filling = ".".repeat(number % 3 * 9);
    format!("entry {worker} {number}{filling}").into_bytes()
}

fn is_entry(key: &[u8]) -> bool {
    key.starts_with(b"entry ")
}

fn member_key(worker: usize, member: usize) -> Vec<u8> {
    format!("set {worker} {member}").into_bytes()
}

/// Of each set all keys or none.
fn check_sets(plan: Census, keys: &[Vec<u8>]) -> Result<(), String> {
    for worker in 0..plan.workers {
        let prefix = format!("set {worker} ").into_bytes();
        let found = keys.iter().filter(|key| key.starts_with(&prefix)).count();
        if found != 0 && found != plan.members {
            return Err(format!("{found} keys of a set of {}", plan.members));
        }
    }
    Ok(())
}

/// The same, and the values of the entries: 0, 1, 2 … in any order.
fn check<C: Client>(client: &mut C, plan: Census, keys: &[Vec<u8>]) -> Checked<()> {
    check_sets(plan, keys)?;
    let mut values = Vec::new();
    for key in keys.iter().filter(|key| is_entry(key)) {
        let Some(value) = or_error!(client.get(key)) else {
            return Err(format!("{} is listed, and not there", key.escape_ascii()));
        };
        let value: [u8; 8] = value.try_into().map_err(|_| "a torn value")?;
        values.push(u64::from_le_bytes(value));
    }
    values.sort_unstable();
    if values.iter().copied().eq(0..values.len() as u64) {
        return Ok(Ok(()));
    }
    Err(format!("entries were counted as {values:?}"))
}
