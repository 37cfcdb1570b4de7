//! A snapshot stands still: short values are overwritten by auto-commit while
//! snapshots read them twice.
//!
//! Both sides run in batches, so that nothing but operators takes time: what this
//! looks for are single instructions in the wrong order, once in millions of
//! snapshots.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bpfdb::{Engine, Operation, Session};

/// Operations of one system call.
const BATCH: usize = 128;
/// Of a snapshot: BEGIN, two GETs, COMMIT.
const OPERATIONS: usize = 4;
const LENGTH: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Still {
    pub keys: u64,
    /// There are so many snapshots, and so many SETs beside them, or more.
    pub least: u64,
}

/// How many snapshots there were, and how many SETs; or which snapshot moved.
pub fn stand_still(engine: &Engine, plan: Still) -> Result<(u64, u64), String> {
    let keys: Vec<[u8; LENGTH]> = (0..plan.keys).map(u64::to_ne_bytes).collect();
    let mut reader = engine.session().map_err(|error| error.to_string())?;
    for key in &keys {
        reader.set(key, &[0; LENGTH]).map_err(|e| e.to_string())?;
    }
    let (sets, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = overwrite(engine, &keys, &sets, &stop);
            // What has failed is not waited for.
            sets.fetch_max(plan.least, Ordering::Relaxed);
            written
        });
        let mut snapshots = 0;
        let mut read = Ok(());
        let is_enough =
            |snapshots| snapshots >= plan.least && sets.load(Ordering::Relaxed) >= plan.least;
        while read.is_ok() && !is_enough(snapshots) {
            read = read_twice(&mut reader, &keys).map(|read| snapshots += read);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer failed")??;
        read.map(|()| (snapshots, sets.load(Ordering::Relaxed)))
    })
}

/// `sets` counts them.
fn overwrite(
    engine: &Engine,
    keys: &[[u8; LENGTH]],
    sets: &AtomicU64,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut session = engine.session().map_err(|error| error.to_string())?;
    let mut number = 0_u64;
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
        let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        sets.fetch_add(done as u64, Ordering::Relaxed);
        number += BATCH as u64;
    }
    Ok(())
}

/// A batch of snapshots: how many.
fn read_twice(session: &mut Session, keys: &[[u8; LENGTH]]) -> Result<u64, String> {
    let operations: Vec<Operation<'_>> = (keys.iter().cycle().take(BATCH / OPERATIONS))
        .flat_map(|key| {
            let get = Operation::Get(key);
            [Operation::BeginReadOnly, get, get, Operation::Commit]
        })
        .collect();
    let outcomes = session
        .batch(&operations, LENGTH)
        .map_err(|error| error.to_string())?;
    let snapshots = outcomes.chunks(OPERATIONS);
    let count = snapshots.len() as u64;
    for snapshot in snapshots {
        let (first, second) = (&snapshot[1], &snapshot[2]);
        if first != second || first.is_err() {
            return Err(format!("a snapshot moved: {first:?}, then {second:?}"));
        }
    }
    Ok(count)
}
