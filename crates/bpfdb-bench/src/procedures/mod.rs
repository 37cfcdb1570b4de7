//! `procedures`: functions in Lua, which bpfdb runs in the kernel: called [`inside`] a process,
//! against the same in C; against Redis's FCALL; and what it costs others that there are
//! functions.
//!
//! Every server gets the same calls from [`calls`], by the client of `tcp/block.rs`. Before each
//! measurement a store is emptied and filled anew, because votes stay there.

mod calls;
mod inside;
mod others;
mod tables;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bpfdb_apps::client::{Address, Client};
use bpfdb_apps::procedures::{procedures, wait_for_kernel};

use self::calls::{Sent, Work};
use crate::machine;
use crate::plan::Plan;
use crate::report::Table;
use crate::sample::Sample;
use crate::tcp::{Answer, Clients, DESCRIPTORS, NetworkNamespace, Server, rivals, send};

const CONNECTIONS: u32 = 64;
const THREADS: u32 = 2;
/// Requests of [`Plan::tcp_requests`] in the place of each of which there is one call.
const SHARE: u32 = 2;

/// How clients reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tcp,
    Local,
}

/// What is measured, and how many times the calls of the better Redis are wanted.
#[derive(Clone, Copy, Debug)]
struct Row {
    work: Work,
    pipeline: u32,
    target: Option<f64>,
}

/// Of a row, by server.
#[derive(Default)]
struct Figures {
    rates: Vec<Sample>,
    p50: Vec<Sample>,
    p99: Vec<Sample>,
    cpu: Vec<Sample>,
    /// Of bpfdb: attempts that were repeated, and calls of the daemon, of a thousand calls.
    repeated: Sample,
    left: Sample,
}

/// The tables; `other` is a redis-server to compare with besides the one in PATH.
pub(crate) fn measure(plan: &Plan, other: Option<&Path>) -> Result<Vec<Table>> {
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    let mut tables = vec![inside::measure(plan)?];
    if !Server::is_built()? {
        tables.push(tables::skipped("bpfdb is not built"));
        return Ok(tables);
    }
    for way in [Way::Tcp, Way::Local] {
        tables.extend(beside_redis(plan, way, other)?);
    }
    tables.push(others::measure(plan)?);
    Ok(tables)
}

fn beside_redis(plan: &Plan, way: Way, other: Option<&Path>) -> Result<Vec<Table>> {
    let namespaces = [NetworkNamespace::here(), NetworkNamespace::here()];
    let mut servers = vec![Server::bpfdb(way.local_clients(), &namespaces, plan.quick)?];
    let (programs, note) = rivals(plan, other)?;
    for program in programs {
        servers.push(Server::redis(&program, &namespaces)?);
    }
    let mut subjects = servers.iter().map(Subject::new);
    let mut subjects = subjects.by_ref().collect::<Result<Vec<_>>>()?;
    for (which, subject) in subjects.iter_mut().enumerate() {
        for library in calls::libraries() {
            subject.client.load_library(library)?;
        }
        if which == 0 {
            wait_for_kernel(&mut subject.client)?;
        }
    }
    let rows = way.rows();
    let mut figures: Vec<Figures> = rows.iter().map(|_| Figures::default()).collect();
    for round in 0..plan.rounds {
        eprintln!("{}: round {} of {}", way.name(), round + 1, plan.rounds);
        for (row, figures) in rows.iter().zip(&mut figures) {
            for (which, subject) in subjects.iter_mut().enumerate() {
                subject.measure(plan, row, which, figures)?;
            }
        }
    }
    let names = servers.iter().map(|server| server.name.clone()).collect();
    Ok(tables::beside_redis(
        plan, way, names, &rows, &figures, note,
    ))
}

/// A server, and a connection for what is not measured.
struct Subject<'a> {
    server: &'a Server,
    client: Client,
}

impl<'a> Subject<'a> {
    fn new(server: &'a Server) -> Result<Self> {
        let client = Client::connect(&Address::Tcp(server.address))?;
        Ok(Self { server, client })
    }

    /// Bpfdb is number 0.
    fn measure(
        &mut self,
        plan: &Plan,
        row: &Row,
        which: usize,
        figures: &mut Figures,
    ) -> Result<()> {
        let context = || format!("{} of {}", row.work.name(), self.server.name);
        self.client.ask(&["FLUSHALL"]).with_context(context)?;
        row.work.fill(plan, &mut self.client)?;
        let requests = plan.tcp_requests[usize::from(row.pipeline > 1)] / SHARE;
        let before = if which == 0 { self.counters()? } else { [0; 2] };
        let clients = Clients {
            connections: CONNECTIONS,
            threads: THREADS,
            pipeline: row.pipeline,
        };
        let answer = send(self.server, clients, requests, |seed| {
            Sent::new(plan, row.work, row.pipeline, seed)
        });
        let answer =
            answer.with_context(|| format!("{} of {}", row.work.name(), self.server.name))?;
        figures.add(which, answer);
        if which == 0 {
            let sent = requests / row.pipeline / THREADS * row.pipeline * THREADS;
            let calls = f64::from(sent * row.work.functions());
            let [answered, repeated] = self.counters()?;
            let answered = (answered - before[0]) as f64;
            ensure!(answered > 0.0, "the kernel has answered no call");
            figures.left.push((calls - answered) / calls * 1000.0);
            let repeated = (repeated - before[1]) as f64;
            figures.repeated.push(repeated / calls * 1000.0);
        }
        Ok(())
    }

    /// Calls that the kernel has answered, and attempts that were repeated.
    fn counters(&mut self) -> Result<[u64; 2]> {
        let mut sums = [0; 2];
        for one in procedures(&mut self.client)?.values() {
            sums[0] += one.calls;
            sums[1] += one.conflicts;
        }
        Ok(sums)
    }
}

impl Figures {
    fn add(&mut self, which: usize, answer: Answer) {
        for (samples, figure) in [
            (&mut self.rates, answer.per_second),
            (&mut self.p50, answer.p50_micros),
            (&mut self.p99, answer.p99_micros),
            (&mut self.cpu, answer.cpu_micros),
        ] {
            samples.resize_with(samples.len().max(which + 1), Sample::default);
            samples[which].push(figure);
        }
    }
}

impl Way {
    /// Of its tables.
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "procedures",
            Self::Local => "procedures-local",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Tcp => "FCALL through TCP on loopback",
            Self::Local => "FCALL by clients of this machine, answered inside their send()",
        }
    }

    fn local_clients(self) -> &'static str {
        match self {
            Self::Tcp => "off",
            Self::Local => "auto",
        }
    }

    fn rows(self) -> Vec<Row> {
        let row = |work, pipeline, target| Row {
            work,
            pipeline,
            target,
        };
        let targets = match self {
            Self::Tcp => [Some(1.15), Some(3.0), None, Some(1.8)],
            Self::Local => [Some(2.2), Some(4.0), Some(2.0), Some(3.0)],
        };
        vec![
            row(Work::Voter, 1, targets[0]),
            row(Work::Voter, 16, targets[1]),
            row(Work::HotVoter, 1, None),
            row(Work::HotVoter, 16, None),
            row(Work::Extend, 1, targets[2]),
            row(Work::Extend, 16, targets[3]),
            row(Work::Lock, 1, targets[2]),
            row(Work::Lock, 16, targets[3]),
            row(Work::SmallBank, 1, None),
            row(Work::SmallBank, 16, None),
        ]
    }
}
