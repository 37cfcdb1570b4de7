//! Tables of what was measured.

use super::clients::CLIENTS;
use super::workload::{ALL, Workload};
use super::{Figures, Measured, SIZE, TIMES};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const ROCKSDB: &str = "RocksDB, in its process";

impl Measured {
    pub(super) fn tables(&self, plan: &Plan) -> Vec<Table> {
        let title = format!(
            "YCSB, {CLIENTS} clients through TCP, {} records of {SIZE} B and more, {TIMES} times tier-memory ({} MiB are in use); \
             thousand operations a second",
            plan.tier_keys,
            self.memory >> 20
        );
        let mut rates = self.table("tier-ycsb", title, &self.missing_columns(), |figures| {
            Cell::figure(&figures.per_second.map(|rate| rate / 1e3), 1)
        });
        rates.note(
            "keys: Zipf 0.99, in D from the latest on; a scan is an MGET of 1 to 100 keys that follow; values in files are not in the \
             page cache, which is emptied each 100 ms",
        );
        rates.note(format!(
            "writes that the log had no room for: {}",
            self.refused
        ));
        if self.rocksdb.is_some() {
            rates.note("RocksDB: db_bench readrandom, O_DIRECT, as much memory for blocks, indexes and filters");
        } else {
            rates.note("RocksDB's db_bench is not installed");
        }
        let title = "the same: 99th percentile of an operation's time, µs";
        let p99 = self.table("tier-ycsb-latency", title.into(), &[], |figures| {
            Cell::figure(&figures.p99_micros, 0)
        });
        vec![rates, p99]
    }

    /// Of each server that evicts.
    fn missing_columns(&self) -> Vec<String> {
        let evicts = self.names.iter().skip(1);
        evicts.map(|name| format!("{name}: not found, %")).collect()
    }

    fn table(
        &self,
        name: &str,
        title: String,
        missing: &[String],
        cell: impl Fn(&Figures) -> Cell,
    ) -> Table {
        let mut columns = vec!["workload".to_owned(), "operations, %".to_owned()];
        columns.extend(self.names.iter().cloned());
        columns.push(ROCKSDB.to_owned());
        columns.extend(missing.iter().cloned());
        let mut table = Table::new(name, title, &columns);
        for (workload, figures) in ALL.iter().zip(&self.figures) {
            let mut row: Vec<Cell> = vec![workload.name.into(), workload.does.into()];
            row.extend(figures.iter().map(&cell));
            row.push(match &self.rocksdb {
                Some(rocksdb) if is_read_of_any(workload) => cell(rocksdb),
                _ => Cell::figure(&Sample::default(), 0),
            });
            let evicts = figures.iter().skip(1);
            let evicts = evicts.map(|figures| Cell::figure(&figures.missing_percent, 1));
            row.extend(evicts.take(missing.len()));
            table.row(row);
        }
        table
    }
}

/// What RocksDB's benchmark does.
fn is_read_of_any(workload: &Workload) -> bool {
    *workload == ALL[0]
}
