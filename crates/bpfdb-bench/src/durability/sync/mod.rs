//! `durability-sync`: replies when it is on the disk. `SET` of 16 B at bpfdb and Redis with
//! `appendfsync always`, and the same as an upsert at PostgreSQL and SQLite, with more and more
//! connections. All have the same records, on the same disk. `durability-sync-remote`: the same
//! from another network namespace, over veth, at bpfdb and Redis.
//!
//! ```text
//! subject.rs    the servers and libraries that are measured
//! postgres.rs   PostgreSQL, by pgbench
//! sqlite.rs     SQLite, by sqlite.py
//! ```
//!
//! bpfdb and Redis are asked a number of times, by redis-benchmark; the others for a time.

mod postgres;
mod sqlite;
mod subject;

use anyhow::Result;

use super::Setup;
use super::disk::Disk;
use super::rows::{Rows, best, sample};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::tcp::{Load, NetworkNamespace, Results, SET};
use subject::Subjects;

/// Where clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Loopback,
    /// In another network namespace, as on another machine.
    Remote,
}

const SIZE: u32 = 16;
const VALUES: &str = "values of 16 B";

/// Connections, requests in a pipeline, and how many times the rate of the better Redis is to
/// be reached.
const ROWS: [(u32, u32, f64); 5] = [
    (1, 1, 1.2),
    (16, 1, 1.6),
    (64, 1, 2.0),
    (256, 1, 2.0),
    (64, 16, 3.0),
];
/// One, two, and pipelines.
const ROWS_QUICK: [(u32, u32, f64); 3] = [ROWS[0], ROWS[1], ROWS[4]];

impl Way {
    /// Of the table.
    fn name(self) -> &'static str {
        match self {
            Self::Loopback => "durability-sync",
            Self::Remote => "durability-sync-remote",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Loopback => "replies when it is on the disk",
            Self::Remote => "the same from another network namespace, over veth",
        }
    }

    fn notes(self) -> &'static [&'static str] {
        match self {
            Self::Loopback => &NOTES,
            Self::Remote => &NOTES[..1],
        }
    }

    fn namespaces(self) -> Result<[NetworkNamespace; 2]> {
        match self {
            Self::Loopback => Ok(Setup::namespaces()),
            Self::Remote => NetworkNamespace::veth_pair(),
        }
    }
}

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Table>> {
    let mut tables = measure_way(setup, Way::Loopback)?;
    tables.extend(measure_way(setup, Way::Remote)?);
    Ok(tables)
}

fn measure_way(setup: &Setup<'_>, way: Way) -> Result<Vec<Table>> {
    let subjects = Subjects::start(setup, way)?;
    let mut disk = Disk::new(&setup.place, setup.plan.quick)?;
    let mut results = Results::default();
    for round in 0..setup.plan.rounds {
        eprintln!(
            "{}: round {} of {}",
            way.name(),
            round + 1,
            setup.plan.rounds
        );
        disk.look()?;
        for (load, _) in loads(setup.plan) {
            for (which, subject) in subjects.all.iter().enumerate() {
                if let Some(answer) = subject.run(setup.plan, load)? {
                    results.add(load, which, answer);
                }
            }
        }
    }
    let rows = Rows {
        name: way.name(),
        subjects: subjects
            .all
            .iter()
            .map(|subject| subject.name().to_owned())
            .collect(),
        loads: loads(setup.plan)
            .into_iter()
            .map(|(load, _)| load)
            .collect(),
        results: &results,
    };
    let mut rates = rates(&rows, way, setup.plan, subjects.redis());
    subjects
        .missing
        .iter()
        .for_each(|missing| rates.note(missing));
    let tables = setup.tables(&rows, rates, &disk);
    drop(subjects);
    setup.place.clear()?;
    Ok(tables)
}

/// With their targets.
fn loads(plan: &Plan) -> Vec<(Load, f64)> {
    let rows: &[_] = if plan.quick { &ROWS_QUICK } else { &ROWS };
    let load = |&(connections, pipeline, target): &(u32, u32, f64)| {
        let load = Load {
            connections,
            threads: connections.min(2),
            size: SIZE,
            pipeline,
            test: SET,
        };
        (load, target)
    };
    rows.iter().map(load).collect()
}

/// How often a server is asked: about two seconds' worth of it.
fn requests(plan: &Plan, load: Load) -> u32 {
    let share = match load.connections {
        1 => plan.sync_requests / 15,
        16 => plan.sync_requests * 2 / 3,
        _ => plan.sync_requests,
    };
    share * if load.pipeline > 1 { 10 } else { 1 }
}

/// `redis`: which of the subjects.
fn rates(rows: &Rows<'_>, way: Way, plan: &Plan, redis: std::ops::Range<usize>) -> Table {
    let title = format!(
        "{}, thousands of requests per second: {VALUES}, keys: {}",
        way.title(),
        plan.tcp_keys
    );
    let mut columns = rows.columns("");
    columns.extend(
        [
            "bpfdb over the better Redis",
            "target",
            "over the best of all",
        ]
        .map(String::from),
    );
    let mut table = Table::new(way.name(), title, &columns);
    for (load, target) in loads(plan) {
        let rates = &rows.results.rates;
        let ours = sample(rates, load, 0);
        let over_redis = ours.over(&best(rates, load, redis.clone()));
        let over_all = ours.over(&best(rates, load, 1..rows.subjects.len()));
        let mut cells = Rows::load_cells(load);
        cells.extend(rows.rate_cells(load));
        cells.push(Cell::figure(&over_redis, 2));
        cells.push(match over_redis.is_empty() {
            true => "".into(),
            false => Cell::at_least(&over_redis, target),
        });
        cells.push(Cell::figure(&over_all, 2));
        table.row(cells);
    }
    for note in way.notes() {
        table.note(*note);
    }
    table
}

/// The first one is of all tables, the others of the databases that are on loopback only.
const NOTES: [&str; 3] = [
    "bpfdb: appendfsync always; Redis: appendonly yes, appendfsync always; by redis-benchmark",
    "PostgreSQL: defaults (synchronous_commit and fsync on), max_connections raised; pgbench \
     -M prepared over a Unix socket, INSERT … ON CONFLICT DO UPDATE",
    "SQLite: WAL, synchronous=FULL, one connection in every row, since it has one writer; \
     Python's module",
];
