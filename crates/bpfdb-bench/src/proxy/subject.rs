//! Each way from a client to the database.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};
use tempfile::TempDir;

use super::cgroup::Cgroup;
use super::{Load, MANY, SERVERS};
use crate::postgres::{self, Postgres};
use crate::tcp::{ends_with_us, own_folder};

const PROXY: &str = "bpfdb-proxy";
/// Of Debian.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";
const START_TIME: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
enum Way {
    Tcp,
    UnixSocket,
    PgBouncer,
    /// The proxy's process alone, or with its programs in this cgroup.
    Proxy(Option<PathBuf>),
}

pub(super) struct Subject {
    pub(super) name: String,
    way: Way,
}

pub(super) fn is_built() -> Result<bool> {
    Ok(own_folder()?.join(PROXY).exists())
}

pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

/// The proxy with its programs is the last.
pub(super) fn all(cgroup: &Cgroup) -> Vec<Subject> {
    let subject = |name: &str, way| Subject {
        name: name.to_owned(),
        way,
    };
    let mut all = vec![
        subject("direct TCP", Way::Tcp),
        subject("direct Unix socket", Way::UnixSocket),
    ];
    if let Some(version) = pgbouncer() {
        all.push(subject(&version, Way::PgBouncer));
    }
    all.push(subject("its process alone", Way::Proxy(None)));
    let cgroup = cgroup.path().to_owned();
    all.push(subject("in the kernel", Way::Proxy(Some(cgroup))));
    all
}

/// Its version, if it is installed.
fn pgbouncer() -> Option<String> {
    let said = Command::new(PGBOUNCER).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    Some(said.lines().next()?.to_owned())
}

impl Subject {
    pub(super) fn is_proxy(&self) -> bool {
        matches!(self.way, Way::PgBouncer | Way::Proxy(_))
    }

    pub(super) fn can(&self, load: Load) -> bool {
        match self.way {
            // More than the database takes.
            Way::Tcp | Way::UnixSocket => load.clients < MANY,
            // Before 1.21 it knows no prepared statements across servers.
            Way::PgBouncer => load.protocol != "prepared",
            Way::Proxy(_) => true,
        }
    }

    pub(super) fn start(&self, postgres: &Postgres) -> Result<Running> {
        let folder = tempfile::tempdir().context("create a folder")?;
        let direct = |host: String| Running {
            host,
            port: postgres.port(),
            child: None,
            _folder: None,
        };
        let port = match self.way {
            Way::Tcp => return Ok(direct("127.0.0.1".into())),
            Way::UnixSocket => {
                let host = postgres.socket_folder().display().to_string();
                return Ok(direct(host));
            }
            _ => free_port()?,
        };
        let mut command = match &self.way {
            Way::Proxy(cgroup) => proxy(cgroup.as_deref(), port, postgres)?,
            _ => pgbouncer_command(folder.path(), port, postgres)?,
        };
        let log = File::create(folder.path().join("log"))?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = ends_with_us(&mut command, Signal::SIGTERM).spawn();
        let child = child.with_context(|| format!("start {}", self.name))?;
        let mut running = Running {
            host: "127.0.0.1".into(),
            port,
            child: Some(child),
            _folder: Some(folder),
        };
        running.wait(&self.name)?;
        Ok(running)
    }
}

fn proxy(cgroup: Option<&Path>, port: u16, postgres: &Postgres) -> Result<Command> {
    let mut command = Command::new(own_folder()?.join(PROXY));
    let database = format!("*=host=127.0.0.1 port={}", postgres.port());
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--database", &database]);
    command.args(["--default-pool-size", &SERVERS.to_string()]);
    command.args(["--max-client-conn", &(MANY + 100).to_string()]);
    if let Some(cgroup) = cgroup {
        command.arg("--cgroup").arg(cgroup);
    }
    // Not a line for each client.
    command.env("RUST_LOG", "warn");
    Ok(command)
}

fn pgbouncer_command(folder: &Path, port: u16, postgres: &Postgres) -> Result<Command> {
    let file = folder.join("pgbouncer.ini");
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={} user={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
         default_pool_size = {SERVERS}\nmax_client_conn = {}\nlog_connections = 0\nlog_disconnections = 0\n",
        postgres.port(),
        postgres::USER,
        MANY + 100
    );
    fs::write(&file, text).context("write a file")?;
    postgres::give_away(folder)?;
    postgres::give_away_file(&file)?;
    let mut command = Command::new(PGBOUNCER);
    command.arg(&file);
    postgres::as_user(&mut command)?;
    Ok(command)
}

/// A way that is there; it goes when it is dropped.
pub(super) struct Running {
    host: String,
    port: u16,
    child: Option<Child>,
    _folder: Option<TempDir>,
}

impl Running {
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    fn wait(&mut self, name: &str) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect((self.host.as_str(), self.port)).is_err() {
            let ended = match &mut self.child {
                Some(child) => child.try_wait()?.is_some(),
                None => false,
            };
            if ended || begun.elapsed() > START_TIME {
                bail!("{name} does not listen");
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Of the proxy's process, so far; without one 0.
    pub(super) fn processor_seconds(&self) -> Result<f64> {
        let Some(child) = &self.child else {
            return Ok(0.0);
        };
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
        let ticks = own_ticks(&stat).context("/proc has no times of a process")?;
        let second = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100);
        Ok(ticks as f64 / second as f64)
    }
}

/// In user mode and in the kernel: columns 14 and 15, behind the name, which may have blanks.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut columns = rest.split_whitespace().skip(11);
    let user: u64 = columns.next()?.parse().ok()?;
    let system: u64 = columns.next()?.parse().ok()?;
    Some(user + system)
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process_are_read() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0";
        assert_eq!(own_ticks(stat), Some(150));
        assert_eq!(own_ticks("7 (a"), None);
    }
}
