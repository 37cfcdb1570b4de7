//! What was measured, as tables.

use super::calls::Work;
use super::subject::Figures;
use super::{Row, Way};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::better;

pub(super) fn skipped(reason: &str) -> Table {
    Table::skipped(Way::Tcp.name(), "FCALL against Redis", reason)
}

/// Contenders side by side; the first one is bpfdb.
pub(super) struct Comparison<'a> {
    pub(super) name: &'a str,
    /// Of the columns that say what a row is.
    pub(super) heads: &'a [&'a str],
    pub(super) servers: Vec<String>,
    pub(super) rows: &'a [Row],
    pub(super) figures: &'a [Figures],
}

impl Comparison<'_> {
    /// Also attempts that were repeated, of all that count these, and bpfdb's daemon.
    pub(super) fn rates(&self, title: String) -> Table {
        let repeats = |which: &usize| {
            let of_row = |figures: &Figures| !figures.repeated[*which].is_empty();
            *which > 0 && self.figures.iter().any(of_row)
        };
        let repeating: Vec<usize> = (0..self.servers.len()).filter(repeats).collect();
        let mut columns = self.columns("");
        columns.extend(["bpfdb over the better", "target", "repeated, ‰"].map(String::from));
        let others = repeating.iter().map(|&which| &self.servers[which]);
        columns.extend(others.map(|name| format!("repeated, {name}, ‰")));
        columns.push("by the daemon, ‰".into());

        let mut table = Table::new(self.name, title, &columns);
        for (row, figures) in self.rows.iter().zip(self.figures) {
            let ratio = figures.rates[0].over(&best(&figures.rates[1..]));
            let mut cells = row.cells();
            cells.extend(figures.rates.iter().map(Cell::thousands));
            cells.push(Cell::figure(&ratio, 2));
            cells.push(match row.target {
                Some(limit) if !ratio.is_empty() => Cell::at_least(&ratio, limit),
                _ => "".into(),
            });
            for &which in [0].iter().chain(&repeating) {
                cells.push(Cell::figure(&figures.repeated[which], 1));
            }
            cells.push(Cell::figure(&figures.by_the_daemon[0], 1));
            table.row(cells);
        }
        table
    }

    /// As the client sees them, and the processor time.
    pub(super) fn latencies(&self) -> Table {
        let name = format!("{}-latency", self.name);
        let title = "their latencies, µs, and processor time of the whole machine per request, \
                     client included, µs";
        let mut columns = self.columns("p50 ");
        columns.extend(self.columns_of("p99 "));
        columns.extend(self.columns_of("processor "));
        let mut table = Table::new(name, title, &columns);
        for (row, figures) in self.rows.iter().zip(self.figures) {
            let show = |samples: &[Sample], digits| -> Vec<Cell> {
                let cell = |sample| Cell::figure(sample, digits);
                samples.iter().map(cell).collect()
            };
            let mut cells = row.cells();
            cells.extend(show(&figures.p50, 0));
            cells.extend(show(&figures.p99, 0));
            cells.extend(show(&figures.cpu, 2));
            table.row(cells);
        }
        table
    }

    /// Those of the row, and one for each server.
    fn columns(&self, what: &str) -> Vec<String> {
        let heads = self.heads.iter().map(ToString::to_string);
        heads.chain(self.columns_of(what)).collect()
    }

    fn columns_of(&self, what: &str) -> impl Iterator<Item = String> {
        self.servers.iter().map(move |name| format!("{what}{name}"))
    }
}

/// The best of those that were measured, round by round; empty if none was.
fn best(rates: &[Sample]) -> Sample {
    let measured = rates.iter().filter(|rates| !rates.is_empty());
    let measured: Vec<Sample> = measured.cloned().collect();
    match measured.is_empty() {
        true => Sample::default(),
        false => better(&measured, f64::max),
    }
}

/// Says below a table what requests cost the client.
pub(super) fn note_costs(table: &mut Table, plan: &Plan) {
    let works = [
        Work::Voter,
        Work::HotVoter,
        Work::Lock,
        Work::SmallBank,
        Work::Tatp,
        Work::Board,
        Work::Queue,
    ];
    let costs = works.map(|work| format!("{} {:.0}", work.name(), work.cost(plan)));
    table.note(format!(
        "writing a request takes the client, ns: {}",
        costs.join("; ")
    ));
}
