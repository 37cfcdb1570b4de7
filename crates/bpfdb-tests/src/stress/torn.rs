//! Nobody sees part of a value: long values are overwritten while they are read.

use std::sync::atomic::{AtomicUsize, Ordering};

use bpfdb_model::Error;

use super::{Tally, in_parallel};
use crate::random::Random;
use crate::target::{Client, Target, scrub};

#[derive(Clone, Copy, Debug)]
pub struct Torn {
    pub seed: u64,
    pub writers: usize,
    pub readers: usize,
    pub keys: usize,
    /// SETs of each writer.
    pub writes: usize,
    /// Longest value; the shortest has half of it.
    pub longest: usize,
}

pub fn overwrite<T: Target>(target: &T, plan: Torn) -> Result<Tally, String> {
    let keys: Vec<Vec<u8>> = (0..plan.keys)
        .map(|i| format!("long {i}").into_bytes())
        .collect();
    let writing = AtomicUsize::new(plan.writers);
    let workers = plan.writers + plan.readers;
    let tally = in_parallel(target, workers, (), |number, client, stop| {
        let mut random = Random::new(plan.seed + number as u64);
        let mut tally = Tally::default();
        let go_on = || !stop.load(Ordering::Relaxed);
        if number < plan.writers {
            let mut writes = 0..plan.writes;
            while go_on() && writes.next().is_some() {
                write(client, &keys, plan.longest, &mut random, &mut tally)?;
            }
            writing.fetch_sub(1, Ordering::Relaxed);
            return Ok(tally);
        }
        while go_on() && writing.load(Ordering::Relaxed) > 0 {
            read(client, &keys[random.below(keys.len())], random.one_in(2))?;
            tally.snapshots += 1;
        }
        Ok(tally)
    })?;
    scrub(target, &keys)?;
    Ok(tally)
}

/// One byte all over, which also encodes the length, modulo 251.
fn write<C: Client>(
    client: &mut C,
    keys: &[Vec<u8>],
    longest: usize,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    let length = longest - random.below(longest / 2);
    match client.set(
        &keys[random.below(keys.len())],
        &vec![(length % 251) as u8; length],
    ) {
        Ok(()) => tally.committed += 1,
        Err(error) => tally.expect(error)?,
    }
    Ok(())
}

fn read<C: Client>(client: &mut C, key: &[u8], in_snapshot: bool) -> Result<(), String> {
    let fail = |error: Error| format!("Error in a read: {error}");
    if in_snapshot {
        client.begin_read_only().map_err(fail)?;
    }
    let value = client.get(key).map_err(fail)?;
    if in_snapshot {
        let again = client.get(key).map_err(fail)?;
        client.commit().map_err(fail)?;
        if again != value {
            return Err(format!(
                "a snapshot of {} bytes changed",
                value.map_or(0, |v| v.len())
            ));
        }
    }
    let Some(value) = value else { return Ok(()) };
    match value
        .iter()
        .position(|byte| *byte != (value.len() % 251) as u8)
    {
        None => Ok(()),
        Some(at) => Err(format!("a value of {} bytes is torn at {at}", value.len())),
    }
}
