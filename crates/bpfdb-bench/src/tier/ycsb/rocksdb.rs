//! RocksDB, by its own benchmark: a library in the process that asks, without a server. It reads records of the same
//! number and size, any of them, past the page cache, and has as much memory for blocks as the servers have.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::clients::CLIENTS;
use crate::tcp::ends_with_us;

const PROGRAM: &str = "db_bench";
/// As long as those of the servers.
const KEY: u32 = 16;

pub(super) struct RocksDb {
    folder: PathBuf,
    records: u32,
    size: u32,
    memory: u64,
}

/// Of reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reads {
    pub(super) per_second: f64,
    pub(super) p99_micros: f64,
}

impl RocksDb {
    /// With all records in files of this folder. `None`: it is not installed.
    pub(super) fn fill(
        folder: PathBuf,
        records: u32,
        size: u32,
        memory: u64,
    ) -> Result<Option<Self>> {
        let found = Command::new(PROGRAM)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if found.is_err() {
            return Ok(None);
        }
        let own = Self {
            folder,
            records,
            size,
            memory,
        };
        own.run(&["--benchmarks=fillseq,compact", "--disable_wal=1"])?;
        Ok(Some(own))
    }

    pub(super) fn read(&self, time: Duration) -> Result<Reads> {
        let seconds = time.as_secs().max(1);
        let text = self.run(&[
            "--benchmarks=readrandom",
            "--use_existing_db=1",
            "--use_direct_reads=1",
            "--histogram=1",
            &format!("--threads={CLIENTS}"),
            &format!("--duration={seconds}"),
        ])?;
        parse(&text).with_context(|| format!("{PROGRAM} said: {text}"))
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let Self {
            folder,
            records,
            size,
            memory,
        } = self;
        let mut command = Command::new(PROGRAM);
        command
            .arg(folder_argument("db", folder))
            .arg(folder_argument("wal_dir", folder))
            .args([
                format!("--num={records}"),
                format!("--key_size={KEY}"),
                format!("--value_size={size}"),
                format!("--cache_size={memory}"),
                "--cache_index_and_filter_blocks=1".into(),
                "--bloom_bits=10".into(),
                // The servers compress nothing, either.
                "--compression_type=none".into(),
            ])
            .args(arguments);
        let command = ends_with_us(&mut command, nix::sys::signal::Signal::SIGKILL);
        let output = command.output().with_context(|| format!("run {PROGRAM}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "{PROGRAM}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(text)
    }
}

fn folder_argument(name: &str, folder: &Path) -> String {
    format!("--{name}={}", folder.display())
}

/// `readrandom : 5.123 micros/op 195203 ops/sec … (8000 of 8000 found)`, and behind it `Percentiles: P50: … P99: …`.
/// `None`: it is none of that, or some were not found.
fn parse(text: &str) -> Option<Reads> {
    let line = text.lines().find(|line| line.starts_with("readrandom"))?;
    let before = line.split(" ops/sec").next()?;
    let found = line.split_once('(')?.1.strip_suffix(" found)")?;
    found.split_once(" of ").filter(|(found, of)| found == of)?;
    let percentiles = text.lines().find(|line| line.starts_with("Percentiles:"))?;
    let p99 = percentiles.split(" P99: ").nth(1)?;
    Some(Reads {
        per_second: before.split_whitespace().last()?.parse().ok()?,
        p99_micros: p99.split_whitespace().next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_understood() {
        let text = "DB path: [/tmp/x]\n\
            readrandom   :     120.411 micros/op 132876 ops/sec 4.001 seconds 531648 operations;   13.2 MB/s (531648 of 531648 found)\n\n\
            Microseconds per read:\nCount: 531648 Average: 120.4107  StdDev: 60.51\n\
            Min: 2  Median: 110.1533  Max: 4100\n\
            Percentiles: P50: 110.15 P75: 140.20 P99: 305.50 P99.9: 710.00 P99.99: 1800.10\n";
        let expected = Reads {
            per_second: 132_876.0,
            p99_micros: 305.5,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse(&text.replace("(531648 of", "(531647 of")), None);
        assert_eq!(parse("Invalid argument"), None);
    }
}
