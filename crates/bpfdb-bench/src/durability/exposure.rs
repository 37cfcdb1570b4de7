//! `durability-async`: replies that wait for nothing, beside Redis with `appendfsync everysec`,
//! at 64 connections; and the **exposure**: how old the oldest commit of a group was when the
//! group was durable. That is what a loss of power may take.
//!
//! INFO says the exposure of the last group only. So another connection asks for it every
//! 20 ms during SETs; the 99th percentile is that of what it saw. A group that took long is
//! seen more often than a short one, so the figure is too high rather than too low.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::Setup;
use super::client::{Client, checkpoint};
use super::disk::Disk;
use super::rows::{Rows, ask, best, note_refused, sample};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::{Answer, GET, Load, Results, SET, Server, fill};

const NAME: &str = "durability-async";
const SIZE: u32 = 16;
const PIPELINES: [u32; 2] = [1, 16];
const CONNECTIONS: u32 = 64;
const THREADS: u32 = 2;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Milliseconds that a loss of power may take.
const TARGET: f64 = 100.0;

/// Of SETs without and with pipelines, in milliseconds.
type Exposures = [Exposure; PIPELINES.len()];

#[derive(Default)]
struct Exposure {
    p99: Sample,
    longest: Sample,
}

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Table>> {
    let mut servers = vec![setup.bpfdb(&setup.place.disk("async"), &[])?];
    for (number, program) in setup.redis.iter().enumerate() {
        let folder = setup.place.disk(&format!("async-redis-{number}"));
        servers.push(everysec(program, &folder)?);
    }
    for server in &servers {
        fill(server, setup.plan.tcp_keys, SIZE)?;
    }
    checkpoint(&servers[0])?;
    let mut disk = Disk::new(&setup.place, setup.plan.quick)?;
    let (mut results, mut exposures) = (Results::default(), Exposures::default());
    let mut refused = 0;
    for round in 0..setup.plan.rounds {
        eprintln!("{NAME}: round {} of {}", round + 1, setup.plan.rounds);
        disk.look()?;
        run(
            setup.plan,
            &servers,
            &mut results,
            &mut exposures,
            &mut refused,
        )?;
    }
    let rows = Rows {
        name: NAME,
        subjects: servers.iter().map(|server| server.name.clone()).collect(),
        loads: loads(),
        results: &results,
    };
    let mut rates = rates(&rows, setup.plan, &exposures);
    let most = Client::new(&servers[0])?.figure("log_exposure_most_usec")? as f64 / 1e3;
    rates.note(format!(
        "exposure: log_exposure_usec of the last group, asked for every {} ms from another \
         connection; the longest since the server's start, filling included: {most:.1} ms",
        BETWEEN_LOOKS.as_millis()
    ));
    rates.note("bpfdb: default settings; Redis: appendonly yes, appendfsync everysec, rewrites of the file as by default");
    note_refused(&mut rates, refused);
    let tables = setup.tables(&rows, rates, &disk);
    drop(servers);
    setup.place.clear()?;
    Ok(tables)
}

fn everysec(program: &Path, folder: &Path) -> Result<Server> {
    Setup::redis(
        program,
        folder,
        &["--appendonly", "yes", "--appendfsync", "everysec"],
    )
}

fn loads() -> Vec<Load> {
    let load = |test, pipeline| Load {
        connections: CONNECTIONS,
        threads: THREADS,
        size: SIZE,
        pipeline,
        test,
    };
    (PIPELINES.iter())
        .flat_map(|&pipeline| [SET, GET].map(|test| load(test, pipeline)))
        .collect()
}

/// A round.
fn run(
    plan: &Plan,
    servers: &[Server],
    results: &mut Results,
    exposures: &mut Exposures,
    refused: &mut u32,
) -> Result<()> {
    for load in loads() {
        for (which, server) in servers.iter().enumerate() {
            let mut run = || ask(load, server, plan, refused);
            let answer = match exposure_of(load, exposures) {
                Some(exposure) if which == 0 => watched(server, exposure, run)?,
                _ => run()?,
            };
            results.add(load, which, answer);
        }
    }
    Ok(())
}

/// Only writers leave something exposed.
fn exposure_of(load: Load, exposures: &mut Exposures) -> Option<&mut Exposure> {
    let number = PIPELINES
        .iter()
        .position(|&pipeline| pipeline == load.pipeline)?;
    (load.test == SET).then(|| &mut exposures[number])
}

/// Looks at the exposure as long as `ask` lasts.
fn watched(
    server: &Server,
    exposure: &mut Exposure,
    ask: impl FnOnce() -> Result<Answer>,
) -> Result<Answer> {
    let mut client = Client::new(server)?;
    let over = AtomicBool::new(false);
    let mut looks = Vec::new();
    let answer = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            loop {
                thread::sleep(BETWEEN_LOOKS);
                looks.push(client.figure("log_exposure_usec")? as f64 / 1e3);
                if over.load(Ordering::Relaxed) {
                    return Ok::<_, anyhow::Error>(());
                }
            }
        });
        let answer = ask();
        over.store(true, Ordering::Relaxed);
        watch.join().map_err(|_| anyhow!("a thread failed"))??;
        answer
    })?;
    looks.sort_by(f64::total_cmp);
    exposure.p99.push(looks[(looks.len() - 1) * 99 / 100]);
    exposure
        .longest
        .push(*looks.last().context("no look at the exposure")?);
    Ok(answer)
}

fn rates(rows: &Rows<'_>, plan: &Plan, exposures: &Exposures) -> Table {
    let title = format!(
        "replies at once, log on the disk, thousands of requests per second: \
         redis-benchmark, keys: {}",
        plan.tcp_keys
    );
    let mut columns = rows.columns("");
    columns.extend(
        [
            "bpfdb over the better",
            "exposure, p99, ms",
            "longest, ms",
            "target for p99",
        ]
        .map(String::from),
    );
    let mut table = Table::new(NAME, title, &columns);
    for &load in &rows.loads {
        let rate = sample(&rows.results.rates, load, 0);
        let redis = best(&rows.results.rates, load, 1..rows.subjects.len());
        let mut cells = Rows::load_cells(load);
        cells.extend(rows.rate_cells(load));
        cells.push(Cell::figure(&rate.over(&redis), 2));
        let number = PIPELINES
            .iter()
            .position(|&pipeline| pipeline == load.pipeline);
        cells.extend(match number {
            Some(number) if load.test == SET => exposure_cells(&exposures[number]),
            _ => ["", "", ""].map(Cell::from),
        });
        table.row(cells);
    }
    table
}

fn exposure_cells(exposure: &Exposure) -> [Cell; 3] {
    [
        Cell::figure(&exposure.p99, 1),
        Cell::figure(&exposure.longest, 1),
        Cell::at_most_of(&exposure.p99, TARGET, "ms"),
    ]
}
