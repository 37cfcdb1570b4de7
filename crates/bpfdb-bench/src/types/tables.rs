//! Tables of the measured values. The first server is bpfdb, all others are Redis.

use super::erase::Erased;
use super::hand_over::HandOvers;
use super::jobs::APPLICATIONS;
use super::ordered::{Rows, Step};
use super::publish::SUBSCRIBERS;
use super::rates::Figures;
use super::requests::Row;
use super::stock::Stock;
use super::{CONNECTIONS, THREADS};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::{Server, better};

/// Of a large collection that is deleted: milliseconds, and those of another client.
const ERASED_MILLIS: f64 = 1.0;
const OTHERS_MILLIS: f64 = 2.0;
/// Queues of others.
const JOBS: f64 = 1.3;
/// What a row that comes may take beyond a record in no table, and a key of a scan in the kernel, nanoseconds.
const INDEX_NANOS: f64 = 1_000.0;
const SCAN_NANOS: f64 = 100.0;
/// Messages, which are the daemon's.
const PUBLISHED: f64 = 0.8;

pub(super) fn skipped(reason: &str) -> Table {
    Table::skipped("types", "hashes, lists and sets", reason)
}

pub(super) fn rates(
    name: &str,
    title: &str,
    servers: &[Server],
    rows: &[Row],
    figures: &[Figures],
) -> Table {
    let title = format!(
        "{title}, thousands of requests per second: {CONNECTIONS} connections, {THREADS} threads"
    );
    let mut columns = columns(&["request", "-P"], &[""], servers);
    columns.extend(["bpfdb over the better", "target"].map(String::from));
    let mut table = Table::new(name, title, &columns);
    for (row, figures) in rows.iter().zip(figures) {
        let mut cells = row_cells(row);
        cells.extend(figures.rates.iter().map(Cell::thousands));
        cells.extend(at_least(&figures.rates, row.target));
        table.row(cells);
    }
    table
}

/// As the client sees them, and the processor time.
pub(super) fn latencies(
    name: &str,
    servers: &[Server],
    rows: &[Row],
    figures: &[Figures],
) -> Table {
    let title = "their latencies, µs, and processor time of the whole machine per request, client \
                 included, µs";
    let columns = columns(&["request", "-P"], &["p50 ", "p99 ", "processor "], servers);
    let mut table = Table::new(format!("{name}-latency"), title, &columns);
    for (row, figures) in rows.iter().zip(figures) {
        let mut cells = row_cells(row);
        for (samples, digits) in [(&figures.p50, 0), (&figures.p99, 0), (&figures.cpu, 2)] {
            cells.extend(samples.iter().map(|sample| Cell::figure(sample, digits)));
        }
        table.row(cells);
    }
    table
}

/// `bytes`: of each server, of each stock.
pub(super) fn memory(servers: &[Server], stocks: &[Stock], bytes: &[Vec<f64>]) -> Table {
    let title = "bytes of an element, by used_memory of INFO, its share of the key included";
    let mut columns = columns(&["element of a"], &[""], servers);
    columns.extend(["bpfdb over the smaller", "target"].map(String::from));
    let mut table = Table::new("types-memory", title, &columns);
    for (number, stock) in stocks.iter().enumerate() {
        let Some((name, limit)) = stock.memory else {
            continue;
        };
        let of_server = |bytes: &Vec<f64>| [bytes[number]].into_iter().collect();
        let bytes: Vec<Sample> = bytes.iter().map(of_server).collect();
        let ratio = bytes[0].over(&better(&bytes[1..], f64::min));
        let mut cells = vec![Cell::from(name)];
        cells.extend(bytes.iter().map(|sample| Cell::figure(sample, 1)));
        cells.push(Cell::figure(&ratio, 2));
        cells.push(Cell::at_most(&ratio, limit));
        table.row(cells);
    }
    table
}

/// `rates`: by number of subscribers, of each server.
pub(super) fn published(servers: &[Server], rates: &[Vec<Sample>]) -> Table {
    let title = "PUBLISH of 16 B to subscribers, thousands of messages received per second";
    let mut columns = columns(&["subscribers"], &[""], servers);
    columns.extend(["bpfdb over the better", "target"].map(String::from));
    let mut table = Table::new("types-publish", title, &columns);
    for (subscribers, rates) in SUBSCRIBERS.iter().zip(rates) {
        let mut cells = vec![Cell::from(subscribers)];
        cells.extend(rates.iter().map(Cell::thousands));
        cells.extend(at_least(rates, PUBLISHED));
        table.row(cells);
    }
    table
}

pub(super) fn handed_over(servers: &[Server], all: &[HandOvers]) -> Table {
    let title = "BLPOP that waits: from LPUSH of another client to its reply, µs";
    let mut table = Table::new("types-blocking", title, &["server", "p50", "p99"]);
    for (server, figures) in servers.iter().zip(all) {
        table.row([
            server.name.as_str().into(),
            Cell::figure(&figures.p50, 0),
            Cell::figure(&figures.p99, 0),
        ]);
    }
    table
}

/// `rates`: of each application, of each server; `None`: it is not installed.
pub(super) fn jobs(servers: &[Server], rates: &[Option<Vec<Sample>>]) -> Table {
    let title = "queues of others, added and done by one worker: jobs per second";
    let mut columns = columns(&["queue"], &[""], servers);
    columns.extend(["bpfdb over the better", "target"].map(String::from));
    let mut table = Table::new("types-jobs", title, &columns);
    for (application, rates) in APPLICATIONS.iter().zip(rates) {
        let Some(rates) = rates else {
            table.note(format!(
                "{}: not installed, make test does that",
                application.name
            ));
            continue;
        };
        let mut cells = vec![Cell::from(application.name)];
        cells.extend(rates.iter().map(|rate| Cell::figure(rate, 0)));
        cells.extend(at_least(rates, JOBS));
        table.row(cells);
    }
    table
}

pub(super) fn erased(plan: &Plan, servers: &[Server], all: &[Erased]) -> Table {
    let title = format!(
        "DEL of a hash of {} fields, ms; SET and GET of another client in these {} s, µs",
        plan.elements,
        plan.erase_time.as_secs_f64()
    );
    let columns = [
        "server",
        "DEL, ms",
        "target",
        "p99",
        "longest",
        "target for p99",
    ];
    let mut table = Table::new("types-delete", title, &columns);
    for (number, (server, erased)) in servers.iter().zip(all).enumerate() {
        // Targets are ours.
        let target = |cell| if number == 0 { cell } else { "".into() };
        let p99 = erased.p99.map(|micros| micros / 1e3);
        table.row([
            server.name.as_str().into(),
            Cell::figure(&erased.took, 2),
            target(Cell::at_most_of(&erased.took, ERASED_MILLIS, "ms")),
            Cell::figure(&erased.p99, 0),
            Cell::figure(&erased.longest, 0),
            target(Cell::at_most_of(&p99, OTHERS_MILLIS, "ms")),
        ]);
    }
    table
}

pub(super) fn ordered(rows: &Rows) -> Table {
    let title = format!(
        "an ordered table of {} rows with values of 100 B, one session, ns",
        rows.rows
    );
    let mut table = Table::new("types-ordered", title, &["step", "ns", "target"]);
    let plain = &rows.nanos[&Step::Plain];
    for (step, nanos) in &rows.nanos {
        let target = match step {
            Step::New => {
                let index = nanos.with(plain, |new, plain| new - plain);
                Cell::at_most_of(&index, INDEX_NANOS, "more than SET")
            }
            Step::Keys => Cell::at_most(nanos, SCAN_NANOS),
            _ => "".into(),
        };
        table.row([step.name().into(), Cell::figure(nanos, 0), target]);
    }
    table
}

/// The ratio to the better Redis, and whether it is large enough.
fn at_least(rates: &[Sample], target: f64) -> [Cell; 2] {
    let ratio = rates[0].over(&better(&rates[1..], f64::max));
    [Cell::figure(&ratio, 2), Cell::at_least(&ratio, target)]
}

fn row_cells(row: &Row) -> Vec<Cell> {
    vec![row.ask.name.into(), row.pipeline.into()]
}

/// Those of the row, and for each of these figures one of each server.
fn columns(heads: &[&str], figures: &[&str], servers: &[Server]) -> Vec<String> {
    let mut columns: Vec<String> = heads.iter().map(ToString::to_string).collect();
    for figure in figures {
        columns.extend(
            servers
                .iter()
                .map(|server| format!("{figure}{}", server.name)),
        );
    }
    columns
}
