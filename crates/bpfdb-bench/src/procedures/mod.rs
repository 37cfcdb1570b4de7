//! `procedures`: functions in Lua, which bpfdb runs in the kernel: called [`inside`] a process,
//! against the same in C; against Redis's FCALL; and what it costs others that there are
//! functions.
//!
//! ```text
//! inside.rs    procedures-inside:  a process beside the same in C
//! calls.rs     what is called
//! subject.rs   who is called, and the rounds
//! others.rs    procedures-others:  GET and SET beside functions
//! durable.rs   procedures-durable: Voter with a log, against Redis
//! peers/       procedures-peers:   against Tarantool and PostgreSQL
//! ```
//!
//! Every server gets the same calls from [`calls`], by the client of `tcp/block.rs`; PostgreSQL by
//! a client of its own. Before each measurement a store is emptied and filled anew, because votes
//! stay there.

mod calls;
mod durable;
mod inside;
mod others;
mod peers;
mod subject;
mod tables;

use std::path::Path;

use anyhow::Result;

use self::calls::Work;
use self::subject::{Calls, Contender, Measured, Subject, run};
use self::tables::Comparison;
use crate::machine;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::tcp::{DESCRIPTORS, NetworkNamespace, Server, rivals};

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

/// What is measured, and how many times the calls of the better rival are wanted.
#[derive(Clone, Copy, Debug)]
struct Row {
    work: Work,
    /// What `appendfsync` says, where it matters.
    fsync: Option<&'static str>,
    pipeline: u32,
    target: Option<f64>,
}

impl Row {
    const fn new(work: Work, pipeline: u32, target: Option<f64>) -> Self {
        Self {
            work,
            fsync: None,
            pipeline,
            target,
        }
    }

    /// What it is.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::from(self.work.name())];
        cells.extend(self.fsync.map(Cell::from));
        cells.push(self.pipeline.into());
        cells
    }
}

/// Hands each table to `keep`. `folder`: where logs go; `redis`: a redis-server to compare with
/// besides the one in PATH.
pub(crate) fn measure(
    plan: &Plan,
    folder: Option<&Path>,
    redis: Option<&Path>,
    keep: &mut dyn FnMut(Table),
) -> Result<()> {
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    keep(inside::measure(plan)?);
    if !Server::is_built()? {
        keep(tables::skipped("bpfdb is not built"));
        return Ok(());
    }
    for way in [Way::Tcp, Way::Local] {
        let tables = beside_redis(plan, way, redis)?;
        tables.into_iter().for_each(&mut *keep);
    }
    keep(others::measure(plan)?);
    let tables = [
        durable::measure(plan, folder, redis)?,
        peers::measure(plan)?,
    ];
    tables.into_iter().flatten().for_each(keep);
    Ok(())
}

fn beside_redis(plan: &Plan, way: Way, redis: Option<&Path>) -> Result<Vec<Table>> {
    let namespaces = [NetworkNamespace::here(), NetworkNamespace::here()];
    let bpfdb = Server::bpfdb(way.local_clients(), &namespaces, plan.quick)?;
    let mut subjects = vec![Box::new(Subject::in_the_kernel(bpfdb)?)];
    let (programs, note) = rivals(plan, redis)?;
    for program in programs {
        let server = Server::redis(&program, &namespaces)?;
        subjects.push(Box::new(Subject::new(server)?));
    }
    let rows = way.rows();
    let figures = run(plan, way.name(), &rows, &mut subjects)?;
    let comparison = Comparison {
        name: way.name(),
        heads: &["request", "-P"],
        servers: subjects.iter().map(|one| one.name().to_owned()).collect(),
        rows: &rows,
        figures: &figures,
    };
    let mut rates = comparison.rates(format!(
        "{}, thousands of requests per second: {CONNECTIONS} connections, phones: {}",
        way.title(),
        plan.tcp_keys
    ));
    tables::note_costs(&mut rates, plan);
    note.into_iter().for_each(|note| rates.note(note));
    Ok(vec![rates, comparison.latencies()])
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
        let targets = match self {
            Self::Tcp => [Some(1.15), Some(3.0), None, Some(1.8)],
            Self::Local => [Some(2.2), Some(4.0), Some(2.0), Some(3.0)],
        };
        vec![
            Row::new(Work::Voter, 1, targets[0]),
            Row::new(Work::Voter, 16, targets[1]),
            Row::new(Work::HotVoter, 1, None),
            Row::new(Work::HotVoter, 16, None),
            Row::new(Work::Extend, 1, targets[2]),
            Row::new(Work::Extend, 16, targets[3]),
            Row::new(Work::Lock, 1, targets[2]),
            Row::new(Work::Lock, 16, targets[3]),
            Row::new(Work::SmallBank, 1, None),
            Row::new(Work::SmallBank, 16, None),
            Row::new(Work::Tatp, 1, None),
            Row::new(Work::Tatp, 16, None),
            Row::new(Work::Board, 1, None),
            Row::new(Work::Board, 16, None),
            Row::new(Work::Queue, 1, None),
            Row::new(Work::Queue, 16, None),
        ]
    }
}
