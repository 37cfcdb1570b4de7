//! `bpfdb serve`.

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use bpfdb::{Engine, Joining};
use bpfdb_server::settings::{ClientMemory, Settings, Size, memory};
use bpfdb_server::{FrontEnd, Server, Stopper};
use bpfdb_service::notify;
use nix::sys::signal::{SigSet, Signal};

use crate::data::{self, Log};
use crate::flags::Arguments;
use crate::interrupts::Interrupts;
use crate::pins::Pins;
use crate::{doctor, load, log, output};

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let signals = block_signals()?;
    let (mut settings, mut file) = arguments.settings()?;
    let said = std::mem::take(&mut settings.dir);
    settings.dir = data::directory(said.as_deref(), &settings)?;
    if said.is_none() || settings.dir.is_none() {
        file.iter_mut().for_each(|file| file.leave("dir"));
    }
    log::start(&settings)?;
    bound_by_group(&mut settings)?;
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
        log: None,
        tier: None,
        loaded: None,
    };
    let mut pins = Pins::claim(options.settings.port)?;
    let load_rdb = arguments.load_rdb.as_deref();
    if arguments.fresh {
        if Engine::is_pinned(pins.folder()) {
            check_before_drop(&options.settings, load_rdb)
                .and_then(|()| memory_for_start(&options.settings, pins.memory()))
                .context("nothing was dropped from the kernel")?;
        }
        // First: a start that is killed in between would leave a note about an engine that is
        // pinned nowhere, and that lives as long as another program has it.
        if let Some(directory) = &options.settings.dir {
            data::forget_engine(directory)?;
        }
        pins.clear()?;
        wait_for_memory(&options.settings)?;
    }
    if options.settings.dir.is_none() {
        data::tell_of_unread(said.as_deref(), &options.settings);
    }
    let others = (!arguments.fresh).then(|| pins.others());
    let served = serve(options, &mut pins, others.as_deref(), signals, load_rdb);
    match served {
        Ok(keep) if keep => {
            let folder = pins.folder().display();
            output::print(&format!(
                "stopped; the data stays in the kernel, pinned in {folder}\n"
            ))?;
        }
        // Data of an earlier server is only given up on a clean stop.
        Err(_) if Engine::is_pinned(pins.folder()) => {}
        _ => pins.give_up()?,
    }
    match served {
        // A signal stopped it before it served. The directory is as it was.
        Err(error) if is_stopped(&error) => {
            tracing::info!("stopped while it recovered");
            Ok(ExitCode::SUCCESS)
        }
        served => served.map(|_| ExitCode::SUCCESS),
    }
}

fn is_stopped(error: &Error) -> bool {
    let error = error.downcast_ref::<bpfdb_durability::Error>();
    matches!(error, Some(bpfdb_durability::Error::Stopped))
}

/// A start that would be refused is to be refused before data is dropped of which there may be no copy.
fn check_before_drop(settings: &Settings, load_rdb: Option<&Path>) -> Result<()> {
    engine_options(settings)?;
    if let Some(address) = settings.metrics_address {
        let bound = TcpListener::bind(address);
        bound.with_context(|| format!("cannot listen on {address}"))?;
    }
    // A user that ends it wants nothing to be dropped.
    let interrupts = Interrupts::hold()?;
    let mut has_data = false;
    if let Some(directory) = &settings.dir {
        has_data = data::check(directory)?;
        interrupts.check()?;
    }
    if let Some(file) = load_rdb {
        if has_data {
            bail!("the data directory has data: an RDB file is loaded into an empty one only");
        }
        load::check(file, &interrupts)?;
    }
    Ok(interrupts.check()?)
}

/// Serves until it is stopped. Shall the data be kept? `others`: folders in which engines are pinned
/// that may have what the data directory lacks; `None`: they do not matter.
fn serve(
    mut options: bpfdb_server::Options,
    pins: &mut Pins,
    others: Option<&[PathBuf]>,
    signals: SigSet,
    load_rdb: Option<&Path>,
) -> Result<bool> {
    let settings = &options.settings.clone();
    let wanted = engine_options(settings)?;
    let (engine, front_end, kept) = create_or_open(settings, &wanted, pins)?;
    // What is recovered is all that there is, unless another engine has more.
    let others = others.filter(|_| !kept);
    let log = start_log(&engine, settings, others)?;
    options.log = log.as_ref().map(|log| Arc::clone(&log.durability));
    options.tier = log.as_ref().and_then(|log| log.tier.clone());
    if kept {
        go_by(&engine, &wanted, &mut options);
    }
    let loaded = load_rdb.map(|file| load::load(&engine, options.log.as_deref(), file));
    let (loaded, figures) = loaded.transpose()?.unzip();
    options.loaded = figures;
    let server = Server::start_loaded(&engine, &options, front_end, |address| {
        pins.rename(address.port())?;
        if !kept {
            engine.pin_claimed(pins.claim_of_folder())?;
        }
        // Before a client can be served: the kernel answers without this process.
        if let Some(log) = &log {
            log.note_pins(&engine, pins.folder());
        }
        Ok::<_, Error>(())
    })?;
    let (address, stopper) = (server.address(), server.stopper());
    let mut greeting = greeting(&engine, settings, address);
    greeting += &log.as_ref().map(Log::about).unwrap_or_default();
    greeting += &loaded.unwrap_or_default();
    if kept {
        greeting += &about_kept(&engine, settings, &wanted);
    }
    output::print(&greeting)?;
    stop_on_signal(stopper.clone(), signals)?;
    let watch = pins.watch()?;
    notify::ready();
    server.run().context("the server failed")?;
    drop(watch);
    notify::stopping();
    options.log = None;
    options.tier = None;
    let keeps = stopper.keeps_data().unwrap_or(settings.keep_data);
    if let Some(missing) = pins.first_missing().filter(|_| keeps) {
        tracing::error!(missing = %missing.display(), "the data does not stay in the kernel: its pins were removed");
    }
    if let Some(log) = log.as_ref().filter(|_| !keeps) {
        log.seal(&engine)?;
    }
    end_log(log, keeps, stopper.keeps_data())?;
    Ok(keeps)
}

/// What an engine was made with stays in force, and is what CONFIG GET shows. CONFIG REWRITE leaves
/// in the file what the next engine is to have.
fn go_by(engine: &Engine, wanted: &bpfdb::Options, options: &mut bpfdb_server::Options) {
    let (has, settings) = (engine.config(), &mut options.settings);
    let clients = has.sessions.saturating_sub(wanted.user_sessions).max(1);
    settings.max_clients = settings.max_clients.min(clients);
    settings.versions = has.versions;
    settings.transaction_timeout = Duration::from_nanos(has.idle_limit).as_secs();
    if let Some(file) = &mut options.file {
        file.leave("versions");
        file.leave("transaction-timeout");
    }
}

/// What the disk has not, only the kernel has: unless a client gave it up, it stays there.
fn end_log(log: Option<Log>, keeps: bool, told: Option<bool>) -> Result<()> {
    let ended = log.map_or(Ok(()), |log| log.end(keeps, told == Some(false)));
    match told {
        Some(false) => Ok(()),
        _ => ended.context(
            "not everything is in the log, so the data stays in the kernel: \
             mend the disk, and start the server again",
        ),
    }
}

fn start_log(
    engine: &Engine,
    settings: &Settings,
    others: Option<&[PathBuf]>,
) -> Result<Option<Log>> {
    match &settings.dir {
        Some(directory) => Log::start(engine, directory, settings, others).map(Some),
        None if settings.tier => {
            bail!("tier: cold values are in the data directory, and there is none")
        }
        None => data::check_unlogged(engine).map(|()| None),
    }
}

/// The engine, with the network programs, which the kernel verifies at the same time.
fn create_or_open(
    settings: &Settings,
    wanted: &bpfdb::Options,
    pins: &Pins,
) -> Result<(Engine, FrontEnd, bool)> {
    let folder = pins.folder();
    let load = |joining: &Joining<'_>| FrontEnd::load(joining, settings);
    if !Engine::is_pinned(folder) {
        memory_for_start(settings, 0)?;
        let (engine, front_end) = Engine::create_beside(wanted, load)?;
        return Ok((engine, front_end?, false));
    }
    let (engine, front_end) = open(wanted, pins, load)?;
    let front_end = front_end?;
    if data::has_nothing(&engine)? {
        // With it the last descriptors of the old engine's maps.
        drop((engine, front_end));
        pins.clear()?;
        wait_for_memory(settings)?;
        let (engine, front_end) = Engine::create_beside(wanted, load)?;
        return Ok((engine, front_end?, false));
    }
    // The default is not asked for.
    if settings.max_memory != Size(0) && wanted.memory_limit <= engine.memory_limit_max() {
        engine.set_memory_limit(wanted.memory_limit)?;
    }
    // The engine may be of a time when the group was larger.
    let of_group = memory::of_group(settings).map_err(Error::msg)?;
    if let Some(most) = of_group.filter(|&most| most < engine.memory_limit()) {
        engine.set_memory_limit(most)?;
    }
    engine.set_snapshot_max_age(wanted.snapshot_max_age);
    Ok((engine, front_end, true))
}

/// Whether there is memory for a new engine, if `freed` bytes that are in use become free before.
fn memory_for_start(settings: &Settings, freed: u64) -> Result<()> {
    let least = memory::least_of_server(settings).map_err(Error::msg)?;
    match doctor::short_of_memory(least, freed) {
        Some(missing) => bail!("{missing}; `bpfdb doctor` explains all"),
        None => Ok(()),
    }
}

/// The kernel frees maps that were dropped a while later. Without this they would be charged to the
/// control group together with the new ones.
fn wait_for_memory(settings: &Settings) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    while memory_for_start(settings, 0).is_err() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    memory_for_start(settings, 0)
}

/// Bytes for requests and replies of all clients, in a control group that has no room for them.
const LEAST_FOR_CLIENTS: u64 = 1 << 20;

/// A control group bounds what settings ask for: the kernel would kill the server otherwise.
fn bound_by_group(settings: &mut Settings) -> Result<()> {
    let Some(memory) = memory::of_group(settings).map_err(Error::msg)? else {
        return Ok(());
    };
    // 0: the default, which knows the group.
    if settings.max_memory > Size(memory) {
        let (wanted, most) = (settings.max_memory, Size(memory));
        tracing::warn!(%wanted, %most, "maxmemory: the control group leaves less");
        settings.max_memory = most;
    }
    let Some(clients) = memory::clients_of_group(settings).map_err(Error::msg)? else {
        return Ok(());
    };
    // 0 would be no limit.
    let clients = clients.max(LEAST_FOR_CLIENTS);
    let data = match settings.max_memory {
        Size(0) => memory,
        Size(chosen) => chosen,
    };
    let wanted = settings.max_client_memory.limit(data);
    if wanted.is_none_or(|wanted| wanted > clients) {
        let most = Size(clients);
        tracing::info!(%most, "maxmemory-clients: the control group leaves less");
        settings.max_client_memory = ClientMemory::Bytes(most);
    }
    Ok(())
}

/// The engine that an earlier server left.
fn open<T: Send>(
    wanted: &bpfdb::Options,
    pins: &Pins,
    load: impl FnOnce(&Joining<'_>) -> T + Send,
) -> Result<(Engine, T)> {
    let claim = pins.claim_of_folder();
    let opened = Engine::open_claimed_beside(claim, wanted.memory_ahead, load);
    opened.with_context(|| {
        format!(
            "cannot go on with the data in {}; --fresh drops it",
            pins.folder().display()
        )
    })
}

fn engine_options(settings: &Settings) -> Result<bpfdb::Options> {
    let defaults = bpfdb::Options::default();
    Ok(bpfdb::Options {
        versions: settings.versions,
        memory_limit: memory::memory_limit(settings).map_err(Error::msg)?,
        // So that CONFIG SET may raise it.
        memory_limit_max: memory::memory_limit_max(settings).map_err(Error::msg)?,
        memory_ahead: settings.memory_ahead.bytes(),
        max_sessions: settings.max_clients.saturating_add(defaults.user_sessions),
        idle_limit: Duration::from_secs(settings.transaction_timeout),
        snapshot_max_age: Duration::from_secs(settings.snapshot_max_age),
        port: settings.port,
        log_ring: if settings.dir.is_some() {
            memory::LOG_RING
        } else {
            0
        },
        ..defaults
    })
}

fn greeting(engine: &Engine, settings: &Settings, address: SocketAddr) -> String {
    let limit = Size(engine.memory_limit());
    let (ip, port) = (address.ip(), address.port());
    let metrics = settings
        .metrics_address
        .map(|address| format!("          curl http://{address}/metrics\n"))
        .unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");

    format!(
        "bpfdb {version} listens on {address}\n  \
         memory limit {limit}, data in the kernel\n  \
         try:    redis-cli -h {ip} -p {port} SET greeting hello\n          \
         redis-cli -h {ip} -p {port} GET greeting\n          \
         redis-benchmark -h {ip} -p {port} -t set,get -P 16\n  \
         watch:  bpfdb stats --port {port}\n\
         {metrics}  stop:   Ctrl-C\n"
    )
}

/// What an engine was made with stays as it is: so a line about the settings that
/// ask for something else, if there are any.
fn about_kept(engine: &Engine, settings: &Settings, wanted: &bpfdb::Options) -> String {
    let has = engine.config();
    let memory = Size(wanted.memory_limit.next_multiple_of(bpfdb::SEGMENT_SIZE));
    let clients = has.sessions.saturating_sub(wanted.user_sessions);
    let timeout = Duration::from_nanos(has.idle_limit).as_secs();
    let told = |name, has: &dyn Display, wanted: &dyn Display| {
        let (has, wanted) = (has.to_string(), wanted.to_string());
        (has != wanted).then(|| format!("{name} {has} (not {wanted})"))
    };
    let differences: Vec<String> = [
        // The default is not asked for.
        (settings.max_memory != Size(0))
            .then(|| told("maxmemory", &Size(engine.memory_limit()), &memory))
            .flatten(),
        told("versions", &has.versions, &settings.versions),
        told("maxclients", &clients, &settings.max_clients),
        told(
            "transaction-timeout",
            &timeout,
            &settings.transaction_timeout,
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut text = "  going on with the data of an earlier server, in the kernel\n".to_owned();
    if !differences.is_empty() {
        text += &format!(
            "  as it was made: {}; --fresh drops the data and goes by the new settings\n",
            differences.join(", ")
        );
    }
    text
}

/// Must run before any thread starts: they inherit the mask.
fn block_signals() -> Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGHUP);
    signals.thread_block().context("cannot block signals")?;
    Ok(signals)
}

/// SIGHUP is for programs that rotate the log. The first of the others stops the server in order; the
/// second ends the process at once, as a crash does: the next start goes on with what is there.
fn stop_on_signal(stopper: Stopper, signals: SigSet) -> Result<()> {
    thread::Builder::new()
        .name("bpfdb-signals".into())
        .spawn(move || {
            let mut is_stopping = false;
            loop {
                match signals.wait() {
                    Ok(Signal::SIGHUP) => log::reopen(),
                    Ok(signal) if is_stopping => {
                        tracing::warn!(%signal, "ended before everything was stopped in order");
                        process::exit(128 + signal as i32);
                    }
                    Ok(signal) => {
                        tracing::info!(%signal, "stopping");
                        is_stopping = true;
                        stopper.stop();
                    }
                    Err(_) => return stopper.stop(),
                }
            }
        })
        .context("cannot start the signal thread")?;
    Ok(())
}
