//! `durability-log`: what the log costs inside the kernel. Three engines with the same records:
//! one without a log, one with a log in memory, one with a log on the disk. Same keys, same
//! draws, same loop, one program run each, as `kernel/` does it.
//!
//! A ring of the log holds less than the operations of one measurement. So these are divided into
//! parts of half a ring, which the engines run in turns: a part of the first, of the second, of
//! the third, then the next part. After each of its parts an engine's log is written out before
//! any client goes on; that time does not count. During a part the thread that writes the log works
//! as ever, on the other processor if there is one. Once more the same SETs run without pauses:
//! there a ring may become full, and the disk be the limit. The operations that are refused then
//! are shown, and their time is divided among those that succeeded.
//!
//! ```text
//! engines.rs   an engine, its log, and the programs that run on it
//! tables.rs    the table
//! ```

mod engines;
mod tables;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::Setup;
use super::disk::Disk;
use crate::random::Distribution;
use crate::report::Table;
use crate::sample::Sample;
use engines::{Logged, Part, RING};

const NAME: &str = "durability-log";

/// Engines: without a log, with one in memory, with one on the disk.
const ENGINES: usize = 3;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Get,
    Set,
    /// SET without pauses.
    SetOn,
}

const OPERATIONS: [Operation; 3] = [Operation::Get, Operation::Set, Operation::SetOn];

/// Values of a size: how many records, and operations of a measurement, are a part of the plan's;
/// bytes of a SET in the log (a head of 16, an entry of 16 with a key of 16, the value).
#[derive(Clone, Copy, Debug)]
struct Size {
    value: u32,
    share: u32,
    logged: u32,
}

/// Of 1 KiB there are fewer, so that three engines and a log fit the memory.
const SIZES: [Size; 2] = [
    Size {
        value: 16,
        share: 1,
        logged: 64,
    },
    Size {
        value: 1024,
        share: 8,
        logged: 48 + 1024,
    },
];

/// A row of the table, for one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    value: u32,
    distribution: Distribution,
    operation: Operation,
    engine: usize,
}

/// Nanoseconds per operation, and the share of operations that were refused.
#[derive(Default)]
struct Results {
    nanos: BTreeMap<Point, Sample>,
    refused: BTreeMap<Point, Sample>,
}

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Table>> {
    let mut disk = Disk::new(&setup.place, setup.plan.quick)?;
    let mut results = Results::default();
    for size in SIZES {
        let engines = load(setup, size)?;
        setup.plan.repeat(NAME, |round, warm_up| {
            if !warm_up {
                disk.look()?;
            }
            let mut unwanted = Results::default();
            let results = if warm_up { &mut unwanted } else { &mut results };
            for distribution in Distribution::ALL {
                for operation in OPERATIONS {
                    run(
                        setup,
                        &engines,
                        size,
                        distribution,
                        operation,
                        round as u32,
                        results,
                    )?;
                }
            }
            Ok(())
        })?;
        drop(engines);
        setup.place.clear()?;
    }
    let mut table = tables::table(setup.plan, &results);
    disk.note(&mut table);
    setup.note(&mut table);
    Ok(vec![table])
}

fn load(setup: &Setup<'_>, size: Size) -> Result<[Logged; ENGINES]> {
    let records = setup.plan.kernel_records / size.share;
    eprintln!("{NAME}: loading {records} records of {} B", size.value);
    let name = format!("log-{}", size.value);
    let load = |folder| Logged::new(setup.plan, size.value, records, folder);
    Ok([
        load(None)?,
        load(Some(setup.place.memory(&name)))?,
        load(Some(setup.place.disk(&name)))?,
    ])
}

/// All engines, in turns.
fn run(
    setup: &Setup<'_>,
    engines: &[Logged; ENGINES],
    size: Size,
    distribution: Distribution,
    operation: Operation,
    round: u32,
    results: &mut Results,
) -> Result<()> {
    let operations = setup.plan.kernel_operations / size.share;
    let first = round.wrapping_mul(operations);
    let part = Part {
        is_set: operation != Operation::Get,
        start: distribution as u32 * setup.plan.kernel_draws,
        mask: setup.plan.kernel_draws - 1,
        first,
        count: operations,
    };
    let mut totals = [Total::default(); ENGINES];
    match operation {
        Operation::SetOn => {
            for (engine, total) in engines.iter().zip(&mut totals) {
                for part in part.divided(RING / 2 / size.logged) {
                    total.add(engine, part)?;
                }
                engine.settle()?;
            }
        }
        Operation::Get | Operation::Set => {
            for part in part.divided(RING / 2 / size.logged) {
                for (engine, total) in engines.iter().zip(&mut totals) {
                    total.add(engine, part)?;
                    engine.settle()?;
                }
            }
        }
    }
    for (engine, total) in totals.into_iter().enumerate() {
        let may_fail = engine > 0 && operation == Operation::SetOn;
        ensure!(
            may_fail || total.failed == 0,
            "{operation:?}: {} failed",
            total.failed
        );
        let point = Point {
            value: size.value,
            distribution,
            operation,
            engine,
        };
        results.nanos.entry(point).or_default().push(total.nanos());
        results
            .refused
            .entry(point)
            .or_default()
            .push(total.refused());
    }
    Ok(())
}

/// Of the parts of one measurement.
#[derive(Clone, Copy, Default)]
struct Total {
    nanos: f64,
    operations: u32,
    failed: u32,
}

impl Total {
    fn add(&mut self, engine: &Logged, part: Part) -> Result<()> {
        let (nanos, failed) = engine.run(part)?;
        self.nanos += nanos;
        self.operations += part.count;
        self.failed += failed;
        Ok(())
    }

    /// Of an operation that succeeded.
    fn nanos(&self) -> f64 {
        self.nanos / f64::from(self.operations - self.failed)
    }

    fn refused(&self) -> f64 {
        f64::from(self.failed) / f64::from(self.operations)
    }
}
