//! The store grows by many keys, while readers find every key that was ever
//! acknowledged.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::{Tally, in_parallel, retry_auto_commit};
use crate::random::Random;
use crate::target::{Client, Target};

#[derive(Clone, Copy, Debug)]
pub struct Growth {
    pub seed: u64,
    pub writers: usize,
    pub readers: usize,
    /// Of each writer.
    pub keys: u64,
}

pub fn grow<T: Target>(target: &T, plan: Growth) -> Result<Tally, String> {
    // Per writer: how many of its keys are acknowledged.
    let written: Vec<AtomicU64> = (0..plan.writers).map(|_| AtomicU64::new(0)).collect();
    let writing = AtomicUsize::new(plan.writers);
    let tally = in_parallel(
        target,
        plan.writers + plan.readers,
        (),
        |number, client, stop| {
            let mut tally = Tally::default();
            if let Some(written) = written.get(number) {
                let result = write(client, number, plan.keys, written);
                writing.fetch_sub(1, Ordering::Relaxed);
                result?;
                tally.committed = plan.keys;
                return Ok(tally);
            }
            let mut random = Random::new(plan.seed + number as u64);
            while writing.load(Ordering::Relaxed) > 0 && !stop.load(Ordering::Relaxed) {
                let writer = random.below(plan.writers);
                let acknowledged = written[writer].load(Ordering::Acquire);
                if acknowledged > 0 {
                    check(client, writer, random.number() % acknowledged)?;
                    tally.snapshots += 1;
                }
            }
            Ok(tally)
        },
    )?;
    let mut client = target.client();
    for writer in 0..plan.writers {
        for i in 0..plan.keys {
            check(&mut client, writer, i)?;
            delete(&mut client, writer, i)?;
        }
    }
    drop(client);
    crate::target::scrub(target, &[])?;
    Ok(tally)
}

fn write<C: Client>(
    client: &mut C,
    writer: usize,
    keys: u64,
    written: &AtomicU64,
) -> Result<(), String> {
    for i in 0..keys {
        retry_auto_commit(|| client.set(&name(writer, i), &content(i)))
            .map_err(|error| format!("SET of key {i}: {error}"))?;
        written.store(i + 1, Ordering::Release);
    }
    Ok(())
}

fn check<C: Client>(client: &mut C, writer: usize, i: u64) -> Result<(), String> {
    match client.get(&name(writer, i)) {
        Ok(Some(value)) if value == content(i) => Ok(()),
        other => Err(format!(
            "key {i} of writer {writer} was acknowledged, but is {other:?}"
        )),
    }
}

fn delete<C: Client>(client: &mut C, writer: usize, i: u64) -> Result<(), String> {
    match retry_auto_commit(|| client.delete(&name(writer, i))) {
        Ok(true) => Ok(()),
        other => Err(format!(
            "DELETE of key {i} of writer {writer} said {other:?}"
        )),
    }
}

/// 16 bytes, every 64th longer.
fn name(writer: usize, i: u64) -> Vec<u8> {
    let mut name = format!("{writer:02}{i:014}").into_bytes();
    if i.is_multiple_of(64) {
        name.extend_from_slice(b" and more");
    }
    name
}

/// 16 bytes, every 32nd longer.
fn content(i: u64) -> Vec<u8> {
    let length = if i.is_multiple_of(32) { 100 } else { 16 };
    let mut value = i.to_le_bytes().to_vec();
    value.resize(length, i as u8);
    value
}
