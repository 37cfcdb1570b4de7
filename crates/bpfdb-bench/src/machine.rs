//! The machine: processor, kernel, versions.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) processors: usize,
    pub(crate) memory_kib: u64,
}

impl Machine {
    pub(crate) fn this() -> Self {
        Self {
            kernel: read("/proc/sys/kernel/osrelease"),
            cpu: field("/proc/cpuinfo", "model name"),
            processors: processors(),
            memory_kib: field("/proc/meminfo", "MemTotal")
                .split(' ')
                .next()
                .and_then(|number| number.parse().ok())
                .unwrap_or(0),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The first `name: value` of a file.
pub(crate) fn field(path: &str, name: &str) -> String {
    read(path)
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps this thread on processor `cpu`, counted round.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu % processors())?;
    sched_setaffinity(Pid::from_raw(0), &set).context("pin a thread to a processor")
}

/// How many descriptors this process may have, and each that it starts: one for
/// every connection, of the client and of the server.
pub(crate) fn raise_descriptor_limit(wanted: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))
        .with_context(|| format!("raise the limit of descriptors to {wanted}"))
}

/// Seconds that all processors together were busy since they were started.
pub(crate) fn busy_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0; // USER_HZ
    busy_ticks(&read("/proc/stat")) as f64 / TICKS_PER_SECOND
}

/// user, nice, system, irq and softirq of the first line.
fn busy_ticks(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    line.split_whitespace()
        .skip(1)
        .enumerate()
        .filter(|(column, _)| [0, 1, 2, 5, 6].contains(column))
        .filter_map(|(_, number)| number.parse::<u64>().ok())
        .sum()
}

/// Now in UTC, as `2025-01-31T12-34-56`: fit for a file name.
pub(crate) fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    date(since)
}

/// Days to a date by the algorithm of H. Hinnant ("chrono-compatible low-level
/// date algorithms"): years begin in March, 400 of them are an era.
fn date(since: u64) -> String {
    let (days, seconds) = (since / 86400 + 719_468, since % 86400);
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + days / 146_097 * 400 + u64::from(month <= 2);

    format!(
        "{year:04}-{month:02}-{day:02}T{:02}-{:02}-{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01T00-00-00");
        assert_eq!(date(951_827_696), "2000-02-29T12-34-56");
        assert_eq!(date(1_767_225_599), "2025-12-31T23-59-59");
    }

    #[test]
    fn busy_is_everything_but_idle_iowait_and_steal() {
        let stat = "cpu  1 2 4 1000 2000 8 16 4000 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), 31);
    }
}
