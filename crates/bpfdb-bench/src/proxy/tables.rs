//! Tables of the measured values.

use super::series::{Series, Subjects};
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

const LATENCY: &str = "99th percentile of a transaction's time, ms";
const MACHINE: &str =
    "processor time of the whole machine a transaction, client and database included, µs";

pub(super) fn of(plan: &Plan, series: &Series) -> Vec<Table> {
    match series.about {
        Subjects::Local => local(plan, series),
        Subjects::Remote => remote(series),
        Subjects::Mirrored => vec![mirrored(series)],
    }
}

/// All on one machine.
fn local(plan: &Plan, series: &Series) -> Vec<Table> {
    let context = Context { name: NAME, series };
    vec![
        context.rates(plan),
        context.latency(),
        context.processor(),
        context.own(0.1),
    ]
}

/// Clients and database are elsewhere.
fn remote(series: &Series) -> Vec<Table> {
    let name = "proxy-remote";
    let context = Context { name, series };
    vec![
        context.remote_rates(),
        context.latency(),
        context.processor(),
        context.own(0.75),
    ]
}

/// Each way with a mirror and without.
fn mirrored(series: &Series) -> Table {
    let title = "a mirror in the same PostgreSQL: transactions per second";
    let columns = [
        "without",
        "with it",
        "ratio",
        "target",
        "lost, %",
        "proxy without, µs",
        "with it, µs",
    ];
    let columns: Vec<&str> = LOAD.into_iter().chain(["way"]).chain(columns).collect();
    let mut table = Table::new("proxy-mirror", title, &columns);
    for (load, figures) in series.loads.iter().zip(&series.figures) {
        for (number, pair) in series.subjects.chunks(2).enumerate() {
            let (without, with) = (2 * number, 2 * number + 1);
            let ratio = figures.rates[with].over(&figures.rates[without]);
            let mut cells = load_cells(load);
            cells.extend([
                pair[0].name.as_str().into(),
                Cell::figure(&figures.rates[without], 0),
                Cell::figure(&figures.rates[with], 0),
                Cell::figure(&ratio, 2),
                if has_targets(load) && number == 0 {
                    Cell::at_least(&ratio, 0.9)
                } else {
                    "".into()
                },
                Cell::figure(&figures.lost[with], 1),
                Cell::figure(&figures.own[without], 1),
                Cell::figure(&figures.own[with], 1),
            ]);
            table.row(cells);
        }
    }
    table.note("PostgreSQL does everything twice then, on the same processors");
    table
}

/// Those loads have targets that the kernel serves.
fn has_targets(load: &Load) -> bool {
    load.script == "select-only" && load.protocol == "simple"
}

struct Context<'a> {
    /// Of the first table, with which the others begin.
    name: &'static str,
    series: &'a Series,
}

impl Context<'_> {
    fn columns(&self) -> Vec<String> {
        let names = self
            .series
            .subjects
            .iter()
            .map(|subject| subject.name.clone());
        LOAD.map(String::from).into_iter().chain(names).collect()
    }

    /// The last subject over that of which the name begins so; empty if one of them has no figure.
    fn over(&self, samples: &[Sample], beginning: &str) -> Sample {
        let is_it = |subject: &Subject| subject.name.starts_with(beginning);
        let other = self.series.subjects.iter().position(is_it);
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
        let mut table = Table::new(self.name, title, &columns);
        for (load, figures) in self.series.loads.iter().zip(&self.series.figures) {
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
        self.note_others(&mut table);
        table
    }

    fn remote_rates(&self) -> Table {
        let title = format!(
            "clients and database in another network namespace, {SERVERS} servers: transactions per second"
        );
        let mut columns = self.columns();
        columns.extend(["over direct TCP", "over PgBouncer", "target"].map(String::from));
        let mut table = Table::new(self.name, title, &columns);
        for (load, figures) in self.series.loads.iter().zip(&self.series.figures) {
            let pgbouncer = self.over(&figures.rates, "PgBouncer");
            let mut cells = load_cells(load);
            cells.extend(figures.rates.iter().map(|rates| Cell::figure(rates, 0)));
            cells.extend([
                Cell::figure(&self.over(&figures.rates, "direct TCP"), 2),
                Cell::figure(&pgbouncer, 2),
                if has_targets(load) && !pgbouncer.is_empty() {
                    Cell::at_least(&pgbouncer, 1.1)
                } else {
                    "".into()
                },
            ]);
            table.row(cells);
        }
        self.note_others(&mut table);
        table
    }

    /// Which of the others are not there.
    fn note_others(&self, table: &mut Table) {
        let mut names = self.series.subjects.iter().map(|subject| &subject.name);
        if !names.any(|name| name.starts_with("PgBouncer")) {
            table.note("PgBouncer is not installed");
        }
        if let Some(note) = &self.series.note {
            table.note(note.as_str());
        }
    }

    fn latency(&self) -> Table {
        self.table("latency", LATENCY, 2, |figures| {
            let p99 = figures.p99.iter();
            p99.map(|p99| p99.map(|p99| p99 / 1e3)).collect()
        })
    }

    fn processor(&self) -> Table {
        self.table("processor", MACHINE, 1, |figures| figures.machine.clone())
    }

    /// `most`: of PgBouncer's time.
    fn own(&self, most: f64) -> Table {
        let title = "processor time of the proxy's own process a transaction, µs";
        let mut columns = self.columns();
        columns.extend(["over PgBouncer", "target"].map(String::from));
        let mut table = Table::new(format!("{}-own", self.name), title, &columns);
        for (load, figures) in self.series.loads.iter().zip(&self.series.figures) {
            let ratio = self.over(&figures.own, "PgBouncer");
            let mut cells = load_cells(load);
            cells.extend(figures.own.iter().map(|own| Cell::figure(own, 1)));
            cells.push(Cell::figure(&ratio, 2));
            cells.push(if has_targets(load) && !ratio.is_empty() {
                Cell::at_most(&ratio, most)
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
        let mut table = Table::new(format!("{}-{name}", self.name), title, &self.columns());
        for (load, figures) in self.series.loads.iter().zip(&self.series.figures) {
            let mut cells = load_cells(load);
            let samples = samples(figures);
            cells.extend(samples.iter().map(|sample| Cell::figure(sample, digits)));
            table.row(cells);
        }
        table
    }
}
