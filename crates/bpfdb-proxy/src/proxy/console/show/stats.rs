//! STATS and its kin: by database.

use std::collections::BTreeMap;

use super::super::super::Proxy;
use super::{Table, numeric, some, text};
use crate::config::CONSOLE;
use crate::traffic::Traffic;

const NAMES: [&str; 7] = [
    "xact_count",
    "query_count",
    "bytes_received",
    "bytes_sent",
    "xact_time",
    "query_time",
    "wait_time",
];

const TOTALS: [&str; 14] = [
    "total_xact_count",
    "total_query_count",
    "total_received",
    "total_sent",
    "total_xact_time",
    "total_query_time",
    "total_wait_time",
    "avg_xact_count",
    "avg_query_count",
    "avg_recv",
    "avg_sent",
    "avg_xact_time",
    "avg_query_time",
    "avg_wait_time",
];

/// As SHOW TOTALS names them.
fn name_of_total(name: &str) -> &str {
    match name {
        "total_received" => "total_client_bytes",
        "total_sent" => "total_server_bytes",
        "avg_recv" => "avg_client_bytes",
        "avg_sent" => "avg_server_bytes",
        name => name,
    }
}

/// All, and the averages of the last period.
type Both = (Traffic, Traffic);

fn figures(traffic: Traffic) -> impl Iterator<Item = Option<String>> {
    traffic.figures().into_iter().map(some)
}

impl Proxy {
    /// By database, those without clients so far too.
    fn traffic_of_databases(&self) -> BTreeMap<&str, Both> {
        let mut all: BTreeMap<&str, Both> = BTreeMap::new();
        all.insert(CONSOLE, (self.console_traffic, Traffic::default()));
        for number in 0..self.pools.len() as u32 {
            let pool = &self.pools[number as usize];
            let database = all.entry(&pool.key.database).or_default();
            database.0 += self.traffic(number);
            database.1 += pool.periods.average();
        }
        all
    }

    fn stats(&self, names: &[&'static str], row: impl Fn(&Both) -> Vec<Option<String>>) -> Table {
        let columns = [text("database")].into_iter();
        Table {
            columns: columns.chain(names.iter().copied().map(numeric)).collect(),
            rows: self
                .traffic_of_databases()
                .iter()
                .map(|(name, both)| [some(name)].into_iter().chain(row(both)).collect())
                .collect(),
        }
    }

    pub(super) fn show_stats(&self) -> Table {
        self.stats(&TOTALS, |(all, average)| {
            figures(*all).chain(figures(*average)).collect()
        })
    }

    pub(super) fn show_stats_totals(&self) -> Table {
        self.stats(&NAMES, |(all, _)| figures(*all).collect())
    }

    pub(super) fn show_stats_averages(&self) -> Table {
        self.stats(&NAMES, |(_, average)| figures(*average).collect())
    }

    pub(super) fn show_totals(&self) -> Table {
        let databases = self.traffic_of_databases();
        let all: Traffic = databases.values().map(|both| both.0).sum();
        let average: Traffic = databases.values().map(|both| both.1).sum();
        let values = all.figures().into_iter().chain(average.figures());
        Table {
            columns: vec![text("name"), numeric("value")],
            rows: TOTALS
                .iter()
                .zip(values)
                .map(|(name, value)| vec![some(name_of_total(name)), some(value)])
                .collect(),
        }
    }
}
