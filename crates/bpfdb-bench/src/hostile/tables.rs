//! Tables of the measured values.

use super::bystander::{RATE, Waits};
use super::{Outcome, attacks::ATTACKS};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

#[derive(Default)]
struct Latency {
    p50: Sample,
    p99: Sample,
    longest: Sample,
    per_second: Sample,
}

impl Latency {
    fn add(&mut self, waits: &Waits) {
        self.p50.push(waits.p50);
        self.p99.push(waits.p99);
        self.longest.push(waits.longest);
        self.per_second.push(waits.per_second);
    }

    fn cells(&self) -> [Cell; 4] {
        [&self.p50, &self.p99, &self.longest, &self.per_second]
            .map(|sample| Cell::figure(sample, 0))
    }
}

/// MiB, except for what the attackers did.
#[derive(Default)]
struct Cost {
    connections: Sample,
    sent: Sample,
    before: Sample,
    most: Sample,
    after: Sample,
    kernel: Sample,
}

impl Cost {
    fn add(&mut self, outcome: &Outcome) {
        let Outcome {
            before,
            most,
            after,
            ..
        } = outcome;
        self.connections.push(outcome.connections);
        self.sent.push(outcome.sent);
        self.before.push(before.process);
        self.most.push((most.process - before.process).max(0.0));
        self.after.push((after.process - before.process).max(0.0));
        self.kernel.push((most.kernel - before.kernel).max(0.0));
    }

    fn cells(&self) -> [Cell; 6] {
        [
            &self.connections,
            &self.sent,
            &self.before,
            &self.most,
            &self.after,
            &self.kernel,
        ]
        .map(|sample| Cell::figure(sample, 0))
    }
}

/// Of one attack on one server.
#[derive(Default)]
struct Row {
    attack: &'static str,
    server: String,
    kernel: Latency,
    daemon: Latency,
    cost: Cost,
}

#[derive(Default)]
pub(super) struct Results {
    rows: Vec<Row>,
    failures: Vec<String>,
}

impl Results {
    pub(super) fn add(&mut self, attack: &'static str, server: &str, outcome: &Outcome) {
        let row = self.row(attack, server);
        row.kernel.add(&outcome.kernel);
        row.daemon.add(&outcome.daemon);
        row.cost.add(outcome);
    }

    /// One round of it came to nothing.
    pub(super) fn fail(&mut self, attack: &'static str, reason: String) {
        let failure = format!("FAILED: {attack}: {reason}");
        eprintln!("{failure}");
        self.failures.push(failure);
    }

    fn row(&mut self, attack: &'static str, server: &str) -> &mut Row {
        let is_it = |row: &Row| row.attack == attack && row.server == server;
        let known = self.rows.iter().position(is_it);
        let number = known.unwrap_or_else(|| {
            self.rows.push(Row {
                attack,
                server: server.to_owned(),
                ..Row::default()
            });
            self.rows.len() - 1
        });
        &mut self.rows[number]
    }

    pub(super) fn tables(&self, plan: &Plan, note: Option<String>) -> Vec<Table> {
        let mut kernel = self.latencies(
            "hostile",
            format!(
                "one client beside an attack of {} s: SET and GET, {RATE} a second; µs",
                plan.attack_time.as_secs_f64()
            ),
            |row| &row.kernel,
        );
        for note in note.iter().chain(&self.failures) {
            kernel.note(note);
        }
        let daemon = self.latencies(
            "hostile-daemon",
            format!("one beside it: OBJECT ENCODING, {RATE} a second; µs"),
            |row| &row.daemon,
        );
        vec![kernel, daemon, self.costs(plan)]
    }

    fn latencies(
        &self,
        name: &'static str,
        title: String,
        latency: impl Fn(&Row) -> &Latency,
    ) -> Table {
        let columns = ["attack", "server", "p50", "p99", "longest", "a second"];
        let mut table = Table::new(name, title, &columns);
        for row in &self.rows {
            table.row(row.names().into_iter().chain(latency(row).cells()));
        }
        table
    }

    fn costs(&self, plan: &Plan) -> Table {
        let columns = [
            "attack",
            "server",
            "connections",
            "MB sent",
            "process before",
            "most more",
            "more after",
            "kernel, most more",
        ];
        let title = format!(
            "what the attackers did ({} connections are many), and memory, MiB",
            plan.attack_connections
        );
        let mut table = Table::new("hostile-memory", title, &columns);
        for row in &self.rows {
            table.row(row.names().into_iter().chain(row.cost.cells()));
        }
        table
    }
}

impl Row {
    fn names(&self) -> [Cell; 2] {
        [self.attack.into(), self.server.as_str().into()]
    }
}

pub(super) fn skipped(reason: &str) -> Table {
    Table::skipped("hostile", &format!("{} attacks", ATTACKS.len()), reason)
}
