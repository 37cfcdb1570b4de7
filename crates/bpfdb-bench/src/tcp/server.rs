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

/// Some load all their data first.
const START_TIME: Duration = Duration::from_secs(300);
const STOP_TIME: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Between two looks at whether it answers: how exact a start is timed.
const START_PAUSE: Duration = Duration::from_millis(5);
/// Memory that `bpfdb serve` may use: one million values of 1 KiB and more.
const MEMORY: &str = "4G";
const MEMORY_QUICK: &str = "256M";

/// Beside this program.
const PROGRAM: &str = "bpfdb";

/// For the connections that measure, and for ours besides.
const MAXCLIENTS: u32 = CONNECTIONS_MAX + 100;

/// Whether a server answers there.
type Answers = fn(SocketAddr) -> bool;

/// A running server; stopped when dropped.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) client_namespace: NetworkNamespace,
    answers: Answers,
    /// How long it took until it answered for the first time.
    pub(crate) start_time: Duration,
    command: Command,
    child: Child,
    folder: TempDir,
}

impl Server {
    /// `bpfdb serve` without a log.
    pub(crate) fn bpfdb(
        local_clients: &str,
        namespaces: &[NetworkNamespace; 2],
        quick: bool,
    ) -> Result<Self> {
        let settings = ["--appendonly", "no", "--local-clients", local_clients];
        Self::bpfdb_with(&settings, namespaces, quick)
    }

    /// `bpfdb serve`, from the folder of this program, with these flags besides those for
    /// its address and its memory.
    pub(crate) fn bpfdb_with(
        settings: &[&str],
        namespaces: &[NetworkNamespace; 2],
        quick: bool,
    ) -> Result<Self> {
        let program = own_folder()?.join(PROGRAM);
        if !program.exists() {
            bail!("{}: not built", program.display());
        }
        let memory = if quick { MEMORY_QUICK } else { MEMORY };
        let name = "bpfdb".into();
        Self::start(
            name,
            &program,
            namespaces,
            fill::answers,
            |command, address| {
                command.args(["serve", "--maxmemory", memory]);
                command.args(["--bind", &address.ip().to_string()]);
                command.args(["--port", &address.port().to_string()]);
                command.args(["--maxclients", &MAXCLIENTS.to_string()]);
                command.args(settings);
            },
        )
    }

    /// Whether there is a `bpfdb` to be measured.
    pub(crate) fn is_built() -> Result<bool> {
        Ok(own_folder()?.join(PROGRAM).exists())
    }

    /// A redis-server that keeps everything in memory only.
    pub(crate) fn redis(program: &Path, namespaces: &[NetworkNamespace; 2]) -> Result<Self> {
        Self::redis_with(&["--save", "", "--appendonly", "no"], program, namespaces)
    }

    /// A redis-server with these flags besides those for its address.
    pub(crate) fn redis_with(
        settings: &[&str],
        program: &Path,
        namespaces: &[NetworkNamespace; 2],
    ) -> Result<Self> {
        let name = redis_version(program)?;
        Self::start(
            name,
            program,
            namespaces,
            fill::answers,
            |command, address| {
                command.args(["--bind", &address.ip().to_string()]);
                command.args(["--port", &address.port().to_string()]);
                command.args(["--protected-mode", "no"]);
                command.args(["--maxclients", &MAXCLIENTS.to_string()]);
                command.args(settings);
            },
        )
    }

    /// Under another name.
    pub(crate) fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Any server that gets its address by arguments.
    pub(crate) fn start(
        name: String,
        program: &Path,
        [namespace, client_namespace]: &[NetworkNamespace; 2],
        answers: Answers,
        arguments: impl FnOnce(&mut Command, SocketAddr),
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("create a folder")?;
        let log = File::create(folder.path().join("log")).context("create a log")?;
        let address = namespace.visit(|| free_address(namespace.address))??;
        let mut command = Command::new(program);
        arguments(&mut command, address);
        namespace.of_command(&mut command);
        ends_with_us(&mut command, Signal::SIGTERM)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let begun = Instant::now();
        let mut server = Self {
            name,
            address,
            client_namespace: client_namespace.clone(),
            answers,
            start_time: Duration::ZERO,
            child: spawn(&mut command)?,
            command,
            folder,
        };
        server.wait(begun)?;
        Ok(server)
    }

    /// Until it answers. Redis does not as long as it loads its data.
    fn wait(&mut self, begun: Instant) -> Result<()> {
        while begun.elapsed() < START_TIME {
            if self.child.try_wait()?.is_some() {
                break;
            }
            if self
                .client_namespace
                .visit(|| (self.answers)(self.address))?
            {
                self.start_time = begun.elapsed();
                return Ok(());
            }
            thread::sleep(START_PAUSE);
        }
        bail!("{} does not answer: {}", self.name, self.log());
    }

    /// Starts it again, after it has ended, as it was started, at the same address.
    pub(crate) fn restart(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.child = spawn(&mut self.command)?;
        self.wait(begun)
    }

    /// Has it end, as its user would, and waits for that.
    pub(crate) fn stop(&mut self) -> Result<()> {
        if self.ends()? {
            return Ok(());
        }
        bail!("{} did not stop by itself", self.name)
    }

    /// Asks it to end: whether it has.
    fn ends(&mut self) -> Result<bool> {
        if self.child.try_wait()?.is_some() {
            return Ok(true);
        }
        let start = Instant::now();
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM)?;
        while start.elapsed() < STOP_TIME {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            thread::sleep(PAUSE);
        }
        Ok(false)
    }

    /// Ends it in the middle of whatever it does. What bpfdb leaves in the kernel is for
    /// [`Server::restart`].
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill a server")?;
        self.child.wait().context("wait for a server")?;
        Ok(())
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
        let connect = || TcpStream::connect(self.address);
        let connected = self.client_namespace.visit(connect)?;
        connected.with_context(|| format!("connect to {}", self.name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.ends(), Ok(true)) {
            return;
        }
        let _ = writeln!(std::io::stderr(), "{} did not stop by itself", self.name);
        // It is gone already, or it goes now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(command: &mut Command) -> Result<Child> {
    let child = command.spawn();
    child.with_context(|| format!("start {}", command.get_program().display()))
}

/// The kernel sends it this signal when this program has ended, however it did.
pub(crate) fn ends_with_us(command: &mut Command, signal: Signal) -> &mut Command {
    let ask = move || set_pdeathsig(signal).map_err(Into::into);
    // SAFETY: a system call; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) }
}

fn free_address(ip: IpAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind((ip, 0)).context("find a free port")?;
    Ok(listener.local_addr()?)
}

/// Where cargo put this program and the others.
pub(crate) fn own_folder() -> Result<PathBuf> {
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
