//! `tier-cold`: GET of values that are in files, read by the daemon or begun in the kernel.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bpfdb_apps::client::{Address, Client};

use super::values::{MEMORY, SIZE, figure, until_in_files};
use crate::durability::Setup;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::tcp::{GET, Load, Results, Server, fill};

/// Connections, and requests that each sends at once.
const LOADS: [(u32, u32); 5] = [(1, 1), (16, 1), (64, 1), (1, 16), (16, 16)];
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
                    let answer = load.run(&cold.server, plan.tier_keys, plan.tier_cold_requests)?;
                    if !is_warming {
                        let has_begun = cold.begun()? > before;
                        ensure!(has_begun == (way == "yes"), "tier-prefetch {way}");
                        results.add(load, which, answer);
                    }
                }
            }
        }
        Ok(())
    }

    fn table(&self, plan: &Plan) -> Table {
        let title = format!(
            "GET of one of {} values of {SIZE} B in files that the page cache does not have; thousand requests a \
             second, and latency at p50 / p99, µs",
            plan.tier_keys
        );
        let columns = [
            "way",
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
    LOADS.into_iter().map(|(connections, pipeline)| Load {
        connections,
        threads: 1,
        size: SIZE,
        pipeline,
        test: GET,
    })
}

/// Takes the files of values out of the page cache.
fn evict(folder: &Path) -> Result<()> {
    let runs = folder.join("tier");
    let files = fs::read_dir(&runs).with_context(|| runs.display().to_string())?;
    for file in files {
        // It may have gone meanwhile.
        let Ok(file) = File::open(file?.path()) else {
            continue;
        };
        // SAFETY: plain system call on an open file.
        let refused =
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        ensure!(refused == 0, "the page cache keeps a file of values");
    }
    Ok(())
}
