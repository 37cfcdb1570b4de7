//! Columns that all tables of loads have.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::{Answer, Load, NO_ROOM, Results, Server};

/// Runs of a load that end because the log has no room are repeated, so often.
const REPEATS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Runs a load. redis-benchmark ends when a write is refused.
pub(super) fn ask(load: Load, server: &Server, plan: &Plan, refused: &mut u32) -> Result<Answer> {
    until_room(refused, || {
        load.run(server, plan.tcp_keys, load.requests(plan))
    })
    .with_context(|| server.name.clone())
}

/// Measures again when the log had no room. Such runs are counted.
pub(crate) fn until_room<T>(refused: &mut u32, mut run: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..REPEATS {
        match run() {
            Err(error) if format!("{error:#}").contains(&NO_ROOM[1..]) => *refused += 1,
            answer => return answer,
        }
        thread::sleep(PAUSE);
    }
    bail!("the log had no room {REPEATS} times")
}

/// Says so below a table.
pub(crate) fn note_refused(table: &mut Table, refused: u32) {
    table.note(format!(
        "runs that ended because the log had no room, and were repeated: {refused}"
    ));
}

/// Figures of one kind, of each load by subject.
type Figures = BTreeMap<Load, Vec<Sample>>;

/// Of subject number `which`; empty if it was not measured.
pub(super) fn sample(figures: &Figures, load: Load, which: usize) -> Sample {
    let samples = figures.get(&load).and_then(|samples| samples.get(which));
    samples.cloned().unwrap_or_default()
}

/// The best of these subjects, round by round; empty if none was measured.
pub(super) fn best(figures: &Figures, load: Load, which: impl Iterator<Item = usize>) -> Sample {
    let samples = which.map(|which| sample(figures, load, which));
    let measured: Vec<Sample> = samples.filter(|sample| !sample.is_empty()).collect();
    match measured.is_empty() {
        true => Sample::default(),
        false => crate::tcp::better(&measured, f64::max),
    }
}

/// Who was measured, with which loads.
pub(super) struct Rows<'a> {
    /// Of the tables.
    pub(super) name: &'a str,
    pub(super) subjects: Vec<String>,
    pub(super) loads: Vec<Load>,
    pub(super) results: &'a Results,
}

impl Rows<'_> {
    /// Names of columns: those of a load, and one for each subject.
    pub(super) fn columns(&self, what: &str) -> Vec<String> {
        let mut columns: Vec<String> = ["request", "-d", "-c", "-P"].map(String::from).into();
        columns.extend(self.subjects.iter().map(|name| format!("{what}{name}")));
        columns
    }

    pub(super) fn load_cells(load: Load) -> Vec<Cell> {
        vec![
            load.test.name.into(),
            load.size.into(),
            load.connections.into(),
            load.pipeline.into(),
        ]
    }

    fn samples<'a>(&'a self, figures: &'a Figures, load: Load) -> impl Iterator<Item = Sample> {
        (0..self.subjects.len()).map(move |which| sample(figures, load, which))
    }

    /// Of all subjects, in thousands.
    pub(super) fn rate_cells(&self, load: Load) -> Vec<Cell> {
        self.samples(&self.results.rates, load)
            .map(|rate| Cell::figure(&rate.map(|rate| rate / 1e3), 1))
            .collect()
    }

    /// As the client sees them.
    pub(super) fn latencies(&self) -> Table {
        let name = format!("{}-latency", self.name);
        let mut columns = self.columns("p50 ");
        columns.extend(self.subjects.iter().map(|name| format!("p99 {name}")));
        let mut table = Table::new(name, "their latencies, µs", &columns);
        for &load in &self.loads {
            let mut cells = Self::load_cells(load);
            for figures in [&self.results.p50, &self.results.p99] {
                let samples = self.samples(figures, load);
                cells.extend(samples.map(|sample| Cell::figure(&sample, 0)));
            }
            table.row(cells);
        }
        table
    }

    pub(super) fn processor(&self) -> Table {
        let name = format!("{}-processor", self.name);
        let title = "processor time of the whole machine per request, client included, µs";
        let mut table = Table::new(name, title, &self.columns(""));
        for &load in &self.loads {
            let mut cells = Self::load_cells(load);
            let samples = self.samples(&self.results.cpu, load);
            cells.extend(samples.map(|sample| Cell::figure(&sample, 2)));
            table.row(cells);
        }
        table
    }
}
