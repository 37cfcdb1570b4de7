//! Servers, each a process of its own on a free port.

use std::env;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::fill;
use super::namespace::NetworkNamespace;
use super::path::CONNECTIONS_MAX;

const START_TIME: Duration = Duration::from_secs(60);
const STOP_TIME: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Memory that `bpfdb serve` may use: one million values of 1 KiB and more.
const MEMORY: &str = "4G";
const MEMORY_QUICK: &str = "256M";

/// For the connections that measure, and for ours besides.
const MAXCLIENTS: u32 = CONNECTIONS_MAX + 100;

/// A running server; stopped when dropped.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) client_namespace: NetworkNamespace,
    child: Child,
    folder: TempDir,
}

impl Server {
    /// `bpfdb serve`, from the folder of this program.
    pub(crate) fn bpfdb(
        local_clients: &str,
        namespaces: &[NetworkNamespace; 2],
        quick: bool,
    ) -> Result<Self> {
        let program = own_folder()?.join("bpfdb");
        if !program.exists() {
            bail!("{}: not built", program.display());
        }
        let memory = if quick { MEMORY_QUICK } else { MEMORY };
        Self::start("bpfdb".into(), &program, namespaces, |command, address| {
            command.args(["serve", "--appendonly", "no", "--maxmemory", memory]);
            command.args(["--bind", &address.ip().to_string()]);
            command.args(["--port", &address.port().to_string()]);
            command.args(["--local-clients", local_clients]);
            command.args(["--maxclients", &MAXCLIENTS.to_string()]);
        })
    }

    /// A redis-server that keeps everything in memory only.
    pub(crate) fn redis(program: &Path, namespaces: &[NetworkNamespace; 2]) -> Result<Self> {
        let name = redis_version(program)?;
        Self::start(name, program, namespaces, |command, address| {
            command.args(["--bind", &address.ip().to_string()]);
            command.args(["--port", &address.port().to_string()]);
            command.args(["--protected-mode", "no"]);
            command.args(["--save", "", "--appendonly", "no"]);
            command.args(["--maxclients", &MAXCLIENTS.to_string()]);
        })
    }

    fn start(
        name: String,
        program: &Path,
        [namespace, client_namespace]: &[NetworkNamespace; 2],
        arguments: impl FnOnce(&mut Command, SocketAddr),
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("create a folder")?;
        let log = File::create(folder.path().join("log")).context("create a log")?;
        let address = namespace.visit(|| free_address(namespace.address))??;
        let mut command = Command::new(program);
        arguments(&mut command, address);
        namespace.of_command(&mut command);
        let child = ends_with_us(&mut command)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut server = Self {
            name,
            address,
            client_namespace: client_namespace.clone(),
            child,
            folder,
        };
        server.wait()?;
        Ok(server)
    }

    /// Until it answers.
    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < START_TIME {
            if self.child.try_wait()?.is_some() {
                break;
            }
            if self
                .client_namespace
                .visit(|| fill::answers(self.address))?
            {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        bail!("{} does not answer: {}", self.name, self.log());
    }

    /// How it is, for a message: whether it has ended, and what it said last.
    pub(crate) fn state(&mut self) -> String {
        let ended = match self.child.try_wait() {
            Ok(Some(status)) => format!("has ended, {status}"),
            _ => "runs".into(),
        };
        format!("{} {ended}: {}", self.name, self.log())
    }

    /// The end of what it said.
    fn log(&self) -> String {
        let text = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// A connection of our own.
    pub(crate) fn connect(&self) -> Result<TcpStream> {
        TcpStream::connect(self.address).with_context(|| format!("connect to {}", self.name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let start = Instant::now();
        let stopped = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        while stopped.is_ok() && start.elapsed() < STOP_TIME {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(PAUSE);
        }
        let _ = writeln!(std::io::stderr(), "{} did not stop by itself", self.name);
        // It is gone already, or it goes now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel tells it to stop when this program has ended, however it did.
fn ends_with_us(command: &mut Command) -> &mut Command {
    let ask = || set_pdeathsig(Signal::SIGTERM).map_err(Into::into);
    // SAFETY: a system call; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) }
}

fn free_address(ip: IpAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind((ip, 0)).context("find a free port")?;
    Ok(listener.local_addr()?)
}

/// Where cargo put this program and the others.
fn own_folder() -> Result<PathBuf> {
    let program = env::current_exe().context("find this program")?;
    program
        .parent()
        .map(Path::to_owned)
        .context("this program is in no folder")
}

/// `Redis 7.0.15`.
fn redis_version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))
        .with_context(|| format!("{} is no redis-server", program.display()))?;
    Ok(format!("Redis {version}"))
}
