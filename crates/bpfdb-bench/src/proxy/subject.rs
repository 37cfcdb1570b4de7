//! Each way from a client to the database.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};
use tempfile::TempDir;

use super::cgroup::Cgroup;
use super::pooler::{At, Pooler};
use super::{Load, MANY, Networks, SERVERS};
use crate::postgres::{self, Postgres};
use crate::tcp::{NetworkNamespace, ends_with_us, own_folder};

const PROXY: &str = "bpfdb-proxy";
const START_TIME: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
enum Way {
    Tcp,
    UnixSocket,
    Pooler(Pooler),
    Proxy(Proxy),
}

#[derive(Clone, Debug, Default)]
struct Proxy {
    /// That of its programs; without one it is the process alone.
    cgroup: Option<PathBuf>,
    has_mirror: bool,
}

/// Where clients and database are, as the proxy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Here,
    /// Behind a cable. A client without a proxy is elsewhere than the database, too.
    Elsewhere,
}

/// The database of a mirror.
pub(super) const MIRROR: &str = "mirrored";
/// That of the proxy's console.
const CONSOLE: &str = "pgbouncer";

pub(super) struct Subject {
    pub(super) name: String,
    pub(super) ends: Ends,
    way: Way,
}

pub(super) fn is_built() -> Result<bool> {
    Ok(own_folder()?.join(PROXY).exists())
}

pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

fn subject(name: &str, ends: Ends, way: Way) -> Subject {
    Subject {
        name: name.to_owned(),
        ends,
        way,
    }
}

/// All on this machine; the proxy with its programs is the last.
pub(super) fn local(cgroup: &Cgroup, poolers: &[Pooler]) -> Vec<Subject> {
    let here = |name: &str, way| subject(name, Ends::Here, way);
    let mut all = vec![
        here("direct TCP", Way::Tcp),
        here("direct Unix socket", Way::UnixSocket),
    ];
    let others = poolers.iter();
    all.extend(others.map(|pooler| here(&pooler.name, Way::Pooler(pooler.clone()))));
    all.push(here("its process alone", Way::Proxy(Proxy::default())));
    all.push(here("in the kernel", Way::Proxy(Proxy::within(cgroup))));
    all
}

/// The proxy is the last.
pub(super) fn remote(poolers: &[Pooler]) -> Vec<Subject> {
    let elsewhere = |name: &str, way| subject(name, Ends::Elsewhere, way);
    let mut all = vec![elsewhere("direct TCP", Way::Tcp)];
    let others = poolers.iter();
    all.extend(others.map(|pooler| elsewhere(&pooler.name, Way::Pooler(pooler.clone()))));
    all.push(elsewhere("bpfdb-proxy", Way::Proxy(Proxy::default())));
    all
}

/// Each way without a mirror, and behind it with one.
pub(super) fn mirrored(cgroup: &Cgroup) -> Vec<Subject> {
    let ways = [
        ("in the kernel", Proxy::within(cgroup)),
        ("its process alone", Proxy::default()),
    ];
    let both = |(name, proxy): (&str, Proxy)| {
        [false, true].map(|has_mirror| {
            let proxy = Proxy {
                has_mirror,
                ..proxy.clone()
            };
            subject(name, Ends::Here, Way::Proxy(proxy))
        })
    };
    ways.into_iter().flat_map(both).collect()
}

impl Proxy {
    fn within(cgroup: &Cgroup) -> Self {
        Self {
            cgroup: Some(cgroup.path().to_owned()),
            has_mirror: false,
        }
    }
}

impl Subject {
    pub(super) fn is_proxy(&self) -> bool {
        matches!(self.way, Way::Pooler(_) | Way::Proxy(_))
    }

    pub(super) fn can(&self, load: Load) -> bool {
        match &self.way {
            // More than the database takes.
            Way::Tcp | Way::UnixSocket => load.clients < MANY,
            Way::Pooler(pooler) => load.protocol != "prepared" || pooler.prepares,
            Way::Proxy(_) => true,
        }
    }

    /// Where its clients are.
    pub(super) fn clients<'a>(&self, networks: &'a Networks) -> &'a NetworkNamespace {
        match (self.ends, &self.way) {
            (Ends::Elsewhere, Way::Tcp) => &networks.elsewhere,
            _ => &networks.own,
        }
    }

    /// Transactions that its mirror has lost, %, if it has one.
    pub(super) fn lost(&self, postgres: &Postgres, running: &Running) -> Result<Option<f64>> {
        let Way::Proxy(Proxy {
            has_mirror: true, ..
        }) = self.way
        else {
            return Ok(None);
        };
        let shown = postgres.ask_at(running.address(), CONSOLE, "SHOW MIRRORS")?;
        let lost = lost_percent(&shown);
        lost.map(Some)
            .with_context(|| format!("SHOW MIRRORS: {shown}"))
    }

    /// In the namespace of this thread.
    pub(super) fn start(&self, networks: &Networks, postgres: &Postgres) -> Result<Running> {
        let folder = tempfile::tempdir().context("create a folder")?;
        let direct = |host: String| Running {
            host,
            port: postgres.port(),
            child: None,
            _folder: None,
        };
        let loopback = || "127.0.0.1".to_owned();
        let (listen, database) = match self.ends {
            Ends::Here => (loopback(), loopback()),
            Ends::Elsewhere => (
                networks.elsewhere.address.to_string(),
                networks.own.address.to_string(),
            ),
        };
        let at = At {
            listen,
            port: free_port()?,
            database,
        };
        let mut command = match &self.way {
            Way::Tcp => return Ok(direct(at.database)),
            Way::UnixSocket => {
                let host = postgres.socket_folder().display().to_string();
                return Ok(direct(host));
            }
            Way::Proxy(proxy) => proxy.command(&at, postgres)?,
            Way::Pooler(pooler) => pooler.command(folder.path(), &at, postgres)?,
        };
        let log = File::create(folder.path().join("log"))?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = ends_with_us(&mut command, Signal::SIGTERM).spawn();
        let child = child.with_context(|| format!("start {}", self.name))?;
        let mut running = Running {
            host: at.listen,
            port: at.port,
            child: Some(child),
            _folder: Some(folder),
        };
        running.wait(&self.name)?;
        Ok(running)
    }
}

impl Proxy {
    fn command(&self, at: &At, postgres: &Postgres) -> Result<Command> {
        let mut command = Command::new(own_folder()?.join(PROXY));
        let At {
            listen,
            port,
            database,
        } = at;
        command.args(["--listen", &format!("{listen}:{port}")]);
        let place = format!("host={database} port={}", postgres.port());
        let user = postgres::USER;
        let databases = match self.has_mirror {
            false => vec![format!("*={place}")],
            true => vec![
                format!("{user}={place} mirror={MIRROR}"),
                format!("{MIRROR}={place}"),
            ],
        };
        for database in &databases {
            command.args(["--database", database]);
        }
        command.args(["--default-pool-size", &SERVERS.to_string()]);
        command.args(["--max-client-conn", &(MANY + 100).to_string()]);
        command.args(["--admin-users", user]);
        if let Some(cgroup) = &self.cgroup {
            command.arg("--cgroup").arg(cgroup);
        }
        // Not a line for each client.
        command.env("RUST_LOG", "warn");
        Ok(command)
    }
}

/// Of the only row of SHOW MIRRORS.
fn lost_percent(shown: &str) -> Option<f64> {
    let mut columns = shown.trim().split('|').skip(4);
    let done: f64 = columns.next()?.parse().ok()?;
    let lost: f64 = columns.next()?.parse().ok()?;
    let all = done + lost;
    Some(if all > 0.0 { lost * 100.0 / all } else { 0.0 })
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
    fn what_a_mirror_has_lost_is_read() {
        let shown = "postgres|mirrored|4|0|300|100|0|17\n";
        assert_eq!(lost_percent(shown), Some(25.0));
        assert_eq!(lost_percent("postgres|mirrored|4|0|0|0|0|0"), Some(0.0));
        assert_eq!(lost_percent(""), None);
    }

    #[test]
    fn times_of_a_process_are_read() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0";
        assert_eq!(own_ticks(stat), Some(150));
        assert_eq!(own_ticks("7 (a"), None);
    }
}
