//! A PostgreSQL server with a cluster of its own, for comparison. It listens to no network unless its settings
//! say so.
//!
//! ```text
//! programs.rs   where PostgreSQL is, and as which user it runs
//! pgbench.rs    its client
//! log.rs        what pgbench says
//! ```

mod log;
mod pgbench;
mod programs;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::tcp::ends_with_us;
pub(crate) use pgbench::{Pgbench, PgbenchAt, Run, Script, Work};
pub(crate) use programs::{USER, as_user, give_away, give_away_file};
use programs::{succeed, text};

/// Without a setting.
const PORT: u16 = 5432;
const MAX_CONNECTIONS: u32 = 300;
const START_TIME: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A running server; stopped when dropped.
pub(crate) struct Postgres {
    pub(crate) name: String,
    programs: PathBuf,
    port: u16,
    child: Child,
    /// Has the socket, scripts, and what pgbench logs.
    folder: TempDir,
}

impl Postgres {
    /// With its files in `data`, which is made. All settings are the default ones, but for
    /// `max_connections` and these.
    pub(crate) fn start(data: &Path, settings: &[&str]) -> Result<Self> {
        let programs = programs::folder()?;
        let folder = tempfile::tempdir().context("create a folder")?;
        let version = text(&succeed(
            Command::new(programs.join("postgres")).arg("--version"),
        )?);
        let version = version.split_whitespace().nth(2).unwrap_or_default();
        for path in [data, folder.path()] {
            fs::create_dir_all(path)?;
            give_away(path)?;
        }
        let mut init = Command::new(programs.join("initdb"));
        init.args(["--auth", "trust", "--locale", "C", "--encoding", "UTF8"]);
        init.args(["--username", USER, "--pgdata"]).arg(data);
        succeed(as_user(&mut init)?)?;
        let mut postgres = Self {
            name: format!("PostgreSQL {version}"),
            child: serve(&programs, data, folder.path(), settings)?,
            programs,
            port: port(settings),
            folder,
        };
        postgres.wait()?;
        Ok(postgres)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where its Unix socket is.
    pub(crate) fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// The tables of pgbench's own scripts.
    pub(crate) fn fill_for_pgbench(&self, scale: u32) -> Result<()> {
        let mut command = self.client("pgbench");
        command.args(["-i", "-q", "-s", &scale.to_string()]);
        succeed(&mut command).map(drop)
    }

    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < START_TIME && self.child.try_wait()?.is_none() {
            if self.client("pg_isready").output()?.status.success() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        let said = fs::read_to_string(self.folder.path().join("log"));
        let said = said.unwrap_or_default();
        bail!(
            "PostgreSQL does not answer: {}",
            said.lines().last().unwrap_or_default()
        )
    }

    /// Executes a statement: its rows, one a line, columns separated by `|`.
    pub(crate) fn ask(&self, statement: &str) -> Result<String> {
        let output = succeed(self.psql().args(["--command", statement]))?;
        Ok(text(&output))
    }

    /// The same at another address, such as that of a proxy's console.
    pub(crate) fn ask_at(
        &self,
        (host, port): (&str, u16),
        database: &str,
        statement: &str,
    ) -> Result<String> {
        let mut command = self.psql();
        // The last host and port count.
        command.args(["-h", host, "-p", &port.to_string(), "-d", database]);
        Ok(text(&succeed(command.args(["--command", statement]))?))
    }

    /// Executes the statements of a text, in which psql puts variables.
    pub(crate) fn execute(&self, statements: &str, variables: &[(&str, i64)]) -> Result<()> {
        let file = self.folder.path().join("statements.sql");
        fs::write(&file, statements).context("write statements")?;
        let mut command = self.psql();
        for (name, value) in variables {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        succeed(command.arg("--file").arg(&file)).map(drop)
    }

    fn psql(&self) -> Command {
        let mut command = self.client("psql");
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        command.args(["--set", "ON_ERROR_STOP=1"]);
        command
    }

    /// One of its programs, connected.
    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-h").arg(self.folder.path()).args(["-U", USER]);
        command.args(["-p", &self.port.to_string()]);
        command.env("PGDATABASE", USER);
        command
    }
}

/// That of the socket, too.
fn port(settings: &[&str]) -> u16 {
    let named = settings.iter().find_map(|one| one.strip_prefix("port="));
    named.and_then(|port| port.parse().ok()).unwrap_or(PORT)
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // "Fast": clients are not waited for.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        let _ = self.child.wait();
    }
}

fn serve(programs: &Path, data: &Path, folder: &Path, settings: &[&str]) -> Result<Child> {
    let log = File::create(folder.join("log"))?;
    let mut command = Command::new(programs.join("postgres"));
    command.arg("-D").arg(data).arg("-k").arg(folder);
    let connections = format!("max_connections={MAX_CONNECTIONS}");
    for setting in [&["listen_addresses=", connections.as_str()], settings].concat() {
        command.args(["-c", setting]);
    }
    command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let command = ends_with_us(as_user(&mut command)?, Signal::SIGINT);
    command.spawn().context("start PostgreSQL")
}
