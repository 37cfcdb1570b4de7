//! A snapshot stands still: short values are overwritten by auto-commit while
//! snapshots read them twice.
//!
//! Both sides run in batches, so that nothing but operators takes time: what this
//! looks for are single instructions in the wrong order, once in millions of
//! snapshots.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Operation, Session};

/// Operations of one system call.
const BATCH: usize = 128;
/// Of a snapshot: BEGIN, two GETs, COMMIT.
const OPERATIONS: usize = 4;
const LENGTH: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Still {
    pub keys: u64,
    pub time: Duration,
}

/// How many snapshots there were, and how many SETs; or which snapshot moved.
pub fn stand_still(engine: &Engine, plan: Still) -> Result<(u64, u64), String> {
    let keys: Vec<[u8; LENGTH]> = (0..plan.keys).map(u64::to_ne_bytes).collect();
    let mut reader = engine.session().map_err(|error| error.to_string())?;
    for key in &keys {
        reader.set(key, &[0; LENGTH]).map_err(|e| e.to_string())?;
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| overwrite(engine, &keys, &stop));
        let read = read_twice(&mut reader, &keys, plan.time);
        stop.store(true, Ordering::Relaxed);
        let sets = writer.join().map_err(|_| "the writer failed")??;
        Ok((read?, sets))
    })
}

fn overwrite(engine: &Engine, keys: &[[u8; LENGTH]], stop: &AtomicBool) -> Result<u64, String> {
    let mut session = engine.session().map_err(|error| error.to_string())?;
    let mut number = 0_u64;
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let values: Vec<[u8; LENGTH]> = (number..).take(BATCH).map(u64::to_ne_bytes).collect();
        let pairs = keys.iter().cycle().zip(&values);
        let operations: Vec<_> = pairs
            .map(|(key, value)| Operation::Set(key, value))
            .collect();
        let outcomes = session
            .batch(&operations, 0)
            .map_err(|error| error.to_string())?;
        // A full version array refuses some.
        done += outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        number += BATCH as u64;
    }
    Ok(done)
}

fn read_twice(session: &mut Session, keys: &[[u8; LENGTH]], time: Duration) -> Result<u64, String> {
    let operations: Vec<Operation<'_>> = (keys.iter().cycle().take(BATCH / OPERATIONS))
        .flat_map(|key| {
            let get = Operation::Get(key);
            [Operation::BeginReadOnly, get, get, Operation::Commit]
        })
        .collect();
    let start = Instant::now();
    let mut snapshots = 0;
    while start.elapsed() < time {
        let outcomes = session
            .batch(&operations, LENGTH)
            .map_err(|error| error.to_string())?;
        for snapshot in outcomes.chunks(OPERATIONS) {
            let (first, second) = (&snapshot[1], &snapshot[2]);
            if first != second || first.is_err() {
                return Err(format!("a snapshot moved: {first:?}, then {second:?}"));
            }
            snapshots += 1;
        }
    }
    Ok(snapshots)
}
