//! Loads records into an engine that starts small; the clock runs around each
//! SET, inside the kernel.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bpfdb::{Engine, Options, Program};
use libbpf_rs::{MapCore, MapFlags, Object};

use super::MEMORY;
use crate::kernel::{find, map};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

/// SETs of one program run: short, as the thread that adds memory wants its
/// turn on this processor too.
const STEP: u32 = 4096;
/// Pauses up to here are what the issue calls a few milliseconds.
const TARGET_MICROS: f64 = 5000.0;

struct Load {
    engine: Engine,
    object: Object,
    fill: Program,
    nothing: Program,
}

/// What a load took.
#[derive(Debug, Default)]
struct Pauses {
    took: Duration,
    longest: Duration,
    /// Times that the load had to wait for memory, and the longest wait.
    waits: u32,
    longest_wait: Duration,
}

pub(crate) fn measure(plan: &Plan) -> Result<Table> {
    let (mut set, mut floor, mut each) = <(Sample, Sample, Sample)>::default();
    let (mut waits, mut wait) = <(Sample, Sample)>::default();
    let micros = |duration: Duration| duration.as_secs_f64() * 1e6;

    for round in 0..plan.rounds {
        eprintln!("growth: round {} of {}", round + 1, plan.rounds);
        let load = Load::new()?;
        let pauses = load.run(plan.growth_records)?;
        set.push(micros(pauses.longest));
        each.push(pauses.took.as_nanos() as f64 / f64::from(plan.growth_records));
        waits.push(f64::from(pauses.waits));
        wait.push(micros(pauses.longest_wait));
        floor.push(micros(load.idle(pauses.took)?));
    }
    let mut table = Table::new(
        "growth",
        format!(
            "load of {} records of 16 B + 16 B into an engine that starts with 32 MiB",
            plan.growth_records
        ),
        &["what", "figure", "target"],
    );
    let mut row = |what: &str, figure: &Sample, digits, target: Option<f64>| {
        table.row([
            what.into(),
            Cell::figure(figure, digits),
            target.map_or("".into(), |limit| Cell::at_most(figure, limit)),
        ]);
    };
    row("ns per SET, clock included", &each, 0, None);
    row("longest SET, µs", &set, 0, Some(TARGET_MICROS));
    row("the same around nothing, µs", &floor, 0, None);
    row("waits for memory", &waits, 0, None);
    row("longest wait, µs", &wait, 0, Some(TARGET_MICROS));
    Ok(table)
}

impl Load {
    fn new() -> Result<Self> {
        let engine = Engine::create(&Options {
            memory_limit: MEMORY,
            ..Options::default()
        })?;
        let mut object = bpfdb::open_object(crate::objects::BENCH, "bench")?;
        engine.adopt(&mut object)?;
        let object = object.load().context("load the benchmark programs")?;
        Ok(Self {
            fill: find(&object, "timed_fill")?,
            nothing: find(&object, "timed_nothing")?,
            engine,
            object,
        })
    }

    fn run(&self, records: u32) -> Result<Pauses> {
        let session = self.engine.session()?;
        let mut pauses = Pauses::default();
        let mut first = 0;
        let clock = Instant::now();

        while first < records {
            let count = STEP.min(records - first);
            let (done, longest) = self.step(&self.fill, session.index(), first, count)?;
            pauses.longest = pauses.longest.max(longest);
            first += done;
            if done < count {
                let wait = Instant::now();
                ensure!(self.engine.grow()?, "the engine is full");
                pauses.waits += 1;
                pauses.longest_wait = pauses.longest_wait.max(wait.elapsed());
            }
        }
        pauses.took = clock.elapsed();
        Ok(pauses)
    }

    /// Longest pause around nothing, in as much time.
    fn idle(&self, time: Duration) -> Result<Duration> {
        let clock = Instant::now();
        let mut longest = Duration::ZERO;
        while clock.elapsed() < time {
            longest = longest.max(self.step(&self.nothing, 0, 0, STEP)?.1);
        }
        Ok(longest)
    }

    /// Operations done, and the longest one.
    fn step(
        &self,
        program: &Program,
        session: u32,
        first: u32,
        count: u32,
    ) -> Result<(u32, Duration)> {
        program.run(&[session, first, count].map(u64::from))?;
        Ok((
            self.reported(0)? as u32,
            Duration::from_nanos(self.reported(1)?),
        ))
    }

    /// Entry `index` of the map `pauses`.
    fn reported(&self, index: u32) -> Result<u64> {
        let bytes = map(&self.object, "pauses")?
            .lookup(&index.to_ne_bytes(), MapFlags::ANY)?
            .context("no such entry of the map of pauses")?;
        Ok(u64::from_ne_bytes(bytes.as_slice().try_into()?))
    }
}
