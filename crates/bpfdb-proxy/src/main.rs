//! The `bpfdb-proxy` command.

mod flags;
mod log_file;

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use bpfdb_proxy::settings::Administration;
use bpfdb_proxy::{Proxy, Stopper};
use bpfdb_service::notify;
use clap::Parser;
use log_file::LogFile;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    match run(flags::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bpfdb-proxy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: flags::Arguments) -> anyhow::Result<()> {
    let file = arguments.settings()?;
    let log = start_log(&file.settings.administration)?;
    for warning in &file.warnings {
        tracing::warn!("{warning}");
    }
    raise_limit();
    let pid_file = file.settings.administration.pid_file.clone();
    check_writable(pid_file.as_deref())?;
    // In every thread, before there is another.
    let signals = handled();
    signals.thread_block().context("cannot block signals")?;
    let (mut proxy, stopper) = Proxy::new(file.settings)?;
    // Until here it is that of a proxy that this one follows.
    let _pid_file = PidFile::write(pid_file);
    proxy.on_reload(move || {
        if let Some(log) = &log {
            log.open_again();
        }
        arguments.settings().map_err(|error| format!("{error:#}"))
    });
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || wait_for(&signals, &stopper))
        .context("cannot start a thread")?;
    if let Some(address) = proxy.address() {
        tracing::info!(%address, "ready");
    }
    notify::ready();
    proxy.run()?;
    notify::stopping();
    Ok(())
}

/// Each client and each server takes a descriptor: the process has as many as the system allows it.
fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

/// To standard error, or to `logfile`.
fn start_log(administration: &Administration) -> anyhow::Result<Option<LogFile>> {
    let chosen = EnvFilter::try_from_default_env();
    let level = if administration.verbose > 0 {
        "debug"
    } else {
        "info"
    };
    let log =
        tracing_subscriber::fmt().with_env_filter(chosen.unwrap_or_else(|_| EnvFilter::new(level)));
    let Some(path) = &administration.log_file else {
        let is_terminal = io::stderr().is_terminal();
        log.with_ansi(is_terminal).with_writer(io::stderr).init();
        return Ok(None);
    };
    let file = LogFile::open(path)?;
    let writer = file.clone();
    log.with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    Ok(Some(file))
}

/// The file that holds our number for as long as we run.
struct PidFile(Option<PathBuf>);

impl PidFile {
    /// The proxy may have taken the place of another one by now: so it serves without the file, too.
    fn write(path: Option<PathBuf>) -> Self {
        if let Some(path) = &path {
            let number = format!("{}\n", std::process::id());
            if let Err(error) = fs::write(path, number) {
                tracing::error!(%error, path = %path.display(), "cannot write pidfile");
            }
        }
        Self(path)
    }
}

/// Can the file be written? What is in it stays.
fn check_writable(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let was_there = path.exists();
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.with_context(|| format!("cannot write pidfile {}", path.display()))?;
    if !was_there {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        // Not that of a proxy that has taken over.
        let written = fs::read_to_string(path);
        if written.is_ok_and(|number| number.trim() == std::process::id().to_string()) {
            let _ = fs::remove_file(path);
        }
    }
}

/// As PgBouncer has them: SIGTERM ends it, SIGINT when its servers are free, SIGHUP is RELOAD.
fn handled() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals
}

fn wait_for(signals: &SigSet, stopper: &Stopper) {
    while let Ok(signal) = signals.wait() {
        match signal {
            Signal::SIGHUP => stopper.reload(),
            Signal::SIGINT => stopper.stop_when_paused(),
            _ => stopper.stop(),
        }
    }
}
