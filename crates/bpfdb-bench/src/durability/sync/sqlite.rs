//! SQLite: one connection, which upserts one by one. SQLite has one writer at a time, so more
//! connections would wait for each other. The client is Python's module, since that is what
//! is there everywhere; it takes some microseconds of an upsert.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::plan::Plan;
use crate::tcp::{Answer, ends_with_us};

const SCRIPT: &str = include_str!("sqlite.py");

pub(super) struct Sqlite {
    pub(super) name: String,
    file: PathBuf,
}

impl Sqlite {
    /// A database in this folder, which is made, with all records.
    pub(super) fn new(folder: &Path, keys: u32) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut sqlite = Self {
            name: String::new(),
            file: folder.join("records.db"),
        };
        sqlite.python(&["fill", &sqlite.path(), &keys.to_string()])?;
        // The first run says which version it is.
        let said = sqlite.ask(keys, 0.0)?;
        sqlite.name = format!("SQLite {}", said.0);
        Ok(sqlite)
    }

    pub(super) fn run(&self, plan: &Plan) -> Result<Answer> {
        let (_, answer) = self.ask(plan.tcp_keys, plan.sync_time.as_secs_f64())?;
        Ok(answer)
    }

    /// Its version, and what it did.
    fn ask(&self, keys: u32, seconds: f64) -> Result<(String, Answer)> {
        let arguments = [self.path(), keys.to_string(), seconds.max(0.01).to_string()];
        let [file, keys, seconds] = &arguments;
        let said = self.python(&["run", file, keys, seconds])?;
        let mut words = said.split_whitespace();
        let version = words.next().context("no version")?.to_owned();
        let figures: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        let [per_second, p50_micros, p99_micros, busy] = figures[..] else {
            anyhow::bail!("the client of SQLite said: {said}");
        };
        let answer = Answer {
            per_second,
            p50_micros,
            p99_micros,
            cpu_micros: busy * 1e6,
        };
        Ok((version, answer))
    }

    fn path(&self) -> String {
        self.file.display().to_string()
    }

    fn python(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("python3");
        command
            .args(["-c", SCRIPT])
            .args(arguments)
            .stdin(Stdio::null());
        let output = ends_with_us(&mut command, Signal::SIGTERM).output();
        let output = output.context("run python3")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or_default();
        ensure!(output.status.success(), "python3, {}: {last}", arguments[0]);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
