//! Sessions of user space that write, each on a processor of its own, beside something else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bpfdb::Engine;

use crate::durability::Latencies;
use crate::machine::pin;
use crate::run::{Mix, Outcome, Worker};

/// One for each processor of the machine that this is measured on.
const WRITERS: usize = 2;
/// Bytes of a value.
pub(super) const VALUE: usize = 64;

/// SETs, one by one.
const MIX: Mix = Mix {
    set_percent: 100,
    batch: 1,
    value: VALUE,
};

/// What writers have seen while `other` ran, and what that has brought. It ends when it is asked
/// that they have ended.
pub(super) fn write_beside<T: Send>(
    engine: &Engine,
    draws: &[u32],
    time: Duration,
    other: impl FnOnce(&AtomicBool) -> Result<T> + Send,
) -> Result<(Latencies, T)> {
    let over = AtomicBool::new(false);
    let write = |writer: usize| {
        pin(writer)?;
        let worker = Worker::new(engine, MIX, draws, writer * draws.len() / WRITERS)?;
        worker.run(time)
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| other(&over));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        over.store(true, Ordering::Relaxed);
        let other = other.join().map_err(|_| anyhow!("a thread panicked"))??;
        let mut all = Outcome::new();
        for outcome in outcomes {
            all.join(&outcome.map_err(|_| anyhow!("a writer panicked"))??);
        }
        ensure!(
            all.errors.is_empty(),
            "writers were refused: {}",
            all.errors()
        );
        Ok((Latencies::of(&all.latency, all.took), other))
    })
}

/// Calls `work` once in each period until it is over; how often. One that comes too late is left out.
pub(super) fn every(
    period: Duration,
    over: &AtomicBool,
    mut work: impl FnMut() -> Result<()>,
) -> Result<u64> {
    let begun = Instant::now();
    let (mut due, mut calls) = (period, 0);
    while !over.load(Ordering::Relaxed) {
        thread::sleep(due.saturating_sub(begun.elapsed()));
        work()?;
        calls += 1;
        while due <= begun.elapsed() {
            due += period;
        }
    }
    Ok(calls)
}
