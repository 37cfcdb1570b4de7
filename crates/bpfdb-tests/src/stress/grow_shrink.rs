//! Many keys come and go, again and again, so that the index grows and shrinks
//! around some that stay: readers find those at every moment, and transactions
//! that hold locks keep them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bpfdb_model::Error;

use super::{Tally, in_parallel, retry_auto_commit};
use crate::random::Random;
use crate::target::{Client, Target, scrub};

#[derive(Clone, Copy, Debug)]
pub struct GrowShrink {
    pub seed: u64,
    pub writers: usize,
    pub readers: usize,
    /// Sessions that run transactions over keys that come and go.
    pub holders: usize,
    pub waves: usize,
    /// Keys of each writer that come and go.
    pub keys: usize,
    /// Keys that stay.
    pub staying: usize,
}

pub fn grow_and_shrink<T: Target>(target: &T, plan: GrowShrink) -> Result<Tally, String> {
    let staying: Vec<Vec<u8>> = (0..plan.staying).map(|i| name("stays", i)).collect();
    let mut client = target.client();
    for key in &staying {
        client
            .set(key, &content(key))
            .map_err(|error| format!("first SET: {error}"))?;
    }
    drop(client);
    let writing = AtomicUsize::new(plan.writers);
    let workers = plan.writers + plan.readers + plan.holders;
    let tally = in_parallel(target, workers, (), |number, client, stop| {
        let mut random = Random::new(plan.seed + number as u64);
        let go_on = || writing.load(Ordering::Relaxed) > 0 && !stop.load(Ordering::Relaxed);
        if number < plan.writers {
            let result = make_waves(client, number, plan, stop);
            writing.fetch_sub(1, Ordering::Relaxed);
            return result;
        }
        let mut tally = Tally::default();
        while go_on() {
            if number < plan.writers + plan.readers {
                look(client, &staying, &mut random)?;
                tally.snapshots += 1;
            } else {
                hold(client, &mut random, &mut tally)?;
            }
        }
        Ok(tally)
    })?;
    let mut client = target.client();
    for key in &staying {
        check(&mut client, key, true)?;
    }
    drop(client);
    let held = (0..HELD_KEYS).map(|i| name("held", i));
    let all: Vec<Vec<u8>> = staying.iter().cloned().chain(held).collect();
    scrub(target, &all)?;
    Ok(tally)
}

/// Every other key is long.
fn name(kind: &str, i: usize) -> Vec<u8> {
    match i % 2 {
        0 => format!("{kind}{i}").into_bytes(),
        _ => format!("{kind} and some more letters {i}").into_bytes(),
    }
}

fn content(key: &[u8]) -> Vec<u8> {
    key.repeat(1 + key.len() % 3)
}

fn check<C: Client>(client: &mut C, key: &[u8], expected: bool) -> Result<(), String> {
    let value = client.get(key);
    let expected = expected.then(|| content(key));
    match value {
        Ok(value) if value == expected => Ok(()),
        other => Err(format!(
            "key {:?} is {other:?}",
            key.escape_ascii().to_string()
        )),
    }
}

fn make_waves<C: Client>(
    client: &mut C,
    number: usize,
    plan: GrowShrink,
    stop: &AtomicBool,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let keys: Vec<Vec<u8>> = (0..plan.keys)
        .map(|i| name(&format!("wave{number}."), i))
        .collect();
    for _ in 0..plan.waves {
        for key in &keys {
            retry_auto_commit(|| client.set(key, &content(key)))
                .map_err(|error| format!("SET: {error}"))?;
        }
        // What is behind the deletion is gone, what is before it is there.
        for (i, key) in keys.iter().enumerate() {
            match retry_auto_commit(|| client.delete(key)) {
                Ok(true) => {}
                other => return Err(format!("DELETE of what was set: {other:?}")),
            }
            check(client, &keys[i / 2], false)?;
            check(client, &keys[(i + keys.len()) / 2], i + 1 < keys.len())?;
            if stop.load(Ordering::Relaxed) && i % 1000 == 0 {
                return Ok(tally);
            }
        }
        tally.committed += 2 * keys.len() as u64;
    }
    Ok(tally)
}

/// Some keys without a transaction, some in a snapshot.
fn look<C: Client>(client: &mut C, staying: &[Vec<u8>], random: &mut Random) -> Result<(), String> {
    for _ in 0..8 {
        check(client, &staying[random.below(staying.len())], true)?;
    }
    let fail = |error: Error| format!("Error in a read-only transaction: {error}");
    client.begin_read_only().map_err(fail)?;
    for _ in 0..8 {
        check(client, &staying[random.below(staying.len())], true)?;
    }
    client.commit().map_err(fail)
}

const HELD_KEYS: usize = 200;

/// Locks absent keys and keys, and changes them, over some time.
fn hold<C: Client>(client: &mut C, random: &mut Random, tally: &mut Tally) -> Result<(), String> {
    client.begin().map_err(|error| format!("BEGIN: {error}"))?;
    let keys: Vec<Vec<u8>> = (0..20)
        .map(|_| name("held", random.below(HELD_KEYS)))
        .collect();
    let mut steps = || -> Result<(), Error> {
        for key in &keys {
            if client.get(key)?.is_some() {
                client.delete(key)?;
            } else {
                client.set(key, &content(key))?;
            }
            std::thread::yield_now();
        }
        client.commit()
    };
    match steps() {
        Ok(()) => tally.committed += 1,
        Err(error) => {
            tally.expect(error)?;
            client
                .rollback()
                .map_err(|error| format!("ROLLBACK: {error}"))?;
        }
    }
    Ok(())
}
