//! The `bpfdb-proxy` command.

mod flags;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use bpfdb_proxy::{Proxy, Stopper};
use clap::Parser;
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
    start_log();
    // In every thread, before there is another.
    let signals = stopping();
    signals.thread_block().context("cannot block signals")?;
    let (mut proxy, stopper) = Proxy::new(arguments.settings()?)?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || wait_for(&signals, &stopper))
        .context("cannot start a thread")?;
    if let Some(address) = proxy.address() {
        tracing::info!(%address, "ready");
    }
    proxy.run()?;
    Ok(())
}

fn start_log() {
    let chosen = EnvFilter::try_from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(chosen.unwrap_or_else(|_| EnvFilter::new("info")))
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
}

fn stopping() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals
}

fn wait_for(signals: &SigSet, stopper: &Stopper) {
    if signals.wait().is_ok() {
        stopper.stop();
    }
}
