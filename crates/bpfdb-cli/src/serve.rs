//! `bpfdb serve`.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bpfdb::Engine;
use bpfdb_server::settings::{Settings, Size};
use bpfdb_server::{Server, Stopper};
use nix::sys::signal::{SigSet, Signal};

use crate::flags::Arguments;
use crate::pins::Pins;
use crate::{doctor, log};

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let signals = block_signals()?;
    let (settings, file) = arguments.settings()?;
    log::start(&settings)?;
    if let Some(missing) = doctor::first_missing() {
        bail!("{missing}; `bpfdb doctor` explains all");
    }
    let address = SocketAddr::new(settings.bind, settings.port);
    // Before anything is touched: another server may be using that data.
    drop(TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?);

    let options = bpfdb_server::Options {
        settings,
        file,
        set_log_level: log::set_level,
    };
    let mut pins = Pins::claim(options.settings.port)?;
    if arguments.fresh {
        pins.clear()?;
    }
    let served = serve(&options, &mut pins, signals);
    match served {
        Ok(keep) if keep => {
            let folder = pins.folder().display();
            println!("stopped; the data stays in the kernel, pinned in {folder}");
        }
        // Data of an earlier server is only given up on a clean stop.
        Err(_) if Engine::is_pinned(pins.folder()) => {}
        _ => pins.give_up()?,
    }
    served.map(|_| ExitCode::SUCCESS)
}

/// Serves until it is stopped. Shall the data be kept?
fn serve(options: &bpfdb_server::Options, pins: &mut Pins, signals: SigSet) -> Result<bool> {
    let settings = &options.settings;
    let (engine, kept) = create_or_attach(settings, pins.folder())?;
    let server = Server::start(&engine, options)?;
    let (address, stopper) = (server.address(), server.stopper());

    pins.rename(address.port())?;
    if !kept {
        engine.pin(pins.folder())?;
    }
    greet(&engine, settings, address, kept);
    stop_on_signal(stopper.clone(), signals)?;
    server.run().context("the server failed")?;
    Ok(stopper.keeps_data().unwrap_or(settings.keep_data))
}

fn create_or_attach(settings: &Settings, folder: &Path) -> Result<(Engine, bool)> {
    if !Engine::is_pinned(folder) {
        return Ok((Engine::create(&engine_options(settings)?)?, false));
    }
    let engine = Engine::open(folder, settings.memory_ahead.bytes()).with_context(|| {
        format!(
            "cannot go on with the data in {}; --fresh drops it",
            folder.display()
        )
    })?;
    Ok((engine, true))
}

fn engine_options(settings: &Settings) -> Result<bpfdb::Options> {
    let defaults = bpfdb::Options::default();
    Ok(bpfdb::Options {
        versions: settings.versions,
        memory_limit: match settings.max_memory {
            Size(0) => machine_memory()? / 2,
            Size(bytes) => bytes,
        },
        memory_ahead: settings.memory_ahead.bytes(),
        max_sessions: settings.max_clients.saturating_add(defaults.user_sessions),
        idle_limit: Duration::from_secs(settings.transaction_timeout),
        port: settings.port,
        ..defaults
    })
}

fn greet(engine: &Engine, settings: &Settings, address: SocketAddr, kept: bool) {
    let limit = Size(u64::from(engine.config().segments_max) * bpfdb::SEGMENT_SIZE);
    let (ip, port) = (address.ip(), address.port());

    println!("bpfdb {} listens on {address}", env!("CARGO_PKG_VERSION"));
    if kept {
        println!("  going on with the data of an earlier server, in the kernel");
    }
    println!("  memory limit {limit}, data in the kernel");
    println!("  try:    redis-cli -h {ip} -p {port} SET greeting hello");
    println!("          redis-cli -h {ip} -p {port} GET greeting");
    println!("          redis-benchmark -h {ip} -p {port} -t set,get -P 16");
    println!("  watch:  bpfdb stats --port {port}");
    if let Some(address) = settings.metrics_address {
        println!("          curl http://{address}/metrics");
    }
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

fn stop_on_signal(stopper: Stopper, signals: SigSet) -> Result<()> {
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
