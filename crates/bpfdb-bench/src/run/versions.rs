//! One to eight versions per record (the paper's Figures 12 and 14, Table 2).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use bpfdb::{Engine, Options};

use super::snapshots::stream;
use super::worker::{Mix, Outcome, Worker};
use super::{DRAWS, SEED, VALUES, loaded_engine};
use crate::machine::pin;
use crate::plan::Plan;
use crate::random::{Distribution, sequence};
use crate::report::{Cell, Table};
use crate::sample::Sample;

const SET_PERCENT: u32 = 90;
/// Table 2 is taken at 100,000 requests per second.
const PERIOD: Duration = Duration::from_micros(10);
const MEMORY_AHEAD: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Setting {
    /// The client alone.
    Alone,
    /// Next to the stream of reading transactions.
    Stream,
    /// The same at a fixed rate, for the latency.
    Paced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    value: usize,
    versions: u32,
    setting: Setting,
}

#[derive(Default)]
struct Results {
    rates: BTreeMap<Point, Sample>,
    streams: BTreeMap<Point, Sample>,
    totals: BTreeMap<Point, Outcome>,
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Table>> {
    let draws = sequence(Distribution::Zipf, plan.versions_records, DRAWS, SEED);
    let engines = engines(plan)?;
    let mut results = Results::default();

    plan.repeat("versions", |_, warm_up| {
        for point in points(plan) {
            let engine = &engines[&(point.value, point.versions)];
            let time = plan.versions_time / if warm_up { 4 } else { 1 };
            let (outcome, transactions) = run(engine, point, &draws, time)?;
            if !warm_up {
                let per_second = transactions as f64 / outcome.took.as_secs_f64();
                results.rates.entry(point).or_default().push(outcome.rate());
                results.streams.entry(point).or_default().push(per_second);
                let total = results.totals.entry(point).or_insert_with(Outcome::new);
                total.add(&outcome);
            }
        }
        Ok(())
    })?;
    Ok(vec![throughput(&results, plan), latency(&results, plan)])
}

fn points(plan: &Plan) -> Vec<Point> {
    let mut points = Vec::new();
    for setting in [Setting::Alone, Setting::Stream, Setting::Paced] {
        for value in VALUES {
            points.extend(plan.versions.iter().map(|&versions| Point {
                value,
                versions,
                setting,
            }));
        }
    }
    points
}

/// An engine for each number of versions and size of values.
fn engines(plan: &Plan) -> Result<BTreeMap<(usize, u32), Engine>> {
    let mut engines = BTreeMap::new();
    for value in VALUES {
        for &versions in &plan.versions {
            let options = Options {
                versions,
                memory_ahead: MEMORY_AHEAD,
                ..Options::default()
            };
            let engine = loaded_engine(plan.versions_records, value, options)?;
            engines.insert((value, versions), engine);
        }
    }
    Ok(engines)
}

/// The client on one processor, the stream, if any, on the other.
fn run(engine: &Engine, point: Point, draws: &[u32], time: Duration) -> Result<(Outcome, u64)> {
    let mix = Mix {
        set_percent: SET_PERCENT,
        batch: 1,
        value: point.value,
    };
    let stop = AtomicBool::new(false);

    thread::scope(|scope| {
        let readers = (point.setting != Setting::Alone).then(|| {
            scope.spawn(|| {
                pin(1)?;
                stream(engine, draws, &stop)
            })
        });
        let client = scope.spawn(|| {
            pin(0)?;
            let worker = Worker::new(engine, mix, draws, draws.len() / 2)?;
            match point.setting {
                Setting::Paced => worker.run_paced(time, PERIOD),
                _ => worker.run(time),
            }
        });
        let outcome = client.join();
        stop.store(true, Ordering::Relaxed);
        let ended = match readers {
            Some(readers) => readers
                .join()
                .map_err(|_| anyhow!("the stream panicked"))??,
            None => 0,
        };
        Ok((outcome.map_err(|_| anyhow!("the client panicked"))??, ended))
    })
}

fn throughput(results: &Results, plan: &Plan) -> Table {
    let mut table = Table::new(
        "versions",
        format!(
            "{SET_PERCENT} % SET, Zipf 0.99, {} records; thousands of operations per second \
             of one client, alone and next to reading transactions",
            plan.versions_records
        ),
        &[
            "value",
            "versions",
            "alone",
            "with readers",
            "Errors %",
            "reading transactions",
        ],
    );
    for alone in points(plan) {
        if alone.setting != Setting::Alone {
            continue;
        }
        let stream = Point {
            setting: Setting::Stream,
            ..alone
        };
        table.row([
            alone.value.into(),
            alone.versions.into(),
            Cell::thousands(&results.rates[&alone]),
            Cell::thousands(&results.rates[&stream]),
            results.totals[&stream].errors().into(),
            Cell::thousands(&results.streams[&stream]),
        ]);
    }
    table
}

fn latency(results: &Results, plan: &Plan) -> Table {
    let mut table = Table::new(
        "versions-latency",
        "µs of an operation at 100,000 per second, next to the same reading transactions",
        &[
            "value", "versions", "min", "p25", "p50", "p75", "p99", "p99.9", "Errors %",
        ],
    );
    for point in points(plan) {
        if point.setting != Setting::Paced {
            continue;
        }
        let total = &results.totals[&point];
        let percentiles = [0.0, 25.0, 50.0, 75.0, 99.0, 99.9];
        let mut row: Vec<Cell> = vec![point.value.into(), point.versions.into()];
        row.extend(percentiles.map(|at| Cell::from(format!("{:.2}", total.micros(at)))));
        row.push(total.errors().into());
        table.row(row);
    }
    table
}
