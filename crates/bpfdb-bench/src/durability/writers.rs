//! Clients that write before something and during it: each sends the next SET when it has the
//! reply to the one before.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;

use crate::random::Random;
use crate::sample::Sample;
use crate::tcp::{NO_ROOM, Server};

/// One for each processor of the machine that this is measured on.
const WRITERS: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// A writer's time goes to the phase in which the request was sent.
const PHASES: usize = 2;
const BEFORE: usize = 0;
const DURING: usize = 1;
const OVER: usize = 2;

/// Where they write: keys that [`fill`](crate::tcp::fill) has set.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) server: &'a Server,
    pub(crate) records: u32,
    /// Bytes of a value.
    pub(crate) size: u32,
}

/// What writers have seen.
pub(crate) struct Seen {
    pub(crate) before: Latencies,
    pub(crate) during: Latencies,
    /// Writes that the log had no room for, of a million.
    pub(crate) refused: f64,
}

/// Of the requests of a phase: how many a second, and their times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) worst: f64,
}

/// The same, a figure for each round.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) per_second: Sample,
    pub(crate) p50: Sample,
    pub(crate) p99: Sample,
    pub(crate) p999: Sample,
    pub(crate) worst: Sample,
}

/// Times of one writer, in nanoseconds, and how many of its writes were refused.
struct Times {
    phases: [Histogram<u64>; PHASES],
    refused: u64,
}

/// Does `work` beside writers, which have been writing for the time `before`.
pub(crate) fn beside<T>(
    target: Target<'_>,
    before: Duration,
    work: impl FnOnce() -> Result<T>,
) -> Result<(Seen, T)> {
    let phase = AtomicUsize::new(BEFORE);
    thread::scope(|scope| {
        let write = |seed| write(target, seed, &phase);
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| scope.spawn(move || write(seed)))
            .collect();
        let begun = Instant::now();
        thread::sleep(before);
        let before = begun.elapsed();
        phase.store(DURING, Ordering::Relaxed);
        let begun = Instant::now();
        let done = work();
        let during = begun.elapsed();
        phase.store(OVER, Ordering::Relaxed);
        let mut all = Times::new();
        for writer in writers {
            all.add(&writer.join().map_err(|_| anyhow!("a writer failed"))??)?;
        }
        Ok((all.seen([before, during]), done?))
    })
}

fn write(target: Target<'_>, seed: u64, phase: &AtomicUsize) -> Result<Times> {
    let stream = target.server.connect()?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = BufReader::new(stream);
    let (mut times, mut random) = (Times::new(), Random::new(seed));
    let value = random.text(target.size);
    let mut reply = String::new();
    loop {
        let now = phase.load(Ordering::Relaxed);
        if now == OVER {
            return Ok(times);
        }
        let key = random.below(target.records.into());
        let begun = Instant::now();
        set(&mut stream, key, &value, &mut reply)?;
        times.phases[now].saturating_record(begun.elapsed().as_nanos() as u64);
        let is_refused = reply.starts_with(NO_ROOM);
        ensure!(
            reply.starts_with('+') || is_refused,
            "{}: {reply}",
            target.server.name
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

    /// `took`: how long each phase was.
    fn seen(&self, took: [Duration; PHASES]) -> Seen {
        let writes: u64 = self.phases.iter().map(Histogram::len).sum();
        let of = |phase: usize| Latencies::of(&self.phases[phase], took[phase]);
        Seen {
            before: of(BEFORE),
            during: of(DURING),
            refused: self.refused as f64 * 1e6 / writes.max(1) as f64,
        }
    }
}

impl Latencies {
    /// Of requests that took so many nanoseconds each, and all together this time.
    pub(crate) fn of(nanos: &Histogram<u64>, took: Duration) -> Self {
        let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            per_second: nanos.len() as f64 / took.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            worst: nanos.max() as f64 / 1e3,
        }
    }
}

impl Samples {
    pub(crate) fn push(&mut self, seen: Latencies) {
        self.per_second.push(seen.per_second);
        self.p50.push(seen.p50);
        self.p99.push(seen.p99);
        self.p999.push(seen.p999);
        self.worst.push(seen.worst);
    }
}
