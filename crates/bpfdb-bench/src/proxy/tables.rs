//! Tables of the measured values.

use super::subject::Subject;
use super::{Figures, Load, SERVERS};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const NAME: &str = "proxy";
const LOAD: [&str; 3] = ["script", "protocol", "clients"];

pub(super) fn skipped(reason: &str) -> Table {
    let mut table = Table::new(NAME, "the proxy before PostgreSQL: not measured", &[""]);
    table.note(reason);
    table
}

fn load_cells(load: &Load) -> Vec<Cell> {
    vec![
        load.script.into(),
        load.protocol.into(),
        load.clients.into(),
    ]
}

pub(super) fn all(
    plan: &Plan,
    subjects: &[Subject],
    loads: &[Load],
    figures: &[Figures],
) -> Vec<Table> {
    let context = Context {
        subjects,
        loads,
        figures,
    };
    let latency = "99th percentile of a transaction's time, ms";
    let machine =
        "processor time of the whole machine a transaction, client and database included, µs";
    let own = "processor time of the proxy's own process a transaction, µs";
    vec![
        context.rates(plan),
        context.table("latency", latency, 2, |figures| {
            figures
                .p99
                .iter()
                .map(|p99| p99.map(|p99| p99 / 1e3))
                .collect()
        }),
        context.table("processor", machine, 1, |figures| figures.machine.clone()),
        context.table("own", own, 1, |figures| figures.own.clone()),
    ]
}

struct Context<'a> {
    subjects: &'a [Subject],
    loads: &'a [Load],
    figures: &'a [Figures],
}

impl Context<'_> {
    fn columns(&self) -> Vec<String> {
        let names = self.subjects.iter().map(|subject| subject.name.clone());
        LOAD.map(String::from).into_iter().chain(names).collect()
    }

    fn place(&self, beginning: &str) -> Option<usize> {
        let is_it = |subject: &Subject| subject.name.starts_with(beginning);
        self.subjects.iter().position(is_it)
    }

    fn rates(&self, plan: &Plan) -> Table {
        let title = format!(
            "pgbench through the proxy, scale {}, {SERVERS} servers: transactions per second",
            plan.proxy_scale
        );
        let mut columns = self.columns();
        columns.extend(["over direct TCP", "over PgBouncer"].map(String::from));
        let mut table = Table::new(NAME, title, &columns);
        let last = self.subjects.len() - 1;
        for (load, figures) in self.loads.iter().zip(self.figures) {
            let over = |place: Option<usize>| {
                let other = place.map(|place| &figures.rates[place]);
                let other = other.filter(|other| !other.is_empty());
                let ratio = other.map(|other| figures.rates[last].over(other));
                Cell::figure(&ratio.unwrap_or_default(), 2)
            };
            let mut cells = load_cells(load);
            cells.extend(figures.rates.iter().map(|rates| Cell::figure(rates, 0)));
            cells.extend([
                over(self.place("direct TCP")),
                over(self.place("PgBouncer")),
            ]);
            table.row(cells);
        }
        if self.place("PgBouncer").is_none() {
            table.note("PgBouncer is not installed");
        }
        table
    }

    fn table(
        &self,
        name: &str,
        title: &str,
        digits: usize,
        samples: impl Fn(&Figures) -> Vec<Sample>,
    ) -> Table {
        let mut table = Table::new(format!("{NAME}-{name}"), title, &self.columns());
        for (load, figures) in self.loads.iter().zip(self.figures) {
            let mut cells = load_cells(load);
            let samples = samples(figures);
            cells.extend(samples.iter().map(|sample| Cell::figure(sample, digits)));
            table.row(cells);
        }
        table
    }
}
