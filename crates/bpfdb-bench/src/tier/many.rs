//! `tier-snapshots-many`: sessions that write, alone, beside a thread that reads a record as often as
//! snapshots are taken, and beside a thread that takes them. One snapshot always runs: the next
//! one begins before the last one ends.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};
use bpfdb::{Engine, Options};

use super::beside::{VALUE, every, write_beside};
use super::latencies;
use crate::durability::Samples;
use crate::plan::Plan;
use crate::random::{Distribution, sequence};
use crate::records::key_of;
use crate::report::{Cell, Table};
use crate::run::{DRAWS, SEED, loaded_engine};
use crate::sample::Sample;

/// Between two snapshots: a thousand a second.
const PERIOD: Duration = Duration::from_millis(1);
/// Times of the 99.9th percentile that writers have alone.
const TARGET: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Beside {
    Nothing,
    /// What it costs that a thread runs as often.
    Reads,
    Snapshots,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Nothing, Self::Reads, Self::Snapshots];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Reads => "a GET each ms",
            Self::Snapshots => "a snapshot each ms",
        }
    }

    /// How often it did what it does.
    fn run(self, engine: &Engine, over: &AtomicBool) -> Result<u64> {
        match self {
            Self::Nothing => Ok(0),
            Self::Reads => {
                let mut session = engine.session()?;
                every(PERIOD, over, || {
                    ensure!(session.get(&key_of(0))?.is_some(), "a record is gone");
                    Ok(())
                })
            }
            Self::Snapshots => {
                let (mut running, mut next) = (engine.session()?, engine.session()?);
                running.begin_read_only()?;
                every(PERIOD, over, || {
                    next.begin_read_only()?;
                    running.commit()?;
                    std::mem::swap(&mut running, &mut next);
                    Ok(())
                })
            }
        }
    }
}

#[derive(Default)]
struct Seen {
    writers: Samples,
    per_second: Sample,
}

type Results = BTreeMap<(Distribution, Beside), Seen>;

pub(super) fn measure(plan: &Plan) -> Result<Table> {
    let draws = Distribution::ALL.map(|d| sequence(d, plan.beside_records, DRAWS, SEED));
    let engine = loaded_engine(plan.beside_records, VALUE, Options::default())?;
    let mut results = Results::new();
    plan.repeat("a thousand snapshots a second", |_, warms_up| {
        for keys in Distribution::ALL {
            for beside in Beside::ALL {
                let (draws, time) = (&draws[keys as usize], plan.beside_time);
                let run = |over: &AtomicBool| beside.run(&engine, over);
                let (writers, calls) = write_beside(&engine, draws, time, run)?;
                engine.sweep()?;
                if !warms_up {
                    let seen = results.entry((keys, beside)).or_default();
                    seen.writers.push(writers);
                    seen.per_second.push(calls as f64 / time.as_secs_f64());
                }
            }
        }
        Ok(())
    })?;
    Ok(table(plan, &results))
}

fn table(plan: &Plan, results: &Results) -> Table {
    let title = format!(
        "two sessions of user space that SET, one by one, {} records of {VALUE} B, beside a thousand snapshots a second",
        plan.beside_records
    );
    let mut columns = vec!["keys", "beside", "that a second"];
    columns.extend(latencies::COLUMNS);
    columns.extend(["p99.9 over that alone", "target"]);
    let mut table = Table::new("tier-snapshots-many", title, &columns);
    for keys in Distribution::ALL {
        let alone = &results[&(keys, Beside::Nothing)].writers;
        for beside in Beside::ALL {
            let seen = &results[&(keys, beside)];
            let ratio = seen.writers.p999.over(&alone.p999);
            let mut row = vec![
                keys.into(),
                beside.name().into(),
                Cell::figure(&seen.per_second, 0),
            ];
            row.extend(latencies::cells(&seen.writers));
            row.push(Cell::figure(&ratio, 2));
            row.push(match beside {
                Beside::Snapshots => Cell::at_most(&ratio, TARGET),
                _ => "".into(),
            });
            table.row(row);
        }
    }
    table.note("one snapshot always runs; a time is that of a system call and what surrounds it");
    table
}
