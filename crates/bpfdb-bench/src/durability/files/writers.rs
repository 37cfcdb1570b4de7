//! Clients that write before a checkpoint and during it: each sends the next SET when it has the
//! reply to the one before.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;

use super::save::{self, Saved};
use super::store::Store;
use crate::plan::Plan;
use crate::random::Random;
use crate::tcp::NO_ROOM;

/// One for each processor of the machine that this is measured on.
const WRITERS: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// A writer's time goes to the phase in which the request was sent.
const PHASES: usize = 2;
const BEFORE: usize = 0;
const DURING: usize = 1;
const OVER: usize = 2;

/// What writers have seen.
pub(super) struct Seen {
    /// 99th percentiles, in microseconds.
    pub(super) before: f64,
    pub(super) during: f64,
    /// Writes that the log had no room for, of a million.
    pub(super) refused: f64,
}

/// Times of one writer, in nanoseconds, and how many of its writes were refused.
struct Times {
    phases: [Histogram<u64>; PHASES],
    refused: u64,
}

/// Makes a checkpoint beside writers.
pub(super) fn save_beside(store: &Store, plan: &Plan) -> Result<(Seen, Saved)> {
    let phase = AtomicUsize::new(BEFORE);
    let (times, saved) = thread::scope(|scope| {
        let write = |seed| write(store, seed, &phase);
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| scope.spawn(move || write(seed)))
            .collect();
        thread::sleep(plan.writers_time);
        phase.store(DURING, Ordering::Relaxed);
        let saved = save::save(store);
        phase.store(OVER, Ordering::Relaxed);
        let mut all = Times::new();
        for writer in writers {
            all.add(&writer.join().map_err(|_| anyhow!("a writer failed"))??)?;
        }
        Ok::<_, anyhow::Error>((all, saved?))
    })?;
    Ok((times.seen(), saved))
}

fn write(store: &Store, seed: u64, phase: &AtomicUsize) -> Result<Times> {
    let stream = store.server.connect()?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = BufReader::new(stream);
    let (mut times, mut random) = (Times::new(), Random::new(seed));
    let value = random.text(store.size);
    let mut reply = String::new();
    loop {
        let now = phase.load(Ordering::Relaxed);
        if now == OVER {
            return Ok(times);
        }
        let key = random.below(store.records.into());
        let begun = Instant::now();
        set(&mut stream, key, &value, &mut reply)?;
        times.phases[now].saturating_record(begun.elapsed().as_nanos() as u64);
        let is_refused = reply.starts_with(NO_ROOM);
        ensure!(
            reply.starts_with('+') || is_refused,
            "{}: {reply}",
            store.name()
        );
        times.refused += u64::from(is_refused);
    }
}

fn set(stream: &mut BufReader<TcpStream>, key: u64, value: &str, reply: &mut String) -> Result<()> {
    let length = value.len();
    let request = format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${length}\r\n{value}\r\n");
    stream
        .get_mut()
        .write_all(request.as_bytes())
        .context("send a SET")?;
    reply.clear();
    stream.read_line(reply).context("receive a reply")?;
    Ok(())
}

impl Times {
    fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, 100_000_000_000, 3);
        Self {
            phases: [(); PHASES].map(|()| histogram().expect("constant bounds")),
            refused: 0,
        }
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        for (own, other) in self.phases.iter_mut().zip(&other.phases) {
            own.add(other).context("add latencies")?;
        }
        self.refused += other.refused;
        Ok(())
    }

    fn seen(&self) -> Seen {
        let p99 = |phase: usize| self.phases[phase].value_at_quantile(0.99) as f64 / 1e3;
        let writes: u64 = self.phases.iter().map(Histogram::len).sum();
        Seen {
            before: p99(BEFORE),
            during: p99(DURING),
            refused: self.refused as f64 * 1e6 / writes.max(1) as f64,
        }
    }
}
