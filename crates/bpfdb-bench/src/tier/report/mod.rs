//! Writers beside a report: the sum of a field of many records, each time over a snapshot of its own.
//!
//! ```text
//! session.rs   a session of user space: BEGIN, GETs in batches, COMMIT
//! client.rs    a client of the server: BEGIN READ ONLY, GETRANGE in pipelines, COMMIT;
//!              of Redis, which has no snapshots: MULTI, the same, EXEC
//! ```

mod client;
mod session;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

use super::latencies;
use crate::durability::Samples;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
pub(super) use client::measure as clients;
pub(super) use session::measure as sessions;

/// A report begins each so often.
const PERIOD: Duration = Duration::from_millis(10);
/// Where the field is in a value: a number of 64 bits.
const FIELD: usize = 8;
/// Times of the 99.9th percentile that writers have alone.
const TARGET: f64 = 2.0;

/// Of reports: their times in nanoseconds, and how long it took until the last one was made.
struct Reports {
    begun: Instant,
    took: Duration,
    times: Histogram<u64>,
}

impl Reports {
    fn new() -> Result<Self> {
        Ok(Self {
            begun: Instant::now(),
            took: Duration::ZERO,
            times: Histogram::new_with_bounds(1, 100_000_000_000, 3)?,
        })
    }

    /// Makes one, which gives a sum.
    fn make(&mut self, report: impl FnOnce() -> Result<u64>) -> Result<()> {
        let begun = Instant::now();
        black_box(report()?);
        let nanos = begun.elapsed().as_nanos() as u64;
        self.times.saturating_record(nanos);
        self.took = self.begun.elapsed();
        Ok(())
    }
}

/// What a subject was seen to do: writers alone and beside reports; of these how many a second, and
/// their times in milliseconds.
#[derive(Default)]
struct Seen {
    alone: Samples,
    beside: Samples,
    per_second: Sample,
    p50: Sample,
    p99: Sample,
}

impl Seen {
    fn push(&mut self, reports: &Reports) {
        let at = |quantile| reports.times.value_at_quantile(quantile) as f64 / 1e6;
        let seconds = reports.took.as_secs_f64();
        self.per_second.push(reports.times.len() as f64 / seconds);
        self.p50.push(at(0.5));
        self.p99.push(at(0.99));
    }

    /// Two rows: writers alone, and beside reports. `has_target`: it is bpfdb.
    fn rows(&self, table: &mut Table, subject: &str, has_target: bool) {
        let ratio = self.beside.p999.over(&self.alone.p999);
        for (beside, writers) in [("nothing", &self.alone), ("reports", &self.beside)] {
            let mut row: Vec<Cell> = vec![subject.into(), beside.into()];
            row.extend(latencies::cells(writers));
            if beside == "nothing" {
                row.extend(["", "", "", "", ""].map(Cell::from));
            } else {
                row.push(Cell::figure(&ratio, 2));
                row.push(match has_target {
                    true => Cell::at_most(&ratio, TARGET),
                    false => "".into(),
                });
                row.push(Cell::figure(&self.per_second, 0));
                row.push(Cell::figure(&self.p50, 2));
                row.push(Cell::figure(&self.p99, 2));
            }
            table.row(row);
        }
    }
}

fn table(name: &str, writers: &str, plan: &Plan) -> Table {
    let title = format!(
        "{writers}, beside a report each {} ms: the sum of a field of {} of {} records, over a new snapshot",
        PERIOD.as_millis(),
        plan.report_records,
        plan.beside_records
    );
    let mut columns = vec!["subject", "beside"];
    columns.extend(latencies::COLUMNS);
    columns.extend([
        "p99.9 over that alone",
        "target",
        "reports a second",
        "report, p50, ms",
        "p99, ms",
    ]);
    Table::new(name, title, &columns)
}
