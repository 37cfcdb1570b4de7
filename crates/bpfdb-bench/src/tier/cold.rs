//! `tier-cold`: GET and MGET of values that are in files, read by the daemon or begun in the kernel.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use bpfdb_apps::client::{Address, Client};

use super::page_cache::evict;
use super::values::{MEMORY, SIZE, figure, until_in_files};
use crate::durability::Setup;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::tcp::{Asks, GET, Load, Results, Server, Test, fill};

/// Keys of an MGET: those of this four times.
macro_rules! keys {
    () => {
        " key:__rand_int__ key:__rand_int__ key:__rand_int__ key:__rand_int__ \
         key:__rand_int__ key:__rand_int__ key:__rand_int__ key:__rand_int__"
    };
}

const KEYS: u32 = 32;
const MGET: Test = Test {
    name: "mget",
    asks: Asks::Benchmark(concat!("MGET", keys!(), keys!(), keys!(), keys!())),
};

/// Connections, and requests that each sends at once. The first one is of one client that asks for one value: no
/// read begins before it then.
const LOADS: [(Test, u32, u32); 8] = [
    (GET, 1, 1),
    (GET, 16, 1),
    (GET, 64, 1),
    (GET, 1, 16),
    (GET, 16, 16),
    (GET, 64, 16),
    (MGET, 1, 1),
    (MGET, 16, 1),
];
/// By `tier-prefetch`.
const WAYS: [&str; 2] = ["no", "yes"];

/// Servers that have nearly all values in files.
struct Cold {
    servers: Vec<ColdServer>,
    /// Of each server.
    results: Vec<Results>,
}

struct ColdServer {
    server: Server,
    folder: PathBuf,
}

pub(super) fn measure(plan: &Plan, setup: &Setup<'_>) -> Result<Table> {
    let mut cold = Cold::start(setup, plan)?;
    plan.repeat("tier-cold", |_, is_warming| cold.round(plan, is_warming))?;
    let table = cold.table(plan);
    drop(cold);
    setup.place.clear()?;
    Ok(table)
}

impl Cold {
    fn start(setup: &Setup<'_>, plan: &Plan) -> Result<Self> {
        // All memory that there must be, so that what is read stays in files.
        let memory = u64::from(plan.tier_keys) * MEMORY / 2;
        let limit = memory.to_string();
        let settings = ["--tier", "--tier-memory", limit.as_str()];
        let mut servers = Vec::new();
        for (name, local) in [("send()", "auto"), ("loopback", "off")] {
            let folder = setup.place.disk(&format!("tier-cold-{local}"));
            let server = setup.bpfdb_for(local, &folder, &settings)?.named(name);
            fill(&server, plan.tier_keys, SIZE)?;
            until_in_files(&server, u64::from(plan.tier_keys) * MEMORY)?;
            servers.push(ColdServer { server, folder });
        }
        let results = servers.iter().map(|_| Results::default()).collect();
        Ok(Self { servers, results })
    }

    fn round(&mut self, plan: &Plan, is_warming: bool) -> Result<()> {
        for (cold, results) in self.servers.iter().zip(&mut self.results) {
            for load in loads() {
                for (which, way) in WAYS.into_iter().enumerate() {
                    cold.prefetch(way)?;
                    evict(&cold.folder)?;
                    let before = cold.begun()?;
                    let answer = load.run(&cold.server, plan.tier_keys, requests(plan, load))?;
                    if !is_warming {
                        let has_begun = cold.begun()? > before;
                        // One that is alone may meet a checkpoint that reads.
                        let is_right = has_begun == (way == "yes") || is_alone(load);
                        ensure!(is_right, "{load:?}: tier-prefetch {way}");
                        results.add(load, which, answer);
                    }
                }
            }
        }
        Ok(())
    }

    fn table(&self, plan: &Plan) -> Table {
        let title = format!(
            "GET of one of {} values of {SIZE} B in files that the page cache does not have, and MGET of {KEYS}; thousand \
             requests a second, and latency at p50 / p99, µs",
            plan.tier_keys
        );
        let columns = [
            "way",
            "request",
            "clients",
            "pipeline",
            "read by the daemon",
            "begun in the kernel",
            "ratio",
            "latency, daemon",
            "latency, kernel",
        ];
        let mut table = Table::new("tier-cold", title, &columns);
        for (cold, results) in self.servers.iter().zip(&self.results) {
            for load in loads() {
                let rates = &results.rates[&load];
                let latency = |way: usize| {
                    let (p50, p99) = (&results.p50[&load][way], &results.p99[&load][way]);
                    Cell::from(format!("{:.0} / {:.0}", p50.median(), p99.median()))
                };
                table.row([
                    cold.server.name.as_str().into(),
                    load.test.name.to_uppercase().into(),
                    load.connections.into(),
                    load.pipeline.into(),
                    Cell::figure(&rates[0].map(|rate| rate / 1e3), 1),
                    Cell::figure(&rates[1].map(|rate| rate / 1e3), 1),
                    Cell::figure(&rates[1].over(&rates[0]), 2),
                    latency(0),
                    latency(1),
                ]);
            }
        }
        table
    }
}

impl ColdServer {
    /// Reads that the kernel has begun, ever.
    fn begun(&self) -> Result<u64> {
        figure(&self.server, "tier", "tier_prefetches")
    }

    fn prefetch(&self, way: &str) -> Result<()> {
        let mut client = Client::connect(&Address::Tcp(self.server.address))?;
        let reply = client.ask(&["CONFIG", "SET", "tier-prefetch", way])?;
        ensure!(reply.text()? == "OK", "CONFIG SET tier-prefetch {way}");
        Ok(())
    }
}

fn loads() -> impl Iterator<Item = Load> {
    LOADS.into_iter().map(|(test, connections, pipeline)| Load {
        connections,
        threads: 1,
        size: SIZE,
        pipeline,
        test,
    })
}

fn is_alone(load: Load) -> bool {
    (load.test, load.connections, load.pipeline) == LOADS[0]
}

/// As many values of each load.
fn requests(plan: &Plan, load: Load) -> u32 {
    match load.test {
        MGET => plan.tier_cold_requests / KEYS,
        _ => plan.tier_cold_requests,
    }
}
