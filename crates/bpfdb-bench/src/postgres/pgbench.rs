//! Clients of PostgreSQL: pgbench, with prepared statements over the Unix socket.

use std::fs;

use anyhow::{Context, Result};

use super::programs::{succeed, text};
use super::{Postgres, log};
use crate::machine;
use crate::tcp::Answer;

/// What a client executes, and how often beside the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) weight: u32,
    pub(crate) text: &'static str,
}

/// How pgbench is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pgbench<'a> {
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) seconds: u64,
    pub(crate) variables: &'a [(&'a str, i64)],
    /// Transactions are serializable, and those that fail are repeated.
    pub(crate) serializable: bool,
}

/// One of its own scripts, at any address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Builtin<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) script: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) seconds: u64,
}

/// What it said.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) answer: Answer,
    /// Transactions of each script.
    pub(crate) done: Vec<u64>,
    /// Attempts of transactions that were repeated.
    pub(crate) repeated: u64,
}

impl Postgres {
    pub(crate) fn run_builtin(&self, builtin: Builtin<'_>) -> Result<Answer> {
        let logs = tempfile::tempdir_in(self.folder.path())?;
        let mut command = self.client("pgbench");
        // The last host and port count.
        command
            .args(["-h", builtin.host, "-p", &builtin.port.to_string()])
            .args(["-b", builtin.script, "-M", builtin.protocol, "-n", "-l"])
            .args(["-c", &builtin.connections.to_string()])
            .args(["-j", &builtin.threads.to_string()])
            .args(["-T", &builtin.seconds.to_string()])
            .arg("--log-prefix")
            .arg(logs.path().join("log"));
        let busy = machine::busy_seconds();
        let output = succeed(&mut command)?;
        let busy = machine::busy_seconds() - busy;
        let said = text(&output);
        let rate = log::rate(&said).with_context(|| format!("pgbench said: {said}"))?;
        let times = log::Times::read(logs.path(), 1)?;
        Ok(Answer {
            per_second: rate,
            p50_micros: times.percentile(0.50),
            p99_micros: times.percentile(0.99),
            cpu_micros: busy * 1e6 / times.count() as f64,
        })
    }

    pub(crate) fn run(&self, pgbench: Pgbench<'_>, scripts: &[Script]) -> Result<Run> {
        let logs = tempfile::tempdir_in(self.folder.path())?;
        let mut command = self.client("pgbench");
        command
            .args(["-M", "prepared", "-n", "-l"])
            .args(["-c", &pgbench.connections.to_string()])
            .args(["-j", &pgbench.threads.to_string()])
            .args(["-T", &pgbench.seconds.to_string()])
            .arg("--log-prefix")
            .arg(logs.path().join("log"));
        if pgbench.serializable {
            // As often as it takes.
            command.args(["--max-tries", "0"]);
            command.env("PGOPTIONS", "-c default_transaction_isolation=serializable");
        }
        for (name, value) in pgbench.variables {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        for (number, script) in scripts.iter().enumerate() {
            let file = self.folder.path().join(format!("script-{number}.sql"));
            fs::write(&file, script.text).context("write a script")?;
            let weighted = format!("{}@{}", file.display(), script.weight);
            command.args(["-f", &weighted]);
        }
        let busy = machine::busy_seconds();
        let output = succeed(&mut command)?;
        let busy = machine::busy_seconds() - busy;
        let said = text(&output);
        let understand = || format!("pgbench said: {said}");
        let times = log::Times::read(logs.path(), scripts.len())?;
        Ok(Run {
            answer: Answer {
                per_second: log::rate(&said).with_context(understand)?,
                p50_micros: times.percentile(0.50),
                p99_micros: times.percentile(0.99),
                cpu_micros: busy * 1e6 / times.count() as f64,
            },
            repeated: log::repeated(&said),
            done: times.done,
        })
    }
}
