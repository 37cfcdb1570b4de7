//! `tier-cold`: GET and MGET of values that are in files, read by the daemon, begun in the kernel, or answered there, too.

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
/// `tier-prefetch` and `tier-kernel-gets`.
const WAYS: [[&str; 2]; 3] = [["no", "no"], ["yes", "no"], ["yes", "yes"]];
/// Which of them.
const BY_DAEMON: usize = 0;
const BEGUN: usize = 1;
const ANSWERED: usize = 2;

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
                for which in 0..WAYS.len() {
                    cold.go(which)?;
                    evict(&cold.folder)?;
                    let before = cold.kernel_did()?;
                    let answer = load.run(&cold.server, plan.tier_keys, requests(plan, load))?;
                    if !is_warming {
                        cold.kernel_did()?.check(&before, which, load)?;
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
            "over the daemon",
            "answered there",
            "over the daemon",
            "latency, daemon",
            "latency, begun",
            "latency, answered",
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
                    Cell::figure(&rates[BY_DAEMON].map(|rate| rate / 1e3), 1),
                    Cell::figure(&rates[BEGUN].map(|rate| rate / 1e3), 1),
                    Cell::figure(&rates[BEGUN].over(&rates[BY_DAEMON]), 2),
                    Cell::figure(&rates[ANSWERED].map(|rate| rate / 1e3), 1),
                    Cell::figure(&rates[ANSWERED].over(&rates[BY_DAEMON]), 2),
                    latency(BY_DAEMON),
                    latency(BEGUN),
                    latency(ANSWERED),
                ]);
            }
        }
        table
    }
}

impl ColdServer {
    fn kernel_did(&self) -> Result<KernelDid> {
        Ok(KernelDid {
            begun: figure(&self.server, "tier", "tier_prefetches")?,
            answered: figure(&self.server, "tier", "tier_parked_answered")?,
        })
    }

    /// Has requests go one of the [`WAYS`].
    fn go(&self, which: usize) -> Result<()> {
        let mut client = Client::connect(&Address::Tcp(self.server.address))?;
        let [prefetch, gets] = WAYS[which];
        let set = [
            "CONFIG",
            "SET",
            "tier-prefetch",
            prefetch,
            "tier-kernel-gets",
            gets,
        ];
        let reply = client.ask(&set)?;
        ensure!(reply.text()? == "OK", "{set:?}");
        Ok(())
    }
}

/// How many reads the kernel has begun for requests that the daemon answered, and how many requests it has answered, ever.
struct KernelDid {
    begun: u64,
    answered: u64,
}

impl KernelDid {
    /// Is that what it should have done since `before`?
    fn check(&self, before: &Self, which: usize, load: Load) -> Result<()> {
        let has_begun = self.begun > before.begun;
        let has_answered = self.answered > before.answered;
        let is_right = match (which, load.test, load.pipeline) {
            (ANSWERED, GET, 1) => has_answered,
            // One that is alone may meet a checkpoint that reads.
            (_, GET, 1) if load.connections == 1 => !has_answered,
            _ => !has_answered && has_begun == (which != BY_DAEMON),
        };
        ensure!(
            is_right,
            "{load:?}: the kernel did not go the way {:?}",
            WAYS[which]
        );
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

/// As many values of each load.
fn requests(plan: &Plan, load: Load) -> u32 {
    match load.test {
        MGET => plan.tier_cold_requests / KEYS,
        _ => plan.tier_cold_requests,
    }
}
