//! `bpfdb serve` against Redis on the same processors, by redis-benchmark and a client of our own.

mod block;
mod fill;
mod load;
mod namespace;
mod path;
mod replies;
mod rivals;
mod sent;
mod server;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use crate::machine;
use crate::plan::Plan;
use crate::report::Table;
use crate::sample::Sample;
pub(crate) use block::{Batches, Clients, Replies, histogram, send};
pub(crate) use fill::{NO_ROOM, fill};
pub(crate) use load::{Answer, Asks, Load, Test};
pub(crate) use namespace::NetworkNamespace;
pub(crate) use path::{CONNECTIONS_MAX, GET, Path, SET};
pub(crate) use replies::Values;
pub(crate) use sent::{Sent, Writer};
pub(crate) use server::{Server, ends_with_us, own_folder};
pub(crate) use tables::better;

/// Of this program and of each that it starts: every connection is one, and some
/// are left for other things.
pub(crate) const DESCRIPTORS: u64 = CONNECTIONS_MAX as u64 + 1_000;

/// What was measured: of each load, by server.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) rates: BTreeMap<Load, Vec<Sample>>,
    pub(crate) p50: BTreeMap<Load, Vec<Sample>>,
    pub(crate) p99: BTreeMap<Load, Vec<Sample>>,
    pub(crate) cpu: BTreeMap<Load, Vec<Sample>>,
}

/// The tables of one way of a request; `other` is a redis-server to compare with
/// besides the one in PATH.
pub(crate) fn measure(
    plan: &Plan,
    path: Path,
    other: Option<&std::path::Path>,
) -> Result<Vec<Table>> {
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    let namespaces = path.namespaces()?;
    let ours = match Server::bpfdb(path.local_clients(), &namespaces, plan.quick) {
        Ok(ours) => ours,
        // The rest of the report is worth having.
        Err(error) => return Ok(vec![tables::skipped(path, &format!("{error:#}"))]),
    };
    let (rivals, note) = rivals(plan, other)?;
    let mut servers = vec![ours];
    for program in rivals {
        servers.push(Server::redis(&program, &namespaces)?);
    }
    let mut results = Results::default();
    for &size in path.sizes() {
        let keys = path::keys(plan, size);
        for server in &servers {
            eprintln!(
                "{}: {keys} keys of {size} B into {}",
                path.name(),
                server.name
            );
            fill(server, keys, size)?;
        }
        run(plan, path, size, &servers, &mut results)?;
    }
    let names = servers.iter().map(|server| server.name.clone()).collect();
    Ok(tables::all(plan, path, names, &results, note))
}

/// Each redis-server to compare with, and why there are not two.
pub(crate) fn rivals(
    plan: &Plan,
    other: Option<&std::path::Path>,
) -> Result<(Vec<PathBuf>, Option<String>)> {
    let mut programs = vec![rivals::installed()?];
    let mut note = None;
    match other.map_or_else(|| newest(plan), |path| Ok(path.to_owned())) {
        Ok(program) => programs.push(program),
        Err(error) => note = Some(format!("no second Redis: {error:#}")),
    }
    Ok((programs, note))
}

fn newest(plan: &Plan) -> Result<PathBuf> {
    anyhow::ensure!(!plan.quick, "a quick run installs nothing");
    rivals::newest()
}

fn run(
    plan: &Plan,
    path: Path,
    size: u32,
    servers: &[Server],
    results: &mut Results,
) -> Result<()> {
    for round in 0..plan.rounds {
        let (name, round) = (path.name(), round + 1);
        eprintln!("{name}, {size} B: round {round} of {}", plan.rounds);
        for row in path.rows(size, plan.quick) {
            for (which, server) in servers.iter().enumerate() {
                let load = row.load;
                let answer = load.run(server, load.keys(plan), load.requests(plan))?;
                results.add(load, which, answer);
            }
        }
    }
    Ok(())
}

impl Results {
    /// One load of server number `which`, once.
    pub(crate) fn add(&mut self, load: Load, which: usize, answer: Answer) {
        let figures = [
            (&mut self.rates, answer.per_second),
            (&mut self.p50, answer.p50_micros),
            (&mut self.p99, answer.p99_micros),
            (&mut self.cpu, answer.cpu_micros),
        ];
        for (samples, figure) in figures {
            let samples = samples.entry(load).or_default();
            samples.resize_with(samples.len().max(which + 1), Sample::default);
            samples[which].push(figure);
        }
    }
}
