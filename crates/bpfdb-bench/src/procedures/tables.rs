//! What was measured, as tables.

use super::calls::Work;
use super::{CONNECTIONS, Figures, Row, Way};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::better;

pub(super) fn skipped(reason: &str) -> Table {
    let title = "FCALL against Redis: not measured";
    let mut table = Table::new(Way::Tcp.name(), title, &[""]);
    table.note(reason);
    table
}

/// Rates and latencies. The first server is bpfdb, all others are Redis.
pub(super) fn beside_redis(
    plan: &Plan,
    way: Way,
    servers: Vec<String>,
    rows: &[Row],
    figures: &[Figures],
    note: Option<String>,
) -> Vec<Table> {
    let mut rates = rates(plan, way, &servers, rows, figures);
    if let Some(note) = note {
        rates.note(note);
    }
    vec![rates, latencies(way, &servers, rows, figures)]
}

fn rates(plan: &Plan, way: Way, servers: &[String], rows: &[Row], all: &[Figures]) -> Table {
    let title = format!(
        "{}, thousands of requests per second: {CONNECTIONS} connections, phones: {}",
        way.title(),
        plan.tcp_keys
    );
    let mut columns = columns("", servers);
    columns.extend(
        [
            "bpfdb over the better",
            "target",
            "repeated, ‰",
            "by the daemon, ‰",
        ]
        .map(String::from),
    );
    let mut table = Table::new(way.name(), title, &columns);
    for (row, figures) in rows.iter().zip(all) {
        let ratio = figures.rates[0].over(&better(&figures.rates[1..], f64::max));
        let mut cells = row_cells(row);
        cells.extend(figures.rates.iter().map(Cell::thousands));
        cells.push(Cell::figure(&ratio, 2));
        let target = |limit| Cell::at_least(&ratio, limit);
        cells.push(row.target.map_or("".into(), target));
        cells.push(Cell::figure(&figures.repeated, 1));
        cells.push(Cell::figure(&figures.left, 1));
        table.row(cells);
    }
    let works = [Work::Voter, Work::HotVoter, Work::Lock, Work::SmallBank];
    let costs = works.map(|work| format!("{} {:.0}", work.name(), work.cost(plan)));
    table.note(format!(
        "writing a request takes the client, ns: {}",
        costs.join("; ")
    ));
    table
}

/// As the client sees them, and the processor time.
fn latencies(way: Way, servers: &[String], rows: &[Row], all: &[Figures]) -> Table {
    let name = format!("{}-latency", way.name());
    let title = "their latencies, µs, and processor time of the whole machine per request, \
                 client included, µs";
    let mut columns = columns("p50 ", servers);
    columns.extend(columns_of("p99 ", servers));
    columns.extend(columns_of("processor ", servers));
    let mut table = Table::new(name, title, &columns);
    for (row, figures) in rows.iter().zip(all) {
        let show = |samples: &[Sample], digits| -> Vec<Cell> {
            let cell = |sample| Cell::figure(sample, digits);
            samples.iter().map(cell).collect()
        };
        let mut cells = row_cells(row);
        cells.extend(show(&figures.p50, 0));
        cells.extend(show(&figures.p99, 0));
        cells.extend(show(&figures.cpu, 2));
        table.row(cells);
    }
    table
}

fn row_cells(row: &Row) -> Vec<Cell> {
    vec![row.work.name().into(), row.pipeline.into()]
}

/// Those of the row, and one for each server.
fn columns(what: &str, servers: &[String]) -> Vec<String> {
    let mut columns = vec!["request".to_owned(), "-P".to_owned()];
    columns.extend(columns_of(what, servers));
    columns
}

fn columns_of(what: &str, servers: &[String]) -> Vec<String> {
    servers.iter().map(|name| format!("{what}{name}")).collect()
}
