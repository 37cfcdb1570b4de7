//! Values in files: a server whose values go to files when memory is short, beside one that has memory for all
//! of them, and beside Redis, which evicts keys with the same memory.
//!
//! | table | |
//! |---|---|
//! | `tier` | rates of GET and SET, of a fiftieth of the keys and of all |
//! | `tier-latency` | their latencies |
//! | `tier-found` | how many of the keys that GET asked for were there; what that takes |

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bpfdb_apps::client::{Address, Client};

use crate::durability::Setup;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::{GET, Load, Results, SET, Server, fill};

/// Bytes of a value.
pub(super) const SIZE: u32 = 1024;
const CONNECTIONS: u32 = 64;
const THREADS: u32 = 2;
const PIPELINES: [u32; 2] = [1, 16];
/// Bytes of memory for each key: a key and the place of its value take half of it.
pub(super) const MEMORY: u64 = 384;
/// Of all keys those that are hot: one of so many.
const HOT: u32 = 50;
/// How long values may take to go to files.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);
/// The server with all values in memory, and the one with values in files.
const OURS: [&str; 2] = ["bpfdb, all in memory", "bpfdb, values in files"];
const IN_FILES: usize = 1;

pub(super) fn measure(plan: &Plan, setup: &Setup<'_>) -> Result<Vec<Table>> {
    let servers = start(setup, plan)?;
    let mut measured = Measured::new(servers.len());
    plan.repeat("tier", |_, is_warming| {
        measured.round(plan, &servers, is_warming)
    })?;
    let mut tables = measured.tables(plan, &servers)?;
    setup.note(&mut tables[0]);
    drop(servers);
    setup.place.clear()?;
    Ok(tables)
}

/// All of them have been given all keys.
fn start(setup: &Setup<'_>, plan: &Plan) -> Result<Vec<Server>> {
    let memory = u64::from(plan.tier_keys) * MEMORY;
    let limit = memory.to_string();
    let settings: [&[&str]; 2] = [&[], &["--tier", "--tier-memory", &limit]];
    let mut servers = Vec::new();
    for (name, settings) in OURS.into_iter().zip(settings) {
        let folder = setup.place.disk(&format!("tier-{}", servers.len()));
        let server = setup.bpfdb(&folder, settings)?.named(name);
        fill(&server, plan.tier_keys, SIZE)?;
        servers.push(server);
    }
    let used = until_in_files(&servers[IN_FILES], memory)?.to_string();
    for (n, program) in setup.redis.iter().enumerate() {
        let folder = setup.place.disk(&format!("tier-redis-{n}"));
        let settings = ["--maxmemory", &used, "--maxmemory-policy", "allkeys-lru"];
        let server = Setup::redis(program, &folder, &settings)?;
        fill(&server, plan.tier_keys, SIZE)?;
        servers.push(server);
    }
    Ok(servers)
}

/// Bytes of memory in use, when so many are enough, and a little more.
pub(super) fn until_in_files(server: &Server, memory: u64) -> Result<u64> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let used = figure(server, "memory", "used_memory")?;
        if used <= memory + memory / 8 {
            return Ok(used);
        }
        thread::sleep(PAUSE);
    }
    bail!("{}: values are still in memory", server.name)
}

/// A figure of INFO.
pub(super) fn figure(server: &Server, section: &str, name: &str) -> Result<u64> {
    let mut client = Client::connect(&Address::Tcp(server.address))?;
    let info = client.ask(&["INFO", section])?;
    let mut fields = info.text()?.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(known, _)| *known == name);
    let (_, value) = found.with_context(|| format!("INFO {section} has no {name}"))?;
    value.trim().parse().context(name.to_owned())
}

/// GETs that found their key, and that did not.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    hits: u64,
    misses: u64,
}

impl Found {
    fn of(server: &Server) -> Result<Self> {
        Ok(Self {
            hits: figure(server, "stats", "keyspace_hits")?,
            misses: figure(server, "stats", "keyspace_misses")?,
        })
    }

    fn add(&mut self, before: Self, after: Self) {
        self.hits += after.hits - before.hits;
        self.misses += after.misses - before.misses;
    }

    fn percent(self) -> f64 {
        self.hits as f64 * 100.0 / (self.hits + self.misses).max(1) as f64
    }
}

/// Of hot keys, and of all.
struct Measured {
    results: [Results; 2],
    /// Of each server, when GET asked for any key.
    found: Vec<Found>,
}

const KEYS: [&str; 2] = ["hot", "all"];
/// The first of these.
const HOT_KEYS: usize = 0;

fn keys(plan: &Plan, which: usize) -> u32 {
    [plan.tier_keys / HOT, plan.tier_keys][which]
}

fn loads() -> impl Iterator<Item = (usize, Load)> {
    let tests = [GET, SET].into_iter();
    let all = tests.flat_map(|test| PIPELINES.map(|pipeline| (test, pipeline)));
    let all = all.map(|(test, pipeline)| Load {
        connections: CONNECTIONS,
        threads: THREADS,
        size: SIZE,
        pipeline,
        test,
    });
    all.flat_map(|load| [(0, load), (1, load)])
}

impl Measured {
    fn new(servers: usize) -> Self {
        Self {
            results: [Results::default(), Results::default()],
            found: vec![Found::default(); servers],
        }
    }

    fn round(&mut self, plan: &Plan, servers: &[Server], is_warming: bool) -> Result<()> {
        for (of, load) in loads() {
            let requests = plan.tier_requests[usize::from(load.pipeline > 1)];
            for (which, server) in servers.iter().enumerate() {
                if of == HOT_KEYS {
                    // What came before has put other values in the place of these.
                    load.run(server, keys(plan, of), requests)?;
                }
                let before = Found::of(server)?;
                let answer = load.run(server, keys(plan, of), requests)?;
                if is_warming {
                    continue;
                }
                self.results[of].add(load, which, answer);
                if load.test == GET && of == 1 {
                    self.found[which].add(before, Found::of(server)?);
                }
            }
        }
        Ok(())
    }

    fn tables(&self, plan: &Plan, servers: &[Server]) -> Result<Vec<Table>> {
        let names = servers.iter().map(|server| server.name.as_str());
        let columns = |with: &[&'static str]| {
            let begin = ["request", "keys", "pipeline"];
            let columns = begin.into_iter().chain(names.clone());
            let columns = columns.chain(with.iter().copied());
            columns.map(str::to_owned).collect::<Vec<_>>()
        };
        let title = format!(
            "{} keys of {SIZE} B, {} B of memory a key; thousand requests a second",
            plan.tier_keys, MEMORY
        );
        let mut rates = Table::new("tier", title, &columns(&["files / memory"]));
        let title = "the same: latency at p50 / p99, µs";
        let mut latencies = Table::new("tier-latency", title, &columns(&[]));
        for (of, load) in loads() {
            let results = &self.results[of];
            let begin = [
                Cell::from(load.test.name.to_uppercase()),
                KEYS[of].into(),
                load.pipeline.into(),
            ];
            let samples = &results.rates[&load];
            let ratio = Cell::figure(&samples[IN_FILES].over(&samples[0]), 2);
            let row = begin.iter().cloned();
            let row = row.chain(samples.iter().map(Cell::thousands));
            rates.row(row.chain([ratio]));
            let pairs = results.p50[&load].iter().zip(&results.p99[&load]);
            let show = |(p50, p99): (&Sample, &Sample)| {
                Cell::from(format!("{:.0} / {:.0}", p50.median(), p99.median()))
            };
            latencies.row(begin.into_iter().chain(pairs.map(show)));
        }
        Ok(vec![rates, latencies, self.found(servers)?])
    }

    fn found(&self, servers: &[Server]) -> Result<Table> {
        let title = "any key is asked for";
        let columns = ["", "found %", "memory, MiB", "files of values, MiB"];
        let mut table = Table::new("tier-found", title, &columns);
        for (n, (server, found)) in servers.iter().zip(&self.found).enumerate() {
            let memory = figure(server, "memory", "used_memory")? >> 20;
            let files = match n {
                IN_FILES => (figure(server, "tier", "tier_file_bytes")? >> 20).to_string(),
                _ => "–".into(),
            };
            table.row([
                server.name.as_str().into(),
                format!("{:.1}", found.percent()).into(),
                memory.into(),
                files.into(),
            ]);
        }
        Ok(table)
    }
}
