//! Inside the kernel: the engine against a plain preallocated hash map. Same
//! keys, same values, same draws, same loop, one program run each.

mod stores;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::plan::Plan;
use crate::random::Distribution;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use stores::{Stores, Subject, THREADS};
pub(crate) use stores::{find, map};

/// Share of the plain map's time that an operator may take.
const TARGET: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    distribution: Distribution,
    subject: Subject,
    threads: usize,
}

#[derive(Default)]
struct Results {
    nanos: BTreeMap<Point, Sample>,
    failed: BTreeMap<Point, Sample>,
}

impl Results {
    fn nanos(&self, distribution: Distribution, subject: Subject, threads: usize) -> &Sample {
        &self.nanos[&Point {
            distribution,
            subject,
            threads,
        }]
    }

    fn failed_percent(
        &self,
        distribution: Distribution,
        subject: Subject,
        threads: usize,
    ) -> Sample {
        let point = Point {
            distribution,
            subject,
            threads,
        };
        self.failed[&point].map(|share| share * 100.0)
    }
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Table>> {
    eprintln!("kernel: loading {} records", plan.kernel_records);
    let stores = Stores::new(plan)?;
    let mut results = Results::default();

    plan.repeat("kernel", |round, warm_up| {
        let first = (round as u32).wrapping_mul(plan.kernel_operations);
        for point in points() {
            let timing = stores.time(
                point.subject,
                point.distribution,
                point.threads,
                first,
                plan.kernel_operations,
            )?;
            let may_fail = point.subject == Subject::Transaction || point.threads > 1;
            ensure!(may_fail || timing.failed == 0.0, "{point:?}: {timing:?}");
            if !warm_up {
                results.nanos.entry(point).or_default().push(timing.nanos);
                results.failed.entry(point).or_default().push(timing.failed);
            }
        }
        Ok(())
    })?;
    Ok(vec![
        operations(&results, plan),
        transactions(&results),
        cores(&results),
    ])
}

/// All of a round, in order: what is compared stands side by side.
fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for distribution in Distribution::ALL {
        for subject in Subject::ALL {
            points.extend((1..=THREADS).map(|threads| Point {
                distribution,
                subject,
                threads,
            }));
        }
    }
    points
}

fn operations(results: &Results, plan: &Plan) -> Table {
    let mut table = Table::new(
        "kernel",
        format!(
            "ns per operation inside the kernel, one core, {} records of 16 B + 16 B",
            plan.kernel_records
        ),
        &["keys", "operation", "bpfdb", "plain map", "ratio", "target"],
    );
    for keys in Distribution::ALL {
        for (name, engine, plain) in [
            ("GET", Subject::EngineGet, Subject::PlainGet),
            ("SET", Subject::EngineSet, Subject::PlainSet),
        ] {
            let (engine, plain) = (
                results.nanos(keys, engine, 1),
                results.nanos(keys, plain, 1),
            );
            let ratio = engine.over(plain);
            table.row([
                keys.into(),
                name.into(),
                Cell::figure(engine, 1),
                Cell::figure(plain, 1),
                Cell::figure(&ratio, 2),
                Cell::at_most(&ratio, TARGET),
            ]);
        }
        for (name, floor) in [
            ("floor: loop and draw", Subject::Nothing),
            ("floor: and one cache line", Subject::Line),
        ] {
            let nanos = results.nanos(keys, floor, 1);
            let plain = results.nanos(keys, Subject::PlainGet, 1);
            table.row([
                keys.into(),
                name.into(),
                Cell::figure(nanos, 1),
                Cell::figure(plain, 1),
                Cell::figure(&nanos.over(plain), 2),
                "".into(),
            ]);
        }
    }
    table
}

fn transactions(results: &Results) -> Table {
    let mut table = Table::new(
        "kernel-transaction",
        "BEGIN, 3 GET, 2 SET, COMMIT inside the kernel",
        &["keys", "cores", "ns", "in SETs", "conflicts %"],
    );
    for keys in Distribution::ALL {
        for threads in 1..=THREADS {
            let nanos = results.nanos(keys, Subject::Transaction, threads);
            let set = results.nanos(keys, Subject::EngineSet, threads);
            table.row([
                keys.into(),
                threads.into(),
                Cell::figure(nanos, 0),
                Cell::figure(&nanos.over(set), 1),
                Cell::figure(
                    &results.failed_percent(keys, Subject::Transaction, threads),
                    2,
                ),
            ]);
        }
    }
    table
}

fn cores(results: &Results) -> Table {
    let mut table = Table::new(
        "kernel-cores",
        "operations per second inside the kernel, thousands: two cores against one",
        &[
            "keys",
            "operation",
            "one core",
            "two cores",
            "factor",
            "Errors %",
        ],
    );
    for keys in Distribution::ALL {
        for (name, subject) in [
            ("GET", Subject::EngineGet),
            ("plain map lookup", Subject::PlainGet),
            ("SET", Subject::EngineSet),
            ("plain map update", Subject::PlainSet),
            ("transaction", Subject::Transaction),
        ] {
            let rate = |threads| {
                results
                    .nanos(keys, subject, threads)
                    .map(|nanos| 1e9 / nanos)
            };
            let (one, two) = (rate(1), rate(THREADS));
            table.row([
                keys.into(),
                name.into(),
                Cell::thousands(&one),
                Cell::thousands(&two),
                Cell::figure(&two.over(&one), 2),
                Cell::figure(&results.failed_percent(keys, subject, THREADS), 3),
            ]);
        }
    }
    table
}
