//! Counters lose no increment: what was replied as committed is there.

use std::sync::atomic::{AtomicBool, Ordering};

use bpfdb_model::Error;

use super::{Tally, in_parallel};
use crate::random::Random;
use crate::target::{Client, Target, scrub};

#[derive(Clone, Copy, Debug)]
pub struct Counter {
    pub seed: u64,
    pub counters: usize,
    pub workers: usize,
    /// Of each worker, each repeated until it commits.
    pub increments: usize,
}

pub fn count<T: Target>(target: &T, plan: Counter) -> Result<Tally, String> {
    let keys: Vec<Vec<u8>> = (0..plan.counters)
        .map(|i| format!("n{i}").into_bytes())
        .collect();
    let tally = in_parallel(target, plan.workers, (), |number, client, stop| {
        let mut random = Random::new(plan.seed + number as u64);
        increment_all(client, &keys, plan.increments, &mut random, stop)
    })?;
    let mut client = target.client();
    let mut sum = 0;
    for key in &keys {
        sum += value(
            client
                .get(key)
                .map_err(|error| format!("GET at the end: {error}"))?,
        )?;
    }
    if sum != tally.committed {
        return Err(format!(
            "{} increments were committed, {sum} are there",
            tally.committed
        ));
    }
    drop(client);
    scrub(target, &keys)?;
    Ok(tally)
}

fn increment_all<C: Client>(
    client: &mut C,
    keys: &[Vec<u8>],
    increments: usize,
    random: &mut Random,
    stop: &AtomicBool,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for _ in 0..increments {
        let key = &keys[random.below(keys.len())];
        while !stop.load(Ordering::Relaxed) {
            match increment(client, key, random)? {
                Ok(true) => {
                    tally.committed += 1;
                    break;
                }
                Ok(false) => tally.given_up += 1,
                Err(error) => {
                    tally.expect(error)?;
                    client
                        .rollback()
                        .map_err(|error| format!("ROLLBACK: {error}"))?;
                    std::thread::yield_now();
                }
            }
        }
    }
    Ok(tally)
}

/// False: given up. A finding outside, an Error of the engine inside.
fn increment<C: Client>(
    client: &mut C,
    key: &[u8],
    random: &mut Random,
) -> Result<Result<bool, Error>, String> {
    client.begin().map_err(|error| format!("BEGIN: {error}"))?;
    let before = match random.one_in(2) {
        true => client.get_for_update(key),
        false => client.get(key),
    };
    let number = match before {
        Ok(before) => value(before)? + 1,
        Err(error) => return Ok(Err(error)),
    };
    let give_up = random.one_in(16);
    let set = client.set(key, number.to_string().as_bytes());
    Ok(set.and_then(|()| match give_up {
        true => client.rollback().map(|()| false),
        false => client.commit().map(|()| true),
    }))
}

fn value(value: Option<Vec<u8>>) -> Result<u64, String> {
    let Some(value) = value else { return Ok(0) };
    let text = std::str::from_utf8(&value).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(format!("no number: {value:?}"))
}
