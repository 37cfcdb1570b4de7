//! `bpfdb serve` against Redis on the same processors, by redis-benchmark.

mod client;
mod rivals;
mod server;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use client::{Load, fill};
use server::Server;

const SIZES: [u32; 2] = [16, 1024];
const PIPELINES: [u32; 2] = [1, 16];

#[derive(Default)]
struct Results {
    rates: BTreeMap<(Load, usize), Sample>,
    p50: BTreeMap<(Load, usize), Sample>,
    p99: BTreeMap<(Load, usize), Sample>,
    cpu: BTreeMap<(Load, usize), Sample>,
}

/// Tests of redis-benchmark, and how many times the requests of Redis bpfdb is
/// to answer at least: at pipeline 1 and 16.
fn tests(size: u32, quick: bool) -> &'static [(&'static str, Option<[f64; 2]>)] {
    const GOAL: Option<[f64; 2]> = Some([1.0, 1.5]);
    match (size, quick) {
        (_, true) => &[("set", GOAL)],
        (16, _) => &[("set", GOAL), ("get", GOAL), ("incr", None), ("mset", None)],
        _ => &[("set", GOAL), ("get", GOAL)],
    }
}

pub(crate) fn measure(plan: &Plan, other: Option<&Path>) -> Result<Vec<Table>> {
    let mut notes = Vec::new();
    let ours = match Server::bpfdb(plan.quick) {
        Ok(ours) => ours,
        // The rest of the report is worth having.
        Err(error) => return Ok(vec![skipped(&format!("{error:#}"))]),
    };
    let mut servers = vec![ours, Server::redis(&rivals::installed()?)?];
    match other.map_or_else(|| newest(plan), |path| Ok(path.to_owned())) {
        Ok(path) => servers.push(Server::redis(&path)?),
        Err(error) => notes.push(format!("no second Redis: {error:#}")),
    }
    let mut results = Results::default();
    for size in SIZES {
        for server in &servers {
            eprintln!(
                "tcp: {} keys of {size} B into {}",
                plan.tcp_keys, server.name
            );
            fill(server, plan.tcp_keys, size)?;
        }
        run(plan, size, &servers, &mut results)?;
    }
    let cost = |name, title, figures, digits| costs(name, title, figures, digits, &servers, plan);
    let mut tables = vec![
        rates(&results, &servers, plan),
        cost("tcp-p50", "their median latency, µs", &results.p50, 0),
        cost("tcp-p99", "their 99th percentile, µs", &results.p99, 0),
        cost(
            "tcp-processor",
            "processor time of the whole machine per request, client included, µs",
            &results.cpu,
            2,
        ),
    ];
    for note in notes {
        tables[0].note(note);
    }
    Ok(tables)
}

fn newest(plan: &Plan) -> Result<std::path::PathBuf> {
    anyhow::ensure!(!plan.quick, "a quick run installs nothing");
    rivals::newest()
}

fn skipped(reason: &str) -> Table {
    let mut table = Table::new("tcp", "against Redis: not measured", &[""]);
    table.note(reason);
    table
}

fn loads(size: u32, quick: bool) -> Vec<(Load, Option<f64>)> {
    let mut loads = Vec::new();
    for (column, pipeline) in PIPELINES.into_iter().enumerate() {
        loads.extend(tests(size, quick).iter().map(|&(test, goals)| {
            let load = Load {
                size,
                pipeline,
                test,
            };
            (load, goals.map(|goals| goals[column]))
        }));
    }
    loads
}

fn run(plan: &Plan, size: u32, servers: &[Server], results: &mut Results) -> Result<()> {
    for round in 0..plan.rounds {
        eprintln!("tcp, {size} B: round {} of {}", round + 1, plan.rounds);
        for (load, _) in loads(size, plan.quick) {
            let requests = requests(plan, load);
            for (which, server) in servers.iter().enumerate() {
                let answer = load.run(server, plan.tcp_keys, requests)?;
                let point = (load, which);
                let push = |samples: &mut BTreeMap<_, Sample>, figure| {
                    samples.entry(point).or_default().push(figure);
                };
                push(&mut results.rates, answer.per_second);
                push(&mut results.p50, answer.p50_micros);
                push(&mut results.p99, answer.p99_micros);
                push(&mut results.cpu, answer.cpu_micros);
            }
        }
    }
    Ok(())
}

/// MSET has ten keys per request.
fn requests(plan: &Plan, load: Load) -> u32 {
    let requests = plan.tcp_requests[usize::from(load.pipeline > 1)];
    if load.test == "mset" {
        requests / 4
    } else {
        requests
    }
}

fn rates(results: &Results, servers: &[Server], plan: &Plan) -> Table {
    let mut columns: Vec<String> = LOAD_COLUMNS.map(String::from).into();
    columns.push(servers[0].name.clone());
    for rival in &servers[1..] {
        columns.extend([rival.name.clone(), "bpfdb over it".into(), "target".into()]);
    }
    let mut table = Table::new(
        "tcp",
        format!(
            "thousands of requests per second: redis-benchmark --threads 2 -c 64 -r {}",
            plan.tcp_keys
        ),
        &columns,
    );
    for (load, goal) in all_loads(plan) {
        let ours = &results.rates[&(load, 0)];
        let mut row = load_cells(load);
        row.push(Cell::thousands(ours));
        for which in 1..servers.len() {
            let theirs = &results.rates[&(load, which)];
            let ratio = ours.over(theirs);
            row.push(Cell::thousands(theirs));
            row.push(Cell::figure(&ratio, 2));
            row.push(goal.map_or("".into(), |limit| Cell::at_least(&ratio, limit)));
        }
        table.row(row);
    }
    table
}

/// One column for each server.
fn costs(
    name: &'static str,
    title: &str,
    figures: &BTreeMap<(Load, usize), Sample>,
    digits: usize,
    servers: &[Server],
    plan: &Plan,
) -> Table {
    let mut columns: Vec<String> = LOAD_COLUMNS.map(String::from).into();
    columns.extend(servers.iter().map(|server| server.name.clone()));
    let mut table = Table::new(name, title, &columns);
    for (load, _) in all_loads(plan) {
        let mut row = load_cells(load);
        row.extend((0..servers.len()).map(|which| Cell::figure(&figures[&(load, which)], digits)));
        table.row(row);
    }
    table
}

const LOAD_COLUMNS: [&str; 3] = ["-t", "-d", "-P"];

fn load_cells(load: Load) -> Vec<Cell> {
    vec![load.test.into(), load.size.into(), load.pipeline.into()]
}

fn all_loads(plan: &Plan) -> impl Iterator<Item = (Load, Option<f64>)> {
    let quick = plan.quick;
    SIZES.into_iter().flat_map(move |size| loads(size, quick))
}
