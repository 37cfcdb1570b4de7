//! The proxy before PostgreSQL, beside PgBouncer and beside clients without a proxy.
//!
//! ```text
//! cgroup.rs    where PostgreSQL, the clients and the proxy are
//! subject.rs   each way from a client to the database
//! ycsb.rs      a load besides pgbench's own
//! tables.rs    what was measured
//! ```
//!
//! A way is there only while it is measured: connections that begin beside the proxy's programs would be
//! looked at by them, too.

mod cgroup;
mod subject;
mod tables;
mod ycsb;

use anyhow::{Context, Result};

use crate::machine;
use crate::plan::Plan;
use crate::postgres::{PgbenchAt, Postgres, Work};
use crate::report::Table;
use crate::sample::Sample;
use crate::tcp::DESCRIPTORS;
use cgroup::Cgroup;
use subject::Subject;

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

const CLIENTS: [u32; 3] = [1, 16, 64];
const PGBENCH: [&str; 2] = ["select-only", "tpcb-like"];

fn loads(quick: bool) -> Vec<Load> {
    let load = |script, protocol, clients| Load {
        script,
        protocol,
        clients,
    };
    if quick {
        return ["select-only", ycsb::NAME]
            .map(|script| load(script, "simple", 4))
            .into();
    }
    let mut all = Vec::new();
    let mut with = |script, protocols: &[&'static str]| {
        for protocol in protocols {
            all.extend(CLIENTS.map(|clients| load(script, protocol, clients)));
        }
    };
    for script in PGBENCH {
        with(script, &["simple", "extended", "prepared"]);
    }
    with(ycsb::NAME, &["simple", "prepared"]);
    all.push(load("select-only", "simple", MANY));
    all.retain(|load| !load.waits_for_itself());
    all
}

/// Of one load, by subject.
#[derive(Default)]
struct Figures {
    rates: Vec<Sample>,
    p99: Vec<Sample>,
    /// Of the whole machine, and of the proxy's own process, µs a transaction.
    machine: Vec<Sample>,
    own: Vec<Sample>,
}

impl Figures {
    fn of(subjects: usize) -> Self {
        let samples = || vec![Sample::default(); subjects];
        Self {
            rates: samples(),
            p99: samples(),
            machine: samples(),
            own: samples(),
        }
    }
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Table>> {
    if !subject::is_built()? {
        return Ok(vec![tables::skipped("bpfdb-proxy is not built")]);
    }
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    let cgroup = Cgroup::enter()?;
    let folder = tempfile::tempdir().context("create a folder")?;
    let port = subject::free_port()?;
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        // What is measured is the way to it, and not its disk.
        "fsync=off".to_owned(),
    ];
    let settings = settings.each_ref().map(String::as_str);
    let postgres = Postgres::start(&folder.path().join("data"), &settings)?;
    postgres.fill_for_pgbench(plan.proxy_scale)?;
    let rows = i64::from(ycsb::ROWS * plan.proxy_scale);
    postgres.execute(ycsb::TABLE, &[("rows", rows)])?;
    let subjects = subject::all(&cgroup);
    let loads = loads(plan.quick);
    let mut figures: Vec<Figures> = loads.iter().map(|_| Figures::of(subjects.len())).collect();
    for round in 0..plan.rounds {
        eprintln!("proxy: round {} of {}", round + 1, plan.rounds);
        for (load, figures) in loads.iter().zip(&mut figures) {
            for (which, subject) in subjects.iter().enumerate() {
                if subject.can(*load) {
                    once(plan, &postgres, subject, *load, which, figures)?;
                }
            }
        }
    }
    Ok(tables::all(plan, &subjects, &loads, &figures))
}

fn once(
    plan: &Plan,
    postgres: &Postgres,
    subject: &Subject,
    load: Load,
    which: usize,
    figures: &mut Figures,
) -> Result<()> {
    let running = subject.start(postgres)?;
    let before = running.processor_seconds()?;
    let (host, port) = running.address();
    let variables = [("rows", i64::from(ycsb::ROWS * plan.proxy_scale))];
    let answer = postgres.run_at(PgbenchAt {
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
    figures.rates[which].push(answer.per_second);
    figures.p99[which].push(answer.p99_micros);
    figures.machine[which].push(answer.cpu_micros);
    if subject.is_proxy() {
        let transactions = answer.per_second * plan.proxy_seconds as f64;
        figures.own[which].push(own * 1e6 / transactions);
    }
    Ok(())
}
