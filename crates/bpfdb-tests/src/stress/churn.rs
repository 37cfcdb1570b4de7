//! Overwriting and deleting for a long time needs no more memory than the first
//! rounds did; and where memory is short, a refused SET changes nothing.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use bpfdb_model::Error;

use super::{Tally, in_parallel, retry_auto_commit};
use crate::random::Random;
use crate::target::{Client, Target, scrub};

#[derive(Clone, Copy, Debug)]
pub struct Churn {
    pub seed: u64,
    pub workers: usize,
    /// Of each worker.
    pub keys: usize,
    pub rounds: usize,
    /// SETs and DELETEs of each worker in a round.
    pub changes: usize,
    /// Longest value.
    pub longest: usize,
    /// Rounds after which the memory must not grow.
    pub warm_up: usize,
    /// SET may say out of memory.
    pub short: bool,
    /// How much the memory may grow nevertheless, in percent: which sizes meet
    /// is random.
    pub tolerance: u64,
}

pub fn churn<T: Target>(target: &T, plan: Churn) -> Result<Tally, String> {
    let barrier = Barrier::new(plan.workers);
    let failed = AtomicBool::new(false);
    let tally = in_parallel(target, plan.workers, (), |number, client, _stop| {
        let mut worker = Worker {
            plan,
            number,
            client,
            random: Random::new(plan.seed + number as u64),
            lengths: HashMap::new(),
        };
        let mut tally = Tally::default();
        let mut warm = 0;
        let mut result = Ok(());
        for round in 0..plan.rounds {
            result = result.and_then(|()| worker.round(&mut tally));
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            // All go on, or none: no one waits in vain.
            barrier.wait();
            if failed.load(Ordering::Relaxed) {
                break;
            }
            if number == 0 && result.is_ok() {
                result = check_memory(target, plan, round, &mut warm);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
            }
            barrier.wait();
        }
        result.map(|()| tally)
    })?;
    let keys: Vec<Vec<u8>> = (0..plan.workers)
        .flat_map(|worker| (0..plan.keys).map(move |i| name(worker, i)))
        .collect();
    scrub(target, &keys)?;
    Ok(tally)
}

fn check_memory<T: Target>(
    target: &T,
    plan: Churn,
    round: usize,
    warm: &mut u64,
) -> Result<(), String> {
    let memory = target.memory();
    if round < plan.warm_up {
        *warm = memory.max(*warm);
        return Ok(());
    }
    if memory > *warm + *warm * plan.tolerance / 100 {
        return Err(format!(
            "{memory} bytes in round {round}, at most {warm} while warming up"
        ));
    }
    Ok(())
}

fn name(worker: usize, key: usize) -> Vec<u8> {
    let mut name = format!("{worker}/{key}/").into_bytes();
    name.resize(name.len() + key % 40, b'k');
    name
}

struct Worker<'a, C> {
    plan: Churn,
    number: usize,
    client: &'a mut C,
    random: Random,
    /// What this worker has under its keys.
    lengths: HashMap<usize, usize>,
}

impl<C: Client> Worker<'_, C> {
    fn round(&mut self, tally: &mut Tally) -> Result<(), String> {
        for _ in 0..self.plan.changes {
            let key = self.random.below(self.plan.keys);
            self.check(key)?;
            if self.random.one_in(3) {
                self.delete(key)?;
                tally.committed += 1;
            } else if self.set(key)? {
                tally.committed += 1;
            } else {
                tally.out_of_memory += 1;
                self.check(key)?;
            }
        }
        Ok(())
    }

    fn check(&mut self, key: usize) -> Result<(), String> {
        let value = self.client.get(&name(self.number, key));
        let value = value.map_err(|error| format!("GET: {error}"))?;
        let expected = self.lengths.get(&key).map(|length| content(key, *length));
        match value == expected {
            true => Ok(()),
            false => Err(format!("key {key} should have {expected:?}, has {value:?}")),
        }
    }

    fn set(&mut self, key: usize) -> Result<bool, String> {
        let length = self.random.below(self.plan.longest + 1);
        let (name, value) = (name(self.number, key), content(key, length));
        match retry_auto_commit(|| self.client.set(&name, &value)) {
            Ok(()) => {
                self.lengths.insert(key, length);
                Ok(true)
            }
            Err(Error::OutOfMemory) if self.plan.short => Ok(false),
            Err(error) => Err(format!("SET: {error}")),
        }
    }

    fn delete(&mut self, key: usize) -> Result<(), String> {
        let name = name(self.number, key);
        let found = retry_auto_commit(|| self.client.delete(&name));
        let found = found.map_err(|error| format!("DELETE: {error}"))?;
        match found == self.lengths.remove(&key).is_some() {
            true => Ok(()),
            false => Err(format!("DELETE of key {key} found a value: {found}")),
        }
    }
}

fn content(key: usize, length: usize) -> Vec<u8> {
    vec![(key ^ length) as u8; length]
}
