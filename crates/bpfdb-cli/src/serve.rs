//! `bpfdb serve`.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bpfdb::Engine;
use bpfdb_server::Server;
use nix::sys::signal::{SigSet, Signal};

use crate::pins::Pins;
use crate::{doctor, size};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// TCP port to listen on; 0: any free one
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
    /// Most memory for data and index, e.g. 512M or 4G [default: half of the
    /// machine's]
    #[arg(long, value_parser = size::parse)]
    maxmemory: Option<u64>,
    /// Memory to keep ready ahead of need
    #[arg(long, value_parser = size::parse, default_value = "128M")]
    memory_ahead: u64,
    /// Most connections at the same time
    #[arg(long, default_value_t = 10_000)]
    maxclients: u32,
    /// Committed versions of a record, 1 to 8; 1: single-version mode
    #[arg(long, default_value_t = 4)]
    versions: u32,
    /// Seconds after which an idle transaction is rolled back; 0: never
    #[arg(long, default_value_t = 30)]
    transaction_timeout: u64,
    /// Keep the data in the kernel when the server stops: the next `serve` on
    /// this port goes on with it
    #[arg(long)]
    keep_data: bool,
    /// Drop data that an earlier server on this port left in the kernel
    #[arg(long)]
    fresh: bool,
}

impl Arguments {
    fn options(&self) -> Result<bpfdb::Options> {
        let defaults = bpfdb::Options::default();
        Ok(bpfdb::Options {
            versions: self.versions,
            memory_limit: match self.maxmemory {
                Some(bytes) => bytes,
                None => machine_memory()? / 2,
            },
            memory_ahead: self.memory_ahead,
            max_sessions: self.maxclients.saturating_add(defaults.user_sessions),
            idle_limit: Duration::from_secs(self.transaction_timeout),
            port: self.port,
            ..defaults
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let signals = block_signals()?;
    if let Some(missing) = doctor::first_missing() {
        bail!("{missing}; `bpfdb doctor` explains all");
    }
    let address = SocketAddr::new(arguments.bind, arguments.port);
    // Before anything is touched: another server may be using that data.
    drop(TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?);

    let mut pins = Pins::claim(arguments.port)?;
    let served = serve(arguments, address, &mut pins, signals);
    if arguments.keep_data && served.is_ok() {
        let folder = pins.folder().display();
        println!("stopped; the data stays in the kernel, pinned in {folder}");
    } else if served.is_ok() || !Engine::is_pinned(pins.folder()) {
        pins.give_up()?;
    }
    served.map(|()| ExitCode::SUCCESS)
}

/// Data of an earlier server is only given up on a clean stop.
fn serve(
    arguments: &Arguments,
    address: SocketAddr,
    pins: &mut Pins,
    signals: SigSet,
) -> Result<()> {
    if arguments.fresh {
        pins.clear()?;
    }
    let (engine, kept) = create_or_attach(arguments, pins.folder())?;
    let server = Server::start(&engine, &bpfdb_server::Options { address })?;
    let address = server.address();

    pins.rename(address.port())?;
    if !kept {
        engine.pin(pins.folder())?;
    }
    greet(&engine, address, kept);
    stop_on_signal(&server, signals)?;
    server.run().context("the server failed")
}

fn create_or_attach(arguments: &Arguments, folder: &Path) -> Result<(Engine, bool)> {
    if !Engine::is_pinned(folder) {
        return Ok((Engine::create(&arguments.options()?)?, false));
    }
    let engine = Engine::open(folder, arguments.memory_ahead).with_context(|| {
        format!(
            "cannot go on with the data in {}; --fresh drops it",
            folder.display()
        )
    })?;
    Ok((engine, true))
}

fn greet(engine: &Engine, address: SocketAddr, kept: bool) {
    let limit = u64::from(engine.config().segments_max) * bpfdb::SEGMENT_SIZE;
    let (ip, port) = (address.ip(), address.port());

    println!("bpfdb {} listens on {address}", env!("CARGO_PKG_VERSION"));
    if kept {
        println!("  going on with the data of an earlier server, in the kernel");
    }
    println!("  memory limit {}, data in the kernel", size::format(limit));
    println!("  try:    redis-cli -h {ip} -p {port} SET greeting hello");
    println!("          redis-cli -h {ip} -p {port} GET greeting");
    println!("          redis-benchmark -h {ip} -p {port} -t set,get -P 16");
    println!("  watch:  bpfdb stats --port {port}");
    println!("  stop:   Ctrl-C");
}

fn machine_memory() -> Result<u64> {
    let info = nix::sys::sysinfo::sysinfo().context("cannot ask for the machine's memory")?;
    Ok(info.ram_total())
}

/// Must run before any thread starts: they inherit the mask.
fn block_signals() -> Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block().context("cannot block signals")?;
    Ok(signals)
}

fn stop_on_signal(server: &Server, signals: SigSet) -> Result<()> {
    let stopper = server.stopper();
    thread::Builder::new()
        .name("bpfdb-signals".into())
        .spawn(move || {
            if let Ok(signal) = signals.wait() {
                tracing::info!(%signal, "stopping");
            }
            stopper.stop();
        })
        .context("cannot start the signal thread")?;
    Ok(())
}
