//! Threads that look keys up for a while.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bpfdb_apps::random::Random;
use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};

use super::{Entries, Seen};
use crate::machine::pin;

/// One call of so many is timed: a look at the clock takes as long as a look-up in memory.
const TIMED: u64 = 8;

/// What looks keys up, in one thread: gives the numbers that the values begin with.
pub(super) type Worker<'w> = Box<dyn FnMut(&[u64]) -> Result<Vec<u64>> + 'w>;

/// `threads` threads, each on a processor of its own, ask for `together` keys at a time.
pub(super) fn run<'w>(
    entries: Entries,
    (threads, together): (usize, usize),
    time: Duration,
    seed: u64,
    worker: impl Fn() -> Result<Worker<'w>> + Sync,
) -> Result<Seen> {
    // What it takes to make a worker is not measured.
    let are_made = Barrier::new(threads + 1);
    let ask = |thread: usize| -> Result<(u64, Duration, Histogram<u64>)> {
        let made = pin(thread).and_then(|()| worker());
        are_made.wait();
        let (mut worker, begun) = (made?, Instant::now());
        let mut random = Random::new(seed << 8 | thread as u64);
        let mut times = Histogram::new(3)?;
        let (mut reads, mut calls) = (0, 0);
        while begun.elapsed() < time {
            for _ in 0..TIMED {
                let keys: Vec<u64> = (0..together).map(|_| random.below(entries.0)).collect();
                let begun = (calls % TIMED == 0).then(Instant::now);
                let found = worker(&keys)?;
                if let Some(begun) = begun {
                    times.record(begun.elapsed().as_nanos() as u64)?;
                }
                ensure!(found == keys, "wrong answers: {found:?} for {keys:?}");
                calls += 1;
                reads += together as u64;
            }
        }
        Ok((reads, begun.elapsed(), times))
    };
    let (before, outcomes) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || ask(thread)))
            .collect();
        are_made.wait();
        let before = processor_time();
        let outcomes = threads.into_iter().map(|thread| thread.join());
        (before, outcomes.collect::<Vec<_>>())
    });
    let (mut reads, mut rate, mut times) = (0, 0.0, Histogram::<u64>::new(3)?);
    for outcome in outcomes {
        let (own, took, its_times) = outcome.map_err(|_| anyhow!("a thread panicked"))??;
        reads += own;
        rate += own as f64 / took.as_secs_f64();
        times.add(its_times)?;
    }
    let processor = processor_time()? - before?;
    Ok(Seen {
        rate,
        processor: processor.as_secs_f64() * 1e6 / reads as f64,
        p99: times.value_at_quantile(0.99) as f64 / 1e3,
    })
}

/// Of this process: of its threads, and those of io_uring.
fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let [user, system] = [usage.user_time(), usage.system_time()];
    let micros = [user, system].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    Ok(Duration::from_micros((micros[0] + micros[1]) as u64))
}
