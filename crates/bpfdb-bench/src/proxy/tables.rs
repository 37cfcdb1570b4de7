//! Tables of the measured values.

use super::subject::Subject;
use super::{Figures, Load, SERVERS};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const NAME: &str = "proxy";
const LOAD: [&str; 3] = ["script", "protocol", "clients"];

pub(super) fn skipped(reason: &str) -> Table {
    Table::skipped(NAME, "the proxy before PostgreSQL", reason)
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
        context.own(),
    ]
}

/// Those loads have targets that the kernel serves.
fn has_targets(load: &Load) -> bool {
    load.script == "select-only" && load.protocol == "simple"
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

    /// The last subject over that of which the name begins so; empty if one of them has no figure.
    fn over(&self, samples: &[Sample], beginning: &str) -> Sample {
        let is_it = |subject: &Subject| subject.name.starts_with(beginning);
        let other = self.subjects.iter().position(is_it);
        let other = other.map(|place| &samples[place]);
        let other = other.filter(|other| !other.is_empty());
        let last = samples.last().filter(|last| !last.is_empty());
        let both = last.zip(other);
        both.map_or_else(Sample::default, |(last, other)| last.over(other))
    }

    fn rates(&self, plan: &Plan) -> Table {
        let title = format!(
            "pgbench through the proxy, scale {}, {SERVERS} servers: transactions per second",
            plan.proxy_scale
        );
        let mut columns = self.columns();
        columns.extend(["over direct TCP", "target", "over PgBouncer", "target"].map(String::from));
        let mut table = Table::new(NAME, title, &columns);
        for (load, figures) in self.loads.iter().zip(self.figures) {
            let direct = self.over(&figures.rates, "direct TCP");
            let pgbouncer = self.over(&figures.rates, "PgBouncer");
            let at_least = |ratio: &Sample, limit: f64, is_meant: bool| match is_meant {
                true if !ratio.is_empty() => Cell::at_least(ratio, limit),
                _ => "".into(),
            };
            let mut cells = load_cells(load);
            cells.extend(figures.rates.iter().map(|rates| Cell::figure(rates, 0)));
            cells.extend([
                Cell::figure(&direct, 2),
                at_least(&direct, 1.0, has_targets(load)),
                Cell::figure(&pgbouncer, 2),
                at_least(&pgbouncer, 2.0, has_targets(load) && load.clients == 64),
            ]);
            table.row(cells);
        }
        let names = self.subjects.iter().map(|subject| &subject.name);
        if !names.into_iter().any(|name| name.starts_with("PgBouncer")) {
            table.note("PgBouncer is not installed");
        }
        table
    }

    fn own(&self) -> Table {
        let title = "processor time of the proxy's own process a transaction, µs";
        let mut columns = self.columns();
        columns.extend(["over PgBouncer", "target"].map(String::from));
        let mut table = Table::new(format!("{NAME}-own"), title, &columns);
        for (load, figures) in self.loads.iter().zip(self.figures) {
            let ratio = self.over(&figures.own, "PgBouncer");
            let mut cells = load_cells(load);
            cells.extend(figures.own.iter().map(|own| Cell::figure(own, 1)));
            cells.push(Cell::figure(&ratio, 2));
            cells.push(if has_targets(load) && !ratio.is_empty() {
                Cell::at_most(&ratio, 0.1)
            } else {
                "".into()
            });
            table.row(cells);
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
