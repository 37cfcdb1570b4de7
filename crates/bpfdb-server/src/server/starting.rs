//! The start of a server: programs are loaded and attached, everything is opened, and then it
//! listens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use bpfdb::{Engine, Session};

use super::{FrontEnd, RECEIVE_BUFFER, Server};
use crate::commands::large::Collector;
use crate::commands::table;
use crate::connection::table::ConnectionTable;
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::instance::Instance;
use crate::io::bell::Bell;
use crate::io::poll::{Interest, Poll, Source};
use crate::io::{socket, unix};
use crate::settings::Options;
use crate::stats::kernel_counters::KernelCounters;
use crate::stats::metrics;
use crate::stats::statistics::Statistics;

impl Server {
    /// Loads and attaches the programs, and listens. The program of commands on collections, and of others
    /// that are used less, is loaded when the first of them has come ([`Server::loader`]): the daemon
    /// answers these commands until it is there.
    pub fn start(engine: &Engine, options: &Options) -> Result<Self> {
        Self::start_after(engine, options, |_| Ok(()))
    }

    /// The same. `ready` is called with the address before anybody can connect: what clients are
    /// told must outlive this process from the first reply on.
    ///
    /// # Errors
    /// As above; and that of `ready`.
    pub fn start_after<E: From<Error>>(
        engine: &Engine,
        options: &Options,
        ready: impl FnOnce(SocketAddr) -> Result<(), E>,
    ) -> Result<Self, E> {
        // Before anything is taken.
        Self::check_owned(engine)?;
        let front_end = FrontEnd::load(&engine.joining(), &options.settings)?;
        Self::start_loaded(engine, options, front_end, ready)
    }

    /// The same, with what was loaded for this engine and these settings.
    ///
    /// # Errors
    /// As above; and that of `ready`.
    pub fn start_loaded<E: From<Error>>(
        engine: &Engine,
        options: &Options,
        front_end: FrontEnd,
        ready: impl FnOnce(SocketAddr) -> Result<(), E>,
    ) -> Result<Self, E> {
        Self::check_owned(engine)?;
        front_end.check(&options.settings)?;
        let server = Self::prepare(engine, options, front_end)?;
        ready(server.address())?;
        let backlog = options.settings.tcp_backlog;
        socket::start_listening(&server.listener, server.address(), backlog)?;
        tracing::info!(address = %server.address(), "listening");
        Ok(server)
    }

    pub(super) fn check_owned(engine: &Engine) -> Result<()> {
        match engine.is_owned() {
            true => Ok(()),
            false => Err(Error::Attached),
        }
    }

    /// A server that does not listen yet.
    pub(super) fn prepare(
        engine: &Engine,
        options: &Options,
        mut front_end: FrontEnd,
    ) -> Result<Self> {
        let settings = &options.settings;
        let listener = front_end.bind()?;
        let FrontEnd {
            programs,
            address,
            cgroup,
            ..
        } = front_end;
        let programs = programs.attach(&cgroup, &settings.local_clients)?;
        let sessions = programs.connections.len();
        let statistics = Arc::new(Statistics::new(table::names()));
        let metrics = settings
            .metrics_address
            .map(|address| {
                let (log, tier) = (options.log.as_ref(), options.tier.as_ref());
                metrics::serve(address, engine, &statistics, log, tier)
            })
            .transpose()?;
        let bell = Bell::new()?;
        if let Some(tier) = &options.tier {
            let bell = bell.clone();
            tier.tell_of_reads(move || bell.ring());
        }
        let mut instance = Instance::new(
            engine,
            options,
            &programs,
            address,
            statistics,
            KernelCounters::of(&engine.stats()?),
            &bell,
        )?;
        let at_start = engine.stats()?;
        instance.memory_at_start = at_start.memory_used();
        instance.metrics_address = metrics.as_ref().map(|metrics| metrics.address);
        read_functions(engine, &mut instance);
        let unix = settings
            .unix_socket
            .as_ref()
            .map(|path| {
                let permissions = settings.unix_permissions.0;
                unix::Listener::bind(path, permissions, settings.tcp_backlog)
            })
            .transpose()?;
        let server = Self {
            engine: engine.clone(),
            session: session_for(engine)?,
            listener,
            unix,
            poll: Poll::new()?,
            instance,
            collector: Collector::new(engine, at_start.records > 0),
            connections: ConnectionTable::new(sessions),
            executors: executors(sessions),
            bell,
            held: BTreeMap::new(),
            wanted: 0,
            waiters: 0,
            draining: Vec::new(),
            paused: Vec::new(),
            busy: VecDeque::new(),
            resting: BTreeSet::new(),
            accept_paused: None,
            next_tick: Instant::now(),
            workers: programs.workers()?,
            buffer: vec![0; RECEIVE_BUFFER],
            _metrics: metrics,
            programs,
            cgroup,
        };
        server.wait_for_events()?;
        // The server's end waits for what this has loaded.
        server.instance.tell_who_reads();
        Ok(server)
    }

    pub(super) fn wait_for_events(&self) -> Result<()> {
        let readable = Interest {
            readable: true,
            ..Interest::default()
        };
        let poll = &self.poll;
        poll.add(self.listener.as_fd(), Source::Listener, readable)?;
        if let Some(unix) = &self.unix {
            poll.add(unix.as_fd(), Source::UnixListener, readable)?;
        }
        poll.add(self.instance.stopper.as_fd(), Source::Stop, readable)?;
        poll.add(self.bell.as_fd(), Source::Log, readable)?;
        // SAFETY: the ring lives in `programs`, longer than this borrow.
        let ring = unsafe { BorrowedFd::borrow_raw(self.programs.ring_fd()) };
        poll.add(ring, Source::Handovers, readable)
    }
}

fn executors(sessions: u32) -> Vec<Executor> {
    let mut executors = Vec::new();
    executors.resize_with(sessions as usize, Executor::default);
    executors
}

/// Those that the engine has: the first caller need not wait for it.
fn read_functions(engine: &Engine, instance: &mut Instance) {
    let read = engine
        .session()
        .map(|mut session| instance.functions.read(&mut session));
    match read {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => tracing::warn!(?problem, "the functions cannot be read"),
        Err(error) => tracing::warn!(%error, "the functions cannot be read"),
    }
}

/// To be directed at the session of each connection in turn. The loop has others to serve
/// while one waits.
fn session_for(engine: &Engine) -> Result<Session> {
    let mut session = engine.borrow_session(0)?;
    session.never_wait();
    session.allow_empty_keys();
    Ok(session)
}
