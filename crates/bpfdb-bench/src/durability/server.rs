//! `durability-server`: `bpfdb serve` without a log, with an asynchronous one in memory, and
//! with one on the disk. Three servers with the same data, asked in turns by redis-benchmark.
//!
//! Checkpoints are made as the default settings say, also while requests are measured: they
//! are what a log costs too. How many there were stands below the table. One is made before
//! the first round, so that the log of filling the stores causes none.

use anyhow::Result;

use super::Setup;
use super::client::{Client, checkpoint};
use super::disk::Disk;
use super::rows::{Rows, ask, note_refused, sample};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::{GET, Load, Results, SET, Server, fill};

const NAME: &str = "durability-server";
const SIZES: [u32; 2] = [16, 1024];
const PIPELINES: [u32; 2] = [1, 16];
const CONNECTIONS: u32 = 64;
const THREADS: u32 = 2;

/// Servers with a log, behind the one without.
const LOGGED: [&str; 2] = ["log in memory", "log on the disk"];
const ON_DISK: usize = 1;

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Table>> {
    let namespaces = Setup::namespaces();
    let servers = [
        Server::bpfdb("off", &namespaces, setup.plan.quick)?.named("without a log"),
        setup
            .bpfdb(&setup.place.memory("server"), &[])?
            .named(LOGGED[0]),
        setup
            .bpfdb(&setup.place.disk("server"), &[])?
            .named(LOGGED[1]),
    ];
    let mut disk = Disk::new(&setup.place, setup.plan.quick)?;
    let mut results = Results::default();
    let (mut checkpoints, mut refused) = ([0; LOGGED.len()], 0);
    for size in SIZES {
        for server in &servers {
            fill(server, setup.plan.tcp_keys, size)?;
        }
        for server in &servers[1..] {
            checkpoint(server)?;
        }
        let before = attempts(&servers[1..])?;
        run(
            setup.plan,
            size,
            &servers,
            &mut disk,
            &mut results,
            &mut refused,
        )?;
        let after = attempts(&servers[1..])?;
        for (count, (before, after)) in checkpoints.iter_mut().zip(before.iter().zip(after)) {
            *count += after - before;
        }
    }
    let rows = Rows {
        name: NAME,
        subjects: servers.iter().map(|server| server.name.clone()).collect(),
        loads: SIZES.into_iter().flat_map(loads).collect(),
        results: &results,
    };
    let mut rates = rates(&rows, setup.plan);
    let made = LOGGED.iter().zip(checkpoints);
    let made: Vec<String> = made.map(|(log, count)| format!("{log}: {count}")).collect();
    rates.note(format!("checkpoints made meanwhile, {}", made.join(", ")));
    note_refused(&mut rates, refused);
    let tables = setup.tables(&rows, rates, &disk);
    drop(servers);
    setup.place.clear()?;
    Ok(tables)
}

fn loads(size: u32) -> Vec<Load> {
    let load = |test, pipeline| Load {
        connections: CONNECTIONS,
        threads: THREADS,
        size,
        pipeline,
        test,
    };
    (PIPELINES.iter())
        .flat_map(|&pipeline| [SET, GET].map(|test| load(test, pipeline)))
        .collect()
}

/// Checkpoints that each server has begun.
fn attempts(servers: &[Server]) -> Result<Vec<u64>> {
    let attempts = |server: &Server| Client::new(server)?.figure("checkpoint_attempts");
    servers.iter().map(attempts).collect()
}

fn run(
    plan: &Plan,
    size: u32,
    servers: &[Server],
    disk: &mut Disk,
    results: &mut Results,
    refused: &mut u32,
) -> Result<()> {
    for round in 0..plan.rounds {
        eprintln!("{NAME}, {size} B: round {} of {}", round + 1, plan.rounds);
        disk.look()?;
        for load in loads(size) {
            for (which, server) in servers.iter().enumerate() {
                let answer = ask(load, server, plan, refused)?;
                results.add(load, which, answer);
            }
        }
    }
    Ok(())
}

fn rates(rows: &Rows<'_>, plan: &Plan) -> Table {
    let title = format!(
        "asynchronous log through TCP on loopback, thousands of requests per second: \
         redis-benchmark, keys: {}",
        plan.tcp_keys
    );
    let mut columns = rows.columns("");
    for log in LOGGED {
        columns.extend([format!("less with {log}, %"), "target".into()]);
    }
    let mut table = Table::new(NAME, title, &columns);
    for &load in &rows.loads {
        let mut cells = Rows::load_cells(load);
        cells.extend(rows.rate_cells(load));
        let rate = |which| sample(&rows.results.rates, load, which);
        for log in 0..LOGGED.len() {
            let less = less(&rate(0), &rate(1 + log));
            cells.push(Cell::figure(&less, 1));
            cells.push(Cell::at_most_of(&less, target(log, load.size), "%"));
        }
        table.row(cells);
    }
    table.note(
        "appendfsync everysec, which in bpfdb flushes all the time; checkpoints by the default settings",
    );
    table
}

/// What a log may take, in percent.
fn target(log: usize, size: u32) -> f64 {
    match (log, size) {
        (ON_DISK, _) => 5.0,
        (_, 16) => 3.0,
        _ => 12.0,
    }
}

/// Percent of the rate that are missing, round by round.
fn less(without: &Sample, with: &Sample) -> Sample {
    with.over(without).map(|share| (1.0 - share) * 100.0)
}
