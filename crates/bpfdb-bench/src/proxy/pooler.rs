//! The others' poolers: which there are, and how they are started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{MANY, SERVERS};
use crate::plan::Plan;
use crate::postgres::{self, Postgres};

/// Of the distribution.
const INSTALLED: &str = "/usr/sbin/pgbouncer";
/// Newer ones, which the script puts here.
const FOLDER: &str = "target/bench-poolers";
const SCRIPT: &str = "scripts/bench-poolers.sh";
/// The first PgBouncer that takes prepared statements from server to server.
const PREPARES: (u32, u32) = (1, 21);

/// Where a proxy listens, and the database.
pub(super) struct At {
    pub(super) listen: String,
    pub(super) port: u16,
    pub(super) database: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PgBouncer,
    Odyssey,
}

#[derive(Clone, Debug)]
pub(super) struct Pooler {
    /// With its version.
    pub(super) name: String,
    /// Does it know prepared statements in transaction pooling?
    pub(super) prepares: bool,
    kind: Kind,
    program: PathBuf,
}

/// Those to compare with, and why they are not the newer ones.
pub(super) struct Poolers {
    pub(super) all: Vec<Pooler>,
    pub(super) note: Option<String>,
}

/// Where the network is that of the machine, as they may have to be fetched.
pub(super) fn poolers(plan: &Plan) -> Poolers {
    match newest(plan) {
        Ok(all) => Poolers { all, note: None },
        Err(error) => Poolers {
            all: Pooler::at(Kind::PgBouncer, INSTALLED.into())
                .into_iter()
                .collect(),
            note: Some(format!("no newer PgBouncer, and no Odyssey: {error:#}")),
        },
    }
}

/// Fetched into the build folder the first time.
fn newest(plan: &Plan) -> Result<Vec<Pooler>> {
    let folder = Path::new(FOLDER);
    let those = || {
        [Kind::PgBouncer, Kind::Odyssey]
            .map(|kind| Pooler::at(kind, folder.join(kind.program())))
            .into_iter()
            .collect()
    };
    let there: Result<Vec<_>> = those();
    if there.is_ok() {
        return there;
    }
    ensure!(!plan.quick, "a quick run installs nothing");
    let mut command = Command::new("sh");
    command.args([SCRIPT, FOLDER]).stdin(Stdio::null());
    let output = command.output().context("run sh")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{SCRIPT}: {}", text.lines().last().unwrap_or_default());
    }
    those()
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::PgBouncer => "pgbouncer",
            Self::Odyssey => "odyssey",
        }
    }
}

impl Pooler {
    /// If it is there, and may be started by whom PostgreSQL is started by.
    fn at(kind: Kind, program: PathBuf) -> Result<Self> {
        let path = program.canonicalize();
        let program = path.with_context(|| format!("no {}", program.display()))?;
        let mut command = Command::new(&program);
        let command = postgres::as_user(command.arg("--version"))?;
        let output = command.output();
        let output = output.with_context(|| format!("run {}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = version(&said);
        let version = version.with_context(|| format!("{} has no version", program.display()))?;
        Ok(Self {
            name: format!("{kind:?} {version}"),
            prepares: kind == Kind::Odyssey || release(version) >= Some(PREPARES),
            kind,
            program,
        })
    }

    /// To be run by the user of PostgreSQL: neither wants to be root's.
    pub(super) fn command(&self, folder: &Path, at: &At, postgres: &Postgres) -> Result<Command> {
        let file = folder.join("configuration");
        let text = match self.kind {
            Kind::PgBouncer => pgbouncer(at, postgres.port()),
            Kind::Odyssey => odyssey(at, postgres.port()),
        };
        fs::write(&file, text).context("write a file")?;
        postgres::give_away(folder)?;
        postgres::give_away_file(&file)?;
        let mut command = Command::new(&self.program);
        command.arg(&file);
        postgres::as_user(&mut command)?;
        Ok(command)
    }
}

/// The second word of what a program says of itself.
fn version(said: &str) -> Option<&str> {
    said.lines().next()?.split_whitespace().nth(1)
}

fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn pgbouncer(at: &At, port: u16) -> String {
    let At {
        listen,
        port: own,
        database,
    } = at;
    format!(
        "[databases]\n* = host={database} port={port} user={}\n[pgbouncer]\nlisten_addr = {listen}\n\
         listen_port = {own}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
         default_pool_size = {SERVERS}\nmax_client_conn = {}\nlog_connections = 0\nlog_disconnections = 0\n",
        postgres::USER,
        MANY + 100
    )
}

/// With one thread, as it has without a setting, and as PgBouncer is.
fn odyssey(at: &At, port: u16) -> String {
    let At {
        listen,
        port: own,
        database,
    } = at;
    format!(
        "daemonize no\nlog_to_stdout yes\nlog_format \"%m\\n\"\nlog_session no\nlog_query no\nlog_stats no\n\
         listen {{\n  host \"{listen}\"\n  port {own}\n}}\n\
         storage \"server\" {{\n  type \"remote\"\n  host \"{database}\"\n  port {port}\n}}\n\
         database default {{\n  user default {{\n    authentication \"none\"\n    storage \"server\"\n    \
         pool \"transaction\"\n    pool_size {SERVERS}\n    pool_discard no\n    \
         pool_reserve_prepared_statement yes\n  }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let odyssey = "odyssey 1.5.2 release +pam -ldap\ncompiled by gcc";
        assert_eq!(version(odyssey), Some("1.5.2"));
        assert_eq!(version("PgBouncer 1.18.0\nlibevent 2"), Some("1.18.0"));
        assert_eq!(version(""), None);
    }

    #[test]
    fn which_release_prepares_is_known() {
        assert!(release("1.18.0") < Some(PREPARES));
        assert!(release("1.21.0") >= Some(PREPARES));
        assert!(release("1.26.1") >= Some(PREPARES));
        assert!(release("unknown") < Some(PREPARES));
    }
}
