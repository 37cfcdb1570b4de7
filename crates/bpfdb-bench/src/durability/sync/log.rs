//! What pgbench says: its summary, and a line for each transaction in its log.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Transactions per second, without the time of connecting.
pub(super) fn rate(summary: &str) -> Option<f64> {
    let line = summary
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

/// Of transactions, in microseconds, sorted.
pub(super) struct Times(Vec<f64>);

impl Times {
    /// Of all logs in a folder: one for each thread.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut times = Vec::new();
        for entry in fs::read_dir(folder)? {
            let text = fs::read_to_string(entry?.path())?;
            for line in text.lines() {
                times.push(time(line).with_context(|| format!("pgbench logged: {line}"))?);
            }
        }
        ensure!(!times.is_empty(), "pgbench has made no transaction");
        times.sort_by(f64::total_cmp);
        Ok(Self(times))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn percentile(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }
}

/// The third column: client, number, microseconds, …
fn time(line: &str) -> Option<f64> {
    line.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_pgbench_is_understood() {
        let summary = "number of clients: 2\nlatency average = 0.412 ms\n\
            initial connection time = 3.8 ms\ntps = 4851.113467 (without initial connection time)\n";
        assert_eq!(rate(summary), Some(4851.113467));
        assert_eq!(rate("nothing of the kind"), None);
    }

    #[test]
    fn the_logs_of_all_threads_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = [
            ("log.17", "0 1 400 0 1700000000 1\n0 2 200 0 1700000000 2\n"),
            ("log.17.1", "1 1 300 0 1700000000 1\n"),
        ];
        for (name, text) in logs {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let times = Times::read(folder.path()).expect("times");
        assert_eq!((times.count(), times.percentile(0.5)), (3, 300.0));
        assert_eq!(times.percentile(1.0), 400.0);
    }
}
