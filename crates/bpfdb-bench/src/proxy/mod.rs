//! The proxy before PostgreSQL, beside others' and beside clients without a proxy.
//!
//! ```text
//! cgroup.rs    where PostgreSQL, the clients and the proxy are
//! subject.rs   each way from a client to the database
//! pooler.rs    the others: PgBouncer and Odyssey
//! series.rs    which ways are measured under which loads
//! ycsb.rs      a load besides pgbench's own
//! tables.rs    what was measured
//! ```
//!
//! A way is there only while it is measured: connections that begin beside the proxy's programs would be
//! looked at by them, too.
//!
//! PostgreSQL and the clients are in a network namespace of their own. A cable leads to another one, in which a proxy is
//! whose clients and whose database are elsewhere.

mod cgroup;
mod pooler;
mod series;
mod subject;
mod tables;
mod ycsb;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::machine;
use crate::plan::{Part, Plan};
use crate::postgres::{self, PgbenchAt, Postgres, Work};
use crate::report::Table;
use crate::sample::Sample;
use crate::tcp::{Answer, DESCRIPTORS, NetworkNamespace};
use cgroup::Cgroup;
use pooler::Poolers;
use series::Series;
use subject::{Ends, Subject};

/// Connections to the database that each proxy has.
const SERVERS: u32 = 16;
/// More than the database takes without a proxy.
const MANY: u32 = 1000;
const THREADS: u32 = 2;

/// What the clients do.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// One of pgbench's own, or [`ycsb`].
    script: &'static str,
    protocol: &'static str,
    clients: u32,
}

impl Load {
    /// pgbench prepares a client's statements by calls that wait, while other clients of the same thread are within
    /// transactions and have all connections to the database.
    fn waits_for_itself(self) -> bool {
        self.script == "tpcb-like" && self.protocol == "prepared" && self.clients > SERVERS
    }
}

/// Of one load, by subject.
#[derive(Default)]
struct Figures {
    rates: Vec<Sample>,
    p99: Vec<Sample>,
    /// Of the whole machine, and of the proxy's own process, µs a transaction.
    machine: Vec<Sample>,
    own: Vec<Sample>,
    /// Of a mirror: transactions that it has lost, %.
    lost: Vec<Sample>,
}

impl Figures {
    fn of(subjects: usize) -> Self {
        let samples = || vec![Sample::default(); subjects];
        Self {
            rates: samples(),
            p99: samples(),
            machine: samples(),
            own: samples(),
            lost: samples(),
        }
    }
}

/// The namespace of PostgreSQL and the clients, and the other one.
pub(crate) struct Networks {
    own: NetworkNamespace,
    elsewhere: NetworkNamespace,
}

pub(crate) fn measure(plan: &Plan, only: &[Part]) -> Result<Vec<Table>> {
    if !subject::is_built()? {
        return Ok(vec![tables::skipped("bpfdb-proxy is not built")]);
    }
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    let poolers = pooler::poolers(plan);
    let [elsewhere, own] = NetworkNamespace::veth_pair()?;
    let networks = Networks { own, elsewhere };
    networks
        .own
        .visit(|| measure_within(plan, only, &networks, &poolers))?
}

fn measure_within(
    plan: &Plan,
    only: &[Part],
    networks: &Networks,
    poolers: &Poolers,
) -> Result<Vec<Table>> {
    let cgroup = Cgroup::enter()?;
    let folder = tempfile::tempdir().context("create a folder")?;
    let postgres = start_postgres(plan, networks, folder.path())?;
    let mut all = series::chosen(plan, only, &cgroup, poolers);
    for round in 0..plan.rounds {
        eprintln!("proxy: round {} of {}", round + 1, plan.rounds);
        for series in &mut all {
            measure_once(plan, networks, &postgres, series)?;
        }
    }
    let mut tables = Vec::new();
    for series in &all {
        tables.extend(tables::of(plan, series));
    }
    Ok(tables)
}

/// With the tables of all loads, in the database of the clients and in that of a mirror.
fn start_postgres(plan: &Plan, networks: &Networks, folder: &Path) -> Result<Postgres> {
    let port = subject::free_port()?;
    let address = networks.own.address;
    let rules = folder.join("rules");
    let other = networks.elsewhere.address;
    let text = format!(
        "local all all trust\nhost all all 127.0.0.1/32 trust\nhost all all {other}/32 trust\n"
    );
    fs::write(&rules, text).context("write a file")?;
    postgres::give_away_file(&rules)?;
    let settings = [
        format!("listen_addresses=127.0.0.1,{address}"),
        format!("port={port}"),
        format!("hba_file={}", rules.display()),
        // What is measured is the way to it, and not its disk.
        "fsync=off".to_owned(),
    ];
    let settings = settings.each_ref().map(String::as_str);
    let postgres = Postgres::start(&folder.join("data"), &settings)?;
    postgres.fill_for_pgbench(plan.proxy_scale)?;
    let rows = i64::from(ycsb::ROWS * plan.proxy_scale);
    postgres.execute(ycsb::TABLE, &[("rows", rows)])?;
    let (from, to) = (postgres::USER, subject::MIRROR);
    postgres.ask(&format!("create database {to} template {from}"))?;
    Ok(postgres)
}

fn measure_once(
    plan: &Plan,
    networks: &Networks,
    postgres: &Postgres,
    series: &mut Series,
) -> Result<()> {
    for (load, figures) in series.loads.iter().zip(&mut series.figures) {
        for (which, subject) in series.subjects.iter().enumerate() {
            if !subject.can(*load) {
                continue;
            }
            let measured = || once(plan, networks, postgres, subject, *load);
            let measured = match subject.ends {
                Ends::Here => measured(),
                Ends::Elsewhere => networks.elsewhere.visit(measured)?,
            };
            figures.add(which, &measured?);
        }
    }
    Ok(())
}

/// Of one run.
struct Once {
    answer: Answer,
    own: Option<f64>,
    lost: Option<f64>,
}

impl Figures {
    fn add(&mut self, which: usize, once: &Once) {
        self.rates[which].push(once.answer.per_second);
        self.p99[which].push(once.answer.p99_micros);
        self.machine[which].push(once.answer.cpu_micros);
        for (figures, figure) in [(&mut self.own, once.own), (&mut self.lost, once.lost)] {
            if let Some(figure) = figure {
                figures[which].push(figure);
            }
        }
    }
}

fn once(
    plan: &Plan,
    networks: &Networks,
    postgres: &Postgres,
    subject: &Subject,
    load: Load,
) -> Result<Once> {
    let running = subject.start(networks, postgres)?;
    let before = running.processor_seconds()?;
    let (host, port) = running.address();
    let variables = [("rows", i64::from(ycsb::ROWS * plan.proxy_scale))];
    let answer = postgres.run_at(PgbenchAt {
        from: subject.clients(networks),
        host,
        port,
        work: match load.script {
            ycsb::NAME => Work::Scripts(&ycsb::SCRIPTS, &variables),
            script => Work::Builtin(script),
        },
        protocol: load.protocol,
        connections: load.clients,
        threads: THREADS.min(load.clients),
        seconds: plan.proxy_seconds,
    });
    let answer = answer.with_context(|| format!("{}: {load:?}", subject.name))?;
    let own = running.processor_seconds()? - before;
    let transactions = answer.per_second * plan.proxy_seconds as f64;
    Ok(Once {
        own: subject.is_proxy().then_some(own * 1e6 / transactions),
        lost: subject.lost(postgres, &running)?,
        answer,
    })
}
