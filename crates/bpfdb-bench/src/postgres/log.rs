//! Output of pgbench: its summary, and a line for each transaction in its log.

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

/// Attempts that were repeated, of all scripts: the summary's first line about them.
pub(super) fn repeated(summary: &str) -> u64 {
    let label = "total number of retries: ";
    let mut lines = summary.lines().filter_map(|line| line.strip_prefix(label));
    lines
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Of transactions.
pub(super) struct Times {
    /// In microseconds, sorted.
    times: Vec<f64>,
    /// How many there were of each script. The numbers of the summary may be too low: threads
    /// of pgbench add to them without a lock.
    pub(super) done: Vec<u64>,
}

impl Times {
    /// Of all logs in a folder: one for each thread.
    pub(super) fn read(folder: &Path, scripts: usize) -> Result<Self> {
        let (mut times, mut done) = (Vec::new(), vec![0; scripts]);
        for entry in fs::read_dir(folder)? {
            let text = fs::read_to_string(entry?.path())?;
            for line in text.lines() {
                let logged = || format!("pgbench logged: {line}");
                let (time, script) = transaction(line).with_context(logged)?;
                times.push(time);
                *done.get_mut(script).with_context(logged)? += 1;
            }
        }
        ensure!(!times.is_empty(), "pgbench has made no transaction");
        times.sort_by(f64::total_cmp);
        Ok(Self { times, done })
    }

    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    pub(super) fn percentile(&self, share: f64) -> f64 {
        self.times[((self.times.len() - 1) as f64 * share) as usize]
    }
}

/// Microseconds and the script: client, number, microseconds, script, …
fn transaction(line: &str) -> Option<(f64, usize)> {
    let mut columns = line.split(' ').skip(2);
    Some((columns.next()?.parse().ok()?, columns.next()?.parse().ok()?))
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
    fn repeated_attempts_are_counted() {
        let summary = "number of transactions retried: 5 (1.579%)\ntotal number of retries: 7\n\
            SQL script 1: a.sql\n - total number of retries: 6\n";
        assert_eq!(repeated(summary), 7);
        assert_eq!(
            repeated("number of transactions actually processed: 10\n"),
            0
        );
    }

    #[test]
    fn the_logs_of_all_threads_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = [
            ("log.17", "0 1 400 0 1700000000 1\n0 2 200 0 1700000000 2\n"),
            ("log.17.1", "1 1 300 1 1700000000 1\n"),
        ];
        for (name, text) in logs {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let times = Times::read(folder.path(), 2).expect("times");
        assert_eq!((times.count(), times.percentile(0.5)), (3, 300.0));
        assert_eq!(times.percentile(1.0), 400.0);
        assert_eq!(times.done, [2, 1]);
        Times::read(folder.path(), 1).err().expect("no such script");
    }
}
