//! PostgreSQL: upserts by a prepared statement, by pgbench over a Unix socket. A cluster of its
//! own with the default settings, so every commit waits for the disk (`synchronous_commit` and
//! `fsync` are on); only `max_connections` is raised. It listens to no network.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tempfile::TempDir;

use super::log;
use crate::machine;
use crate::plan::Plan;
use crate::tcp::{Answer, Load, ends_with_us};

/// Of Debian: a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// It refuses to run as root.
const USER: &str = "postgres";
const MAX_CONNECTIONS: u32 = 300;
const START_TIME: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A running server; stopped when dropped.
pub(super) struct Postgres {
    pub(super) name: String,
    programs: PathBuf,
    child: Child,
    /// Has the socket, the script, and what pgbench logs.
    folder: TempDir,
}

impl Postgres {
    /// With its files in `data`, which is made, and all records.
    pub(super) fn start(data: &Path, keys: u32) -> Result<Self> {
        let programs = programs()?;
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
            child: serve(&programs, data, folder.path())?,
            programs,
            folder,
        };
        postgres.wait()?;
        postgres.fill(keys)?;
        Ok(postgres)
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

    fn fill(&self, keys: u32) -> Result<()> {
        let last = keys - 1;
        for statement in [
            "CREATE TABLE records (key text PRIMARY KEY, value text NOT NULL)",
            &format!(
                "INSERT INTO records SELECT 'key:' || lpad(n::text, 12, '0'), '0123456789abcdef' \
                 FROM generate_series(0, {last}) AS n"
            ),
            "VACUUM ANALYZE records",
            "CHECKPOINT",
        ] {
            succeed(
                self.client("psql")
                    .args(["--quiet", "--command", statement]),
            )?;
        }
        let script = format!(
            "\\set n random(0, {last})\n\
             INSERT INTO records VALUES ('key:' || lpad(:n::text, 12, '0'), '0123456789abcdef') \
             ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value;\n"
        );
        fs::write(self.script(), script).context("write a script")
    }

    pub(super) fn run(&self, plan: &Plan, load: Load) -> Result<Answer> {
        let seconds = plan.sync_time.as_secs().max(1);
        let logs = tempfile::tempdir_in(self.folder.path())?;
        let mut command = self.client("pgbench");
        command
            .args(["-M", "prepared", "-n", "-c", &load.connections.to_string()])
            .args(["-j", &load.threads.to_string(), "-T", &seconds.to_string()])
            .args([
                "-l",
                "--log-prefix",
                &logs.path().join("log").display().to_string(),
            ])
            .arg("-f")
            .arg(self.script());
        let busy = machine::busy_seconds();
        let output = succeed(&mut command)?;
        let busy = machine::busy_seconds() - busy;
        let said = text(&output);
        let per_second = log::rate(&said).with_context(|| format!("pgbench said: {said}"))?;
        let times = log::Times::read(logs.path())?;
        Ok(Answer {
            per_second,
            p50_micros: times.percentile(0.50),
            p99_micros: times.percentile(0.99),
            cpu_micros: busy * 1e6 / times.count() as f64,
        })
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("upsert.sql")
    }

    /// One of its programs, connected.
    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-h").arg(self.folder.path()).args(["-U", USER]);
        command.env("PGDATABASE", USER);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // "Fast": clients are not waited for.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        let _ = self.child.wait();
    }
}

/// The folder of the newest version's programs.
fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<f64>().ok();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").is_file())
        .max_by(|a, b| {
            version(a)
                .partial_cmp(&version(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
    let in_path = || {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).find(|folder| folder.join("initdb").is_file())
    };
    newest
        .map(|path| path.join("bin"))
        .or_else(in_path)
        .context("no PostgreSQL: run scripts/setup.sh")
}

fn serve(programs: &Path, data: &Path, folder: &Path) -> Result<Child> {
    let log = fs::File::create(folder.join("log"))?;
    let mut command = Command::new(programs.join("postgres"));
    command
        .arg("-D")
        .arg(data)
        .arg("-k")
        .arg(folder)
        .args(["-c", "listen_addresses="])
        .args(["-c", &format!("max_connections={MAX_CONNECTIONS}")])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let command = ends_with_us(as_user(&mut command)?, Signal::SIGINT);
    command.spawn().context("start PostgreSQL")
}

/// Whose PostgreSQL is: its own user, if we are root.
fn user() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let user = User::from_name(USER)?;
    user.map(Some)
        .with_context(|| format!("there is no user {USER}"))
}

fn as_user(command: &mut Command) -> Result<&mut Command> {
    if let Some(user) = user()? {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        command.current_dir("/");
    }
    Ok(command)
}

/// Makes a folder that user's.
fn give_away(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    if let Some(user) = user()? {
        chown(folder, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    Ok(())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn succeed(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{command:?}: {last}");
    Ok(output)
}
