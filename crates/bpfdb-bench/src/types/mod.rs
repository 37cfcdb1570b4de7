//! `types`: hashes, lists, sets, sorted sets and messages of the server, against Redis.
//!
//! ```text
//! requests.rs   what is asked for, and which rate is wanted
//! stock.rs      the collections that are there, and the memory that they take
//! rates.rs      the rounds of all requests:     types, types-local, types-large, types-others
//! erase.rs      DEL of a large hash, beside others:           types-delete
//! publish.rs    messages to subscribers:                      types-publish
//! hand_over.rs  from a push to the reply of the client that waits for it: types-blocking
//! jobs/         jobs of BullMQ and RQ:                        types-jobs
//! ordered.rs    rows of an ordered table, without a server:   types-ordered
//! tables.rs     what was measured, as tables
//! ```
//!
//! Small collections are those that bpfdb keeps in one record and answers for in the kernel. Of a
//! large one the kernel answers commands on one element, unless a page comes or goes, and the daemon the others.

mod erase;
mod hand_over;
mod jobs;
mod ordered;
mod publish;
mod rates;
mod requests;
mod stock;
mod tables;

use std::path::Path;

use anyhow::Result;
use bpfdb_apps::client::{Address, Client};

use self::requests::Row;
use self::stock::Stock;
use crate::machine;
use crate::plan::{Part, Plan};
use crate::report::Table;
use crate::tcp::{DESCRIPTORS, NetworkNamespace, Server, rivals};

const CONNECTIONS: u32 = 64;
const THREADS: u32 = 2;

/// How clients reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// TCP on loopback
    Tcp,
    /// Loopback, answered inside their send()
    Local,
}

impl Way {
    fn local_clients(self) -> &'static str {
        match self {
            Self::Tcp => "off",
            Self::Local => "auto",
        }
    }
}

/// Hands each table to `keep` when it is there. `only`: these parts, all if there is none; `redis`: a redis-server to
/// compare with besides the one in PATH.
pub(crate) fn measure(
    plan: &Plan,
    only: &[Part],
    redis: Option<&Path>,
    keep: &mut dyn FnMut(Table),
) -> Result<()> {
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    if !Server::is_built()? {
        keep(tables::skipped("bpfdb is not built"));
        return Ok(());
    }
    let parts = Part::chosen(&Part::TYPES, only);
    if parts.contains(&Part::Commands) || parts.contains(&Part::Queues) {
        through_tcp(plan, &parts, redis, keep)?;
    }
    if parts.contains(&Part::Ordered) {
        keep(tables::ordered(&ordered::measure(plan)?));
    }
    if parts.contains(&Part::Send) {
        in_send(plan, redis, keep)?;
    }
    Ok(())
}

fn in_send(plan: &Plan, redis: Option<&Path>, keep: &mut dyn FnMut(Table)) -> Result<()> {
    let (servers, note) = start(plan, Way::Local, redis)?;
    for server in &servers {
        stock::fill(server, &Stock::small(plan))?;
    }
    let small = requests::small(Way::Local);
    let title = "small collections, clients answered inside their send()";
    let [mut rates, latencies] = compare(plan, &servers, ("types-local", title), &small)?;
    note.into_iter().for_each(|note| rates.note(note));
    [rates, latencies].into_iter().for_each(keep);
    Ok(())
}

fn through_tcp(
    plan: &Plan,
    parts: &[Part],
    redis: Option<&Path>,
    keep: &mut dyn FnMut(Table),
) -> Result<()> {
    let (servers, note) = start(plan, Way::Tcp, redis)?;
    if parts.contains(&Part::Commands) {
        commands(plan, &servers, note, keep)?;
    }
    if parts.contains(&Part::Queues) {
        keep(tables::jobs(&servers, &jobs::measure(plan, &servers)?));
    }
    if parts.contains(&Part::Commands) {
        let erased = erase::measure(plan, &servers)?;
        keep(tables::erased(plan, &servers, &erased));
    }
    Ok(())
}

/// Rates of commands, memory, and messages. `note`: why there are not two servers of Redis.
fn commands(
    plan: &Plan,
    servers: &[Server],
    note: Option<String>,
    keep: &mut dyn FnMut(Table),
) -> Result<()> {
    let stocks = Stock::all(plan);
    let memory = servers.iter().map(|server| stock::fill(server, &stocks));
    let memory = memory.collect::<Result<Vec<_>>>()?;
    keep(tables::memory(servers, &stocks, &memory));

    let small = requests::small(Way::Tcp);
    let title = "small collections, through TCP on loopback";
    let [mut rates, latencies] = compare(plan, servers, ("types", title), &small)?;
    note.into_iter().for_each(|note| rates.note(note));
    [rates, latencies].into_iter().for_each(&mut *keep);

    let title = format!(
        "one element of a collection of {}, through TCP on loopback",
        plan.elements
    );
    let large = compare(plan, servers, ("types-large", &title), &requests::large())?;
    large.into_iter().for_each(&mut *keep);

    let title = "other commands and other types, through TCP on loopback";
    let others = compare(plan, servers, ("types-others", title), &requests::others())?;
    others.into_iter().for_each(&mut *keep);
    keep(tables::published(
        servers,
        &publish::measure(plan, servers)?,
    ));
    keep(tables::handed_over(
        servers,
        &hand_over::measure(plan, servers)?,
    ));
    Ok(())
}

/// The rates of these rows, and their latencies.
fn compare(
    plan: &Plan,
    servers: &[Server],
    (name, title): (&str, &str),
    rows: &[Row],
) -> Result<[Table; 2]> {
    let (figures, failures) = rates::measure(plan, servers, name, rows)?;
    let mut rates = tables::rates(name, title, servers, rows, &figures);
    failures.into_iter().for_each(|failure| rates.note(failure));
    let latencies = tables::latencies(name, servers, rows, &figures);
    Ok([rates, latencies])
}

/// The servers, bpfdb first, and why there are not two of Redis.
fn start(plan: &Plan, way: Way, redis: Option<&Path>) -> Result<(Vec<Server>, Option<String>)> {
    let namespaces = [NetworkNamespace::here(), NetworkNamespace::here()];
    let mut servers = vec![Server::bpfdb(way.local_clients(), &namespaces, plan.quick)?];
    let (programs, note) = rivals(plan, redis)?;
    for program in programs {
        servers.push(Server::redis(&program, &namespaces)?);
    }
    Ok((servers, note))
}

/// A connection for what is asked one by one.
fn client(server: &Server) -> Result<Client> {
    Client::connect(&Address::Tcp(server.address))
}
