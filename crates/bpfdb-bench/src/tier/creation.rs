//! `tier-snapshots`: what it takes to create a snapshot, by the number of records: BEGIN of a
//! read-only transaction, beside `fork()` of a process with as much memory, and beside the fork that Redis makes for
//! BGSAVE with as many records.
//!
//! Engine, process and Redis are measured one after the other, so that no memory but their own is forked.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bpfdb::{Engine, Operation, Options};
use hdrhistogram::Histogram;

use super::beside::VALUE;
use super::fork::Memory;
use crate::durability::{Setup, fork_of_bgsave};
use crate::plan::Plan;
use crate::records::{KEY_LEN, key_of};
use crate::report::{Cell, Table};
use crate::run::loaded_engine;
use crate::sample::Sample;
use crate::tcp::{Server, fill};

/// Snapshots that begin and end in one system call.
const TOGETHER: usize = 500;
/// Forks in a round, of which the median counts.
const FORKS: usize = 9;
/// How often creation by `fork()` is to take longer, at the most records.
const OF_FORK: f64 = 10_000.0;
/// How often creation may take longer at the most records than at the fewest: a cache holds less of them.
const OF_FEWEST: f64 = 1.5;

/// With so many records: microseconds, but for `inside`.
struct Creation {
    records: u32,
    memory: u64,
    p50: Sample,
    p99: Sample,
    /// Nanoseconds of one snapshot, from its beginning to its end, without system calls.
    inside: Sample,
    fork: Sample,
    /// Of each Redis.
    redis: Vec<Sample>,
}

pub(super) fn measure(plan: &Plan, setup: &Setup<'_>) -> Result<Table> {
    let mut names = Vec::new();
    let mut all = Vec::new();
    for &records in &plan.snapshot_records {
        let mut creation = engine(plan, records)?;
        let memory = Memory::new(creation.memory as usize)?;
        for _ in 0..plan.rounds {
            creation.fork.push(forked(&memory)?);
        }
        drop(memory);
        names.clear();
        for (n, program) in setup.redis.iter().enumerate() {
            let folder = setup.place.disk(&format!("snapshots-{n}"));
            let server = Setup::redis(program, &folder, &[])?;
            eprintln!(
                "snapshots: {records} records of {VALUE} B into {}",
                server.name
            );
            fill(&server, records, VALUE as u32)?;
            creation.redis.push(saved(plan, &server)?);
            names.push(server.name.clone());
        }
        setup.place.clear()?;
        all.push(creation);
    }
    Ok(table(plan, &names, &all))
}

fn engine(plan: &Plan, records: u32) -> Result<Creation> {
    let engine = loaded_engine(records, VALUE, Options::default())?;
    let mut creation = Creation {
        records,
        memory: engine.stats()?.memory_used(),
        p50: Sample::default(),
        p99: Sample::default(),
        inside: Sample::default(),
        fork: Sample::default(),
        redis: Vec::new(),
    };
    plan.repeat(&format!("snapshots of {records} records"), |_, warms_up| {
        let times = one_by_one(&engine, plan.snapshots, records)?;
        let inside = together(&engine, plan.snapshots)?;
        if !warms_up {
            let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
            creation.p50.push(at(0.5));
            creation.p99.push(at(0.99));
            creation.inside.push(inside);
        }
        Ok(())
    })?;
    Ok(creation)
}

/// Nanoseconds of each creation, a system call. A record is written before each, and read in it.
fn one_by_one(engine: &Engine, snapshots: u32, records: u32) -> Result<Histogram<u64>> {
    let (mut writer, mut reader) = (engine.session()?, engine.session()?);
    let mut times = Histogram::new_with_bounds(1, 10_000_000_000, 3)?;
    let mut value = [0; VALUE];
    for n in 0..snapshots {
        let key = key_of(n % records);
        value[..KEY_LEN].copy_from_slice(&key);
        writer.set(&key, &value)?;
        let begun = Instant::now();
        reader.begin_read_only()?;
        times.saturating_record(begun.elapsed().as_nanos() as u64);
        let found = reader.get(&key)?;
        ensure!(
            found.as_deref() == Some(&value[..]),
            "a snapshot has another value"
        );
        reader.commit()?;
    }
    Ok(times)
}

/// Nanoseconds of a snapshot, of many that begin and end in each system call: the median of the calls.
fn together(engine: &Engine, snapshots: u32) -> Result<f64> {
    let mut session = engine.session()?;
    let pairs = [Operation::BeginReadOnly, Operation::Commit];
    let operations: Vec<Operation> = pairs.into_iter().cycle().take(2 * TOGETHER).collect();
    let batch = session.prepare(&operations, 0)?;
    let mut times = Sample::default();
    for _ in 0..snapshots.div_ceil(TOGETHER as u32) {
        let begun = Instant::now();
        let done = session.run(&batch)?;
        times.push(begun.elapsed().as_nanos() as f64 / TOGETHER as f64);
        ensure!(done == batch.len(), "{done} of {} were run", batch.len());
        for i in 0..done {
            session.outcome(&batch, i)?;
        }
    }
    Ok(times.median())
}

/// Microseconds of the median.
fn forked(memory: &Memory) -> Result<f64> {
    let forks = (0..FORKS).map(|_| memory.fork());
    let micros = |took: Result<Duration>| Ok(took?.as_secs_f64() * 1e6);
    Ok(forks.map(micros).collect::<Result<Sample>>()?.median())
}

/// Microseconds of the fork, in each round.
fn saved(plan: &Plan, server: &Server) -> Result<Sample> {
    (0..plan.rounds).map(|_| fork_of_bgsave(server)).collect()
}

fn table(plan: &Plan, redis: &[String], all: &[Creation]) -> Table {
    let title = format!(
        "creation of a snapshot by a session of user space, beside fork(): µs; records of {VALUE} B"
    );
    let begin = [
        "records",
        "memory, MiB",
        "snapshot",
        "its p99",
        "inside the kernel, with its end, ns",
        "over that of the fewest",
        "target",
        "fork() of as much memory",
    ];
    let mut columns: Vec<String> = begin.map(str::to_owned).into();
    columns.extend(redis.iter().map(|name| format!("fork of {name}")));
    columns.extend(["fork() over snapshot", "target"].map(str::to_owned));
    let mut table = Table::new("tier-snapshots", title, &columns);
    for (n, creation) in all.iter().enumerate() {
        let is_last = n + 1 == all.len() && !plan.quick;
        let of_fewest = creation.inside.over(&all[0].inside);
        let of_fork = creation.fork.over(&creation.p50);
        let target = |cell: Cell| if is_last { cell } else { "".into() };
        let mut row: Vec<Cell> = vec![
            creation.records.into(),
            (creation.memory >> 20).into(),
            Cell::figure(&creation.p50, 2),
            Cell::figure(&creation.p99, 2),
            Cell::figure(&creation.inside, 0),
            Cell::figure(&of_fewest, 2),
            target(Cell::at_most(&of_fewest, OF_FEWEST)),
            Cell::figure(&creation.fork, 0),
        ];
        row.extend(creation.redis.iter().map(|fork| Cell::figure(fork, 0)));
        row.push(Cell::figure(&of_fork, 0));
        row.push(target(Cell::at_least(&of_fork, OF_FORK)));
        table.row(row);
    }
    table.note("snapshot: the system call that begins a read-only transaction; between two of them a record is written");
    table.note("fork(): pages of 4 KiB, the child ends at once; of Redis: latest_fork_usec of BGSAVE, with as many records");
    table
}
