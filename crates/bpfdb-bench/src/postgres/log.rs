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

/// Transactions of each script, of which there are so many.
pub(super) fn transactions(summary: &str, scripts: usize) -> Option<Vec<u64>> {
    let number = |line: &str, label: &str| -> Option<u64> {
        line.strip_prefix(label)?
            .split(['/', ' '])
            .next()?
            .parse()
            .ok()
    };
    if scripts == 1 {
        let label = "number of transactions actually processed: ";
        let done = summary.lines().find_map(|line| number(line, label))?;
        return Some(vec![done]);
    }
    let of_script = |line: &str| {
        line.contains(" transactions (")
            .then(|| number(line, " - "))
    };
    let done: Option<Vec<u64>> = summary.lines().filter_map(of_script).collect();
    done.filter(|done| done.len() == scripts)
}

/// Attempts that were repeated, of all scripts: the summary's first line about them.
pub(super) fn repeated(summary: &str) -> u64 {
    let label = "total number of retries: ";
    let mut lines = summary.lines().filter_map(|line| line.strip_prefix(label));
    lines
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
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
    fn scripts_and_repeated_attempts_are_counted() {
        let summary = "number of transactions actually processed: 348\n\
            number of failed transactions: 0 (0.000%)\n\
            number of transactions retried: 5 (1.579%)\ntotal number of retries: 7\n\
            SQL script 1: a.sql\n - weight: 3 (targets 75.0% of total)\n\
            \x20- 261 transactions (75.0% of total, tps = 270.72)\n\
            \x20- number of failed transactions: 0 (0.000%)\n\
            \x20- total number of retries: 6\n\
            SQL script 2: b.sql\n - 87 transactions (25.0% of total, tps = 89.38)\n\
            \x20- total number of retries: 1\n";
        assert_eq!(transactions(summary, 2), Some(vec![261, 87]));
        assert_eq!(transactions(summary, 3), None);
        assert_eq!(repeated(summary), 7);

        let one = "number of transactions actually processed: 10/10\n";
        assert_eq!(transactions(one, 1), Some(vec![10]));
        assert_eq!(repeated(one), 0);
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
