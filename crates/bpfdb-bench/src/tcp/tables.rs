//! Tables of the measured values.

use super::Results;
use super::load::Load;
use super::path::{Path, Row};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const LOAD_COLUMNS: usize = 4;

pub(crate) fn skipped(path: Path, reason: &str) -> Table {
    Table::skipped(path.name(), "against Redis", reason)
}

/// The first server is bpfdb, all others are Redis.
pub(crate) fn all(
    plan: &Plan,
    path: Path,
    servers: Vec<String>,
    results: &Results,
    note: Option<String>,
) -> Vec<Table> {
    let context = Context {
        path,
        servers,
        rows: path
            .sizes()
            .iter()
            .flat_map(|&size| path.rows(size, plan.quick))
            .collect(),
    };
    let mut rates = context.rates(results, plan);
    if let Some(note) = note {
        rates.note(note);
    }
    vec![
        rates,
        context.latencies(results),
        context.processor(results),
    ]
}

struct Context {
    path: Path,
    servers: Vec<String>,
    rows: Vec<Row>,
}

impl Context {
    fn rates(&self, results: &Results, plan: &Plan) -> Table {
        let (what, client) = match self.path {
            Path::Transactions => ("transactions", "64 connections, keys: "),
            Path::Connections => ("requests", "values of 16 B, keys: "),
            _ => ("requests", "redis-benchmark -c 64 -r "),
        };
        let title = format!(
            "{}, thousands of {what} per second: {client}{}",
            self.path.title(),
            plan.tcp_keys
        );
        let mut columns = self.columns("");
        columns.extend(["bpfdb over the better".into(), "target".into()]);
        let mut table = Table::new(self.path.name(), title, &columns);
        for row in &self.rows {
            let rates = &results.rates[&row.load];
            let ratio = rates[0].over(&better(&rates[1..], f64::max));
            let mut cells = self.load_cells(row.load);
            cells.extend(rates.iter().map(Cell::thousands));
            cells.push(Cell::figure(&ratio, 2));
            let target = |limit| Cell::at_least(&ratio, limit);
            cells.push(row.target.map_or("".into(), target));
            table.row(cells);
        }
        table
    }

    /// As the client sees them.
    fn latencies(&self, results: &Results) -> Table {
        let name = self.name("latency");
        let mut columns = self.columns("p50 ");
        columns.extend(self.columns("p99 ").into_iter().skip(LOAD_COLUMNS));
        columns.push("target for p99".into());
        let mut table = Table::new(name, "their latencies, µs", &columns);
        for row in &self.rows {
            let (p50, p99) = (&results.p50[&row.load], &results.p99[&row.load]);
            let mut cells = self.load_cells(row.load);
            cells.extend(p50.iter().chain(p99).map(|sample| Cell::figure(sample, 0)));
            let ratio = p99[0].over(&better(&p99[1..], f64::min));
            cells.push(if self.path.wants_lower_latency() {
                Cell::at_most(&ratio, 1.0)
            } else {
                "".into()
            });
            table.row(cells);
        }
        table
    }

    fn processor(&self, results: &Results) -> Table {
        let name = self.name("processor");
        let title = "processor time of the whole machine per request, client included, µs";
        let mut table = Table::new(name, title, &self.columns(""));
        for row in &self.rows {
            let cpu = results.cpu[&row.load].iter();
            let mut cells = self.load_cells(row.load);
            cells.extend(cpu.map(|sample| Cell::figure(sample, 2)));
            table.row(cells);
        }
        table
    }

    /// Of another table of this path.
    fn name(&self, table: &str) -> String {
        format!("{}-{table}", self.path.name())
    }

    fn load_cells(&self, load: Load) -> Vec<Cell> {
        let second = match self.path {
            Path::Connections => load.connections,
            _ => load.size,
        };
        vec![
            load.test.name.into(),
            second.into(),
            load.pipeline.into(),
            load.threads.into(),
        ]
    }

    /// Those of the load, and one for each server.
    fn columns(&self, what: &str) -> Vec<String> {
        let load = match self.path {
            Path::Connections => ["request", "-c", "-P", "threads"],
            _ => ["request", "-d", "-P", "threads"],
        };
        let mut columns: Vec<String> = load.map(String::from).into();
        columns.extend(self.servers.iter().map(|name| format!("{what}{name}")));
        columns
    }
}

/// The better of several servers, round by round.
pub(crate) fn better(servers: &[Sample], better: fn(f64, f64) -> f64) -> Sample {
    let mut best = servers[0].clone();
    for server in &servers[1..] {
        best = best.with(server, better);
    }
    best
}
