//! `tier-checkpoint`: clients that write beside a checkpoint, and beside Redis's BGSAVE.

use anyhow::Result;

use super::latencies;
use crate::durability::{Setup, Stalls, stalls};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

/// Bytes of a value.
const SIZE: u32 = 1024;
/// How many times longer writers of the better Redis are to take: at most, and in the 99.9th percentile.
const WORST: f64 = 10.0;
const P999: f64 = 2.0;

pub(super) fn measure(plan: &Plan, setup: &Setup<'_>) -> Result<Table> {
    let all = stalls(setup, SIZE, plan.saved_records)?;
    let mut table = table(plan, &all);
    setup.note(&mut table);
    setup.place.clear()?;
    Ok(table)
}

fn table(plan: &Plan, all: &[Stalls]) -> Table {
    let title = format!(
        "two clients that SET through TCP, each waiting for its replies, while a checkpoint is made; {} records of {SIZE} B",
        plan.saved_records
    );
    let mut columns = vec!["database", "checkpoint"];
    columns.extend(latencies::COLUMNS);
    columns.extend([
        "it takes, s",
        "fork, ms",
        "p99.9 of the better Redis over this",
        "target",
        "its worst over this",
        "target",
    ]);
    let mut table = Table::new("tier-checkpoint", title, &columns);
    for (n, stalls) in all.iter().enumerate() {
        for (phase, seen) in [("before", &stalls.before), ("during", &stalls.during)] {
            let is_during = phase == "during";
            let mut row: Vec<Cell> = vec![stalls.name.as_str().into(), phase.into()];
            row.extend(latencies::cells(seen));
            row.extend(match is_during {
                true => [
                    Cell::figure(&stalls.seconds, 2),
                    Cell::figure(&stalls.fork.map(|seconds| seconds * 1e3), 1),
                ],
                false => ["", ""].map(Cell::from),
            });
            row.extend(match is_during && n == 0 && all.len() > 1 {
                true => compared(all),
                false => ["", "", "", ""].map(Cell::from),
            });
            table.row(row);
        }
    }
    table.note("bpfdb writes its log all the time (everysec); Redis writes no append-only file");
    table
}

/// Of bpfdb, which stands first.
fn compared(all: &[Stalls]) -> [Cell; 4] {
    let ratio = |of: fn(&Stalls) -> &Sample| {
        let ratios = all[1..].iter().map(|redis| of(redis).over(of(&all[0])));
        ratios
            .min_by(|a, b| a.median().total_cmp(&b.median()))
            .unwrap_or_default()
    };
    let p999 = ratio(|stalls| &stalls.during.p999);
    let worst = ratio(|stalls| &stalls.during.worst);
    [
        Cell::figure(&p999, 2),
        Cell::at_least(&p999, P999),
        Cell::figure(&worst, 1),
        Cell::at_least(&worst, WORST),
    ]
}
