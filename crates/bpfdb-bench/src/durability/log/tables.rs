//! The table.

use super::{NAME, OPERATIONS, Operation, Point, Results, SIZES, Size};
use crate::plan::Plan;
use crate::random::Distribution;
use crate::report::{Cell, Table};
use crate::sample::Sample;

/// Logs, by the number of their engine.
const LOGS: [(usize, &str); 2] = [(1, "in memory"), (2, "on the disk")];

/// What a log may add to a SET, in nanoseconds, and to a GET, in percent.
const TARGET_SET: f64 = 20.0;
const TARGET_SET_LONG: f64 = 110.0;
const TARGET_GET: f64 = 2.0;

pub(super) fn table(plan: &Plan, results: &Results) -> Table {
    let records: Vec<String> = (SIZES.iter())
        .map(|size| {
            format!(
                "{} records of {} B",
                plan.kernel_records / size.share,
                size.value
            )
        })
        .collect();
    let title = format!(
        "ns per operation inside the kernel with a log and without, one core: {}",
        records.join(", ")
    );
    let columns = [
        "keys",
        "operation",
        "-d",
        "log",
        "without",
        "with",
        "more, ns",
        "more, %",
        "target",
        "refused %",
    ];
    let mut table = Table::new(NAME, title, &columns);
    for size in SIZES {
        for distribution in Distribution::ALL {
            for operation in OPERATIONS {
                for log in LOGS {
                    row(&mut table, results, size, distribution, operation, log);
                }
            }
        }
    }
    table.note(
        "parts of half a ring (16 MiB) in turns, the ring written out after each; SET on: \
         without pauses, time of refused operations counted",
    );
    table
}

fn row(
    table: &mut Table,
    results: &Results,
    size: Size,
    distribution: Distribution,
    operation: Operation,
    (engine, log): (usize, &str),
) {
    let point = |engine| Point {
        value: size.value,
        distribution,
        operation,
        engine,
    };
    let (without, with) = (&results.nanos[&point(0)], &results.nanos[&point(engine)]);
    let more = with.with(without, |with, without| with - without);
    let percent = with.over(without).map(|ratio| (ratio - 1.0) * 100.0);
    let refused = results.refused[&point(engine)].map(|share| share * 100.0);
    table.row([
        distribution.into(),
        name(operation).into(),
        size.value.into(),
        log.into(),
        Cell::figure(without, 1),
        Cell::figure(with, 1),
        Cell::figure(&more, 1),
        Cell::figure(&percent, 1),
        target(operation, size, &more, &percent),
        Cell::figure(&refused, 2),
    ]);
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Get => "GET",
        Operation::Set => "SET",
        Operation::SetOn => "SET on",
    }
}

fn target(operation: Operation, size: Size, more: &Sample, percent: &Sample) -> Cell {
    match (operation, size.value) {
        (Operation::Get, _) => Cell::at_most_of(percent, TARGET_GET, "%"),
        (Operation::Set, 16) => Cell::at_most_of(more, TARGET_SET, "ns"),
        (Operation::Set, _) => Cell::at_most_of(more, TARGET_SET_LONG, "ns"),
        (Operation::SetOn, _) => "".into(),
    }
}
