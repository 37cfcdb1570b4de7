//! Clients of PostgreSQL: pgbench.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::programs::{succeed, text};
use super::{Postgres, log};
use crate::machine;
use crate::tcp::{Answer, NetworkNamespace};

/// What a client executes, and how often beside the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) weight: u32,
    pub(crate) text: &'static str,
}

/// How pgbench is run: with prepared statements over the Unix socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pgbench<'a> {
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) seconds: u64,
    pub(crate) variables: &'a [(&'a str, i64)],
    /// Transactions are serializable, and those that fail are repeated.
    pub(crate) serializable: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work<'a> {
    /// One of its own scripts.
    Builtin(&'static str),
    /// These, with a value for each of their variables.
    Scripts(&'static [Script], &'a [(&'a str, i64)]),
}

/// How it is run at any address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PgbenchAt<'a> {
    /// Where it runs.
    pub(crate) from: &'a NetworkNamespace,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) work: Work<'a>,
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
    pub(crate) fn run_at(&self, at: PgbenchAt<'_>) -> Result<Answer> {
        let mut command = self.client("pgbench");
        at.from.of_command(&mut command);
        // The last host and port count.
        command
            .args(["-h", at.host, "-p", &at.port.to_string()])
            .args(["-M", at.protocol]);
        let scripts = match at.work {
            Work::Builtin(script) => {
                command.args(["-b", script]);
                1
            }
            Work::Scripts(scripts, variables) => {
                self.add_scripts(&mut command, scripts, variables)?;
                scripts.len()
            }
        };
        let size = (at.connections, at.threads, at.seconds);
        Ok(self.measured(command, size, scripts)?.answer)
    }

    pub(crate) fn run(&self, pgbench: Pgbench<'_>, scripts: &[Script]) -> Result<Run> {
        let mut command = self.client("pgbench");
        command.args(["-M", "prepared"]);
        if pgbench.serializable {
            // As often as it takes.
            command.args(["--max-tries", "0"]);
            command.env("PGOPTIONS", "-c default_transaction_isolation=serializable");
        }
        self.add_scripts(&mut command, scripts, pgbench.variables)?;
        let size = (pgbench.connections, pgbench.threads, pgbench.seconds);
        self.measured(command, size, scripts.len())
    }

    fn add_scripts(
        &self,
        command: &mut Command,
        scripts: &[Script],
        variables: &[(&str, i64)],
    ) -> Result<()> {
        for (name, value) in variables {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        for (number, script) in scripts.iter().enumerate() {
            let file = self.folder.path().join(format!("script-{number}.sql"));
            fs::write(&file, script.text).context("write a script")?;
            let weighted = format!("{}@{}", file.display(), script.weight);
            command.args(["-f", &weighted]);
        }
        Ok(())
    }

    /// Runs it with so many connections and threads for so many seconds.
    fn measured(
        &self,
        mut command: Command,
        (connections, threads, seconds): (u32, u32, u64),
        scripts: usize,
    ) -> Result<Run> {
        let logs = tempfile::tempdir_in(self.folder.path())?;
        command
            .args(["-n", "-l", "-c", &connections.to_string()])
            .args(["-j", &threads.to_string()])
            .args(["-T", &seconds.to_string()])
            .arg("--log-prefix")
            .arg(logs.path().join("log"));
        let busy = machine::busy_seconds();
        let output = succeed(&mut command)?;
        let busy = machine::busy_seconds() - busy;
        understood(&text(&output), logs.path(), scripts, busy)
    }
}

/// What its summary and its logs say; the machine was busy for so many seconds.
fn understood(said: &str, logs: &Path, scripts: usize, busy: f64) -> Result<Run> {
    let times = log::Times::read(logs, scripts)?;
    Ok(Run {
        answer: Answer {
            per_second: log::rate(said).with_context(|| format!("pgbench said: {said}"))?,
            p50_micros: times.percentile(0.50),
            p99_micros: times.percentile(0.99),
            cpu_micros: busy * 1e6 / times.count() as f64,
        },
        repeated: log::repeated(said),
        done: times.done,
    })
}
