//! Sessions of user space, through `BPF_PROG_RUN`: one by one and in batches
//! (the set-up of the paper's Figure 8).

pub(crate) mod idle;
mod snapshots;
pub(crate) mod versions;
mod worker;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use bpfdb::{Engine, Options};

use crate::machine::pin;
use crate::plan::Plan;
use crate::random::{Distribution, sequence};
use crate::records::load;
use crate::report::{Cell, Table};
use crate::sample::Sample;
pub(crate) use worker::{Mix, Outcome, Worker};

pub(crate) const VALUES: [usize; 2] = [16, 1024];
const SET_PERCENT: [u32; 3] = [10, 50, 90];
const BATCHES: [usize; 3] = [1, 16, 128];
const THREADS: usize = 2;
const MEMORY: u64 = 3 << 30;
/// Keys that were drawn in advance, for each distribution.
pub(crate) const DRAWS: u32 = 1 << 20;
pub(crate) const SEED: u64 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    mix: Mix,
    distribution: Distribution,
    threads: usize,
}

#[derive(Default)]
struct Results {
    rates: BTreeMap<Point, Sample>,
    totals: BTreeMap<Point, Outcome>,
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Table>> {
    let draws = Distribution::ALL.map(|d| sequence(d, plan.run_records, DRAWS, SEED));
    let engines = VALUES.map(|value| loaded_engine(plan.run_records, value, Options::default()));
    let engines = engines.into_iter().collect::<Result<Vec<_>>>()?;
    let mut results = Results::default();

    plan.repeat("run", |_, warm_up| {
        for point in points() {
            let which = VALUES.iter().position(|&value| value == point.mix.value);
            let engine = &engines[which.unwrap_or_default()];
            let time = plan.run_time / if warm_up { 4 } else { 1 };
            let draws = &draws[point.distribution as usize];
            let outcome = run(engine, point.mix, draws, point.threads, time)?;
            if !warm_up {
                results.rates.entry(point).or_default().push(outcome.rate());
                let total = results.totals.entry(point).or_insert_with(Outcome::new);
                total.add(&outcome);
            }
        }
        Ok(())
    })?;
    Ok(VALUES.map(|value| table(&results, value, plan)).into())
}

/// An engine with `records` records of `value` bytes.
pub(crate) fn loaded_engine(records: u32, value: usize, options: Options) -> Result<Engine> {
    eprintln!("loading {records} records of {value} B");
    let engine = Engine::create(&Options {
        memory_limit: MEMORY,
        ..options
    })?;
    load(&engine, records, value)?;
    Ok(engine)
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for value in VALUES {
        for distribution in Distribution::ALL {
            for set_percent in SET_PERCENT {
                for batch in BATCHES {
                    points.extend((1..=THREADS).map(|threads| Point {
                        mix: Mix {
                            set_percent,
                            batch,
                            value,
                        },
                        distribution,
                        threads,
                    }));
                }
            }
        }
    }
    points
}

/// `threads` clients at the same time, each on a processor of its own.
fn run(
    engine: &Engine,
    mix: Mix,
    draws: &[u32],
    threads: usize,
    time: Duration,
) -> Result<Outcome> {
    let barrier = Barrier::new(threads);
    let client = |thread: usize| {
        pin(thread)?;
        let worker = Worker::new(engine, mix, draws, thread * draws.len() / threads)?;
        barrier.wait();
        worker.run(time)
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || client(thread)))
            .collect();
        let mut all = Outcome::new();
        for handle in handles {
            all.join(&handle.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        Ok(all)
    })
}

fn table(results: &Results, value: usize, plan: &Plan) -> Table {
    let mut table = Table::new(
        if value == 16 { "run-16" } else { "run-1024" },
        format!(
            "BPF_PROG_RUN, {} records with values of {value} B; \
             thousands of operations per second; latency of a call, µs",
            plan.run_records
        ),
        &[
            "keys",
            "SET %",
            "batch",
            "one thread",
            "p50/p99/p99.9",
            "two threads",
            "factor",
            "p50/p99/p99.9",
            "Errors %, two threads",
        ],
    );
    let latency = |outcome: &Outcome| {
        let at = |percentile| outcome.micros(percentile);
        Cell::from(format!("{:.2}/{:.2}/{:.1}", at(50.0), at(99.0), at(99.9)))
    };
    for one in points() {
        if one.mix.value != value || one.threads != 1 {
            continue;
        }
        let two = Point {
            threads: THREADS,
            ..one
        };
        table.row([
            one.distribution.into(),
            one.mix.set_percent.into(),
            one.mix.batch.into(),
            Cell::thousands(&results.rates[&one]),
            latency(&results.totals[&one]),
            Cell::thousands(&results.rates[&two]),
            Cell::figure(&results.rates[&two].over(&results.rates[&one]), 2),
            latency(&results.totals[&two]),
            results.totals[&two].errors().into(),
        ]);
    }
    table
}
