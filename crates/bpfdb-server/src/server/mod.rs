//! The server: one thread that accepts connections and answers what the kernel
//! leaves to it.

mod admission;
mod front_end;
mod housekeeping;
mod waiters;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bpfdb::{ChangeNotes, Engine, Session};

pub use front_end::FrontEnd;

use crate::commands::keyspace_events;
use crate::commands::large::Collector;
use crate::commands::table;
use crate::connection::table::ConnectionTable;
use crate::connection::{Connection, Next, State};
use crate::error::{Error, Result};
use crate::executor::{Executor, ServeContext};
use crate::instance::Instance;
use crate::io::bell::Bell;
use crate::io::poll::{Event, Interest, Poll, Source};
use crate::io::stopper::Stopper;
use crate::io::{socket, unix};
use crate::kernel::cgroup::Cgroup;
use crate::kernel::programs::Programs;
use crate::kernel::workers::Workers;
use crate::settings::Options;
use crate::stats::kernel_counters::KernelCounters;
use crate::stats::metrics::Endpoint;
use crate::stats::statistics::Statistics;

/// How often connections are looked at that wait for the kernel.
const DRAIN_PERIOD: Duration = Duration::from_millis(10);
/// How long no connection is accepted after there were no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes.
const RECEIVE_BUFFER: usize = 64 * 1024;

/// A connection and what is begun for it: taken out of the tables while it is served.
struct Client {
    connection: Connection,
    executor: Executor,
}

/// A server that listens; [`Server::run`] serves. Dropping it closes all
/// connections and detaches everything; the engine is not touched.
pub struct Server {
    engine: Engine,
    session: Session,
    listener: TcpListener,
    unix: Option<unix::Listener>,
    poll: Poll,
    instance: Instance,
    /// Of what is left of large collections.
    collector: Collector,
    connections: ConnectionTable,
    /// Those of the connections, by the same index.
    executors: Vec<Executor>,
    /// Rung when something has become durable.
    bell: Bell,
    /// Connections whose replies wait until they are durable, and up to which timestamp.
    held: BTreeMap<u32, u64>,
    /// What the youngest of these wait for, since the writer of the log was told.
    wanted: u64,
    /// How many of them have begun to wait in this round.
    waiters: u32,
    /// Connections that wait for the kernel.
    draining: Vec<u32>,
    /// Connections whose next request is paused.
    paused: Vec<u32>,
    /// Connections with a long command, each in its turn.
    busy: VecDeque<u32>,
    /// Connections whose command goes on at a time, soonest first.
    resting: BTreeSet<(Instant, u32)>,
    accept_paused: bool,
    next_tick: Instant,
    workers: Workers,
    buffer: Vec<u8>,
    _metrics: Option<Endpoint>,
    // Dropped in this order: programs, then what they are attached to.
    programs: Programs,
    _cgroup: Cgroup,
}

impl Server {
    /// Loads and attaches the programs, and listens.
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
        let server = Self::prepare(engine, options, front_end)?;
        ready(server.address())?;
        let backlog = options.settings.tcp_backlog;
        socket::start_listening(&server.listener, server.address(), backlog)?;
        tracing::info!(address = %server.address(), "listening");
        Ok(server)
    }

    fn check_owned(engine: &Engine) -> Result<()> {
        match engine.is_owned() {
            true => Ok(()),
            false => Err(Error::Attached),
        }
    }

    /// A server that does not listen yet.
    fn prepare(engine: &Engine, options: &Options, mut front_end: FrontEnd) -> Result<Self> {
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
            .map(|address| Endpoint::start(address, engine, &statistics, options.log.as_ref()))
            .transpose()?;
        let bell = Bell::new()?;
        let mut instance = Instance::new(
            engine,
            options,
            &programs,
            address,
            statistics,
            KernelCounters::of(&engine.stats()?),
            &bell,
        )?;
        instance.memory_at_start = engine.stats()?.memory_used();
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
            collector: Collector::new(engine),
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
            accept_paused: false,
            next_tick: Instant::now(),
            workers: programs.workers()?,
            buffer: vec![0; RECEIVE_BUFFER],
            _metrics: metrics,
            programs,
            _cgroup: cgroup,
        };
        server.wait_for_events()?;
        Ok(server)
    }

    fn wait_for_events(&self) -> Result<()> {
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

    pub fn address(&self) -> SocketAddr {
        self.instance.address
    }

    /// Where metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.instance.metrics_address
    }

    pub fn stopper(&self) -> Stopper {
        self.instance.stopper.clone()
    }

    /// Serves until it is stopped. Nothing here waits for anything but events and the
    /// next time at which there is something to do: whoever waits is put aside, and comes
    /// to his turn again.
    pub fn run(mut self) -> Result<()> {
        let mut events = Vec::new();
        self.instance.statistics.set_ready(true);
        loop {
            self.poll.wait(&mut events, Some(self.timeout()))?;
            for event in &events {
                if event.source == Source::Stop {
                    tracing::info!(address = %self.address(), "stopping");
                    self.instance.statistics.set_ready(false);
                    return Ok(());
                }
                self.handle(event);
                self.serve_waiters();
                self.send_pushed();
                self.close_those_told();
            }
            self.look_at_waited();
            self.look_at_expiring();
            self.wake_resting();
            self.work_on();
            self.serve_waiters();
            self.send_pushed();
            self.close_those_told();
            self.look_at_draining();
            self.end_pause_when_due();
            self.serve_waiters();
            self.resume_accepting();
            self.tick_when_due();
            self.compile();
            if self.instance.evictor.took_collections() {
                self.collector.hurry();
            }
            self.collector.work();
            self.want_durable();
            // What was executed after a pause, or after the log had said something.
            self.send_pushed();
        }
    }

    fn timeout(&self) -> Duration {
        let now = Instant::now();
        let tick = self.next_tick.saturating_duration_since(now);
        let mut tick = tick.min(self.collector.left(now));
        // What was executed after others were told may wait for the log, which was not told yet.
        if !self.busy.is_empty()
            || self.wanted > 0
            || self.has_waiters_to_serve()
            || self.instance.expiring.is_looking()
        {
            return Duration::ZERO;
        }
        if let Some(due) = self.instance.expiring.due() {
            let left = due.saturating_sub(self.engine.now_ms());
            tick = tick.min(Duration::from_millis(left));
        }
        if let Some(due) = self.instance.waiting.due() {
            tick = tick.min(due.saturating_duration_since(now));
        }
        if let Some(&(until, _)) = self.resting.first() {
            tick = tick.min(until.saturating_duration_since(now));
        }
        if let Some(due) = self.instance.procedures.due() {
            tick = tick.min(due.saturating_duration_since(now));
        }
        if let Some(pause) = self.instance.pause.left(now) {
            tick = tick.min(pause);
        }
        if !self.draining.is_empty() {
            tick.min(DRAIN_PERIOD)
        } else if self.accept_paused {
            tick.min(ACCEPT_PAUSE)
        } else {
            tick
        }
    }

    /// What was compiled is published, and what is to be compiled asked for.
    fn compile(&mut self) {
        let Instance {
            procedures,
            functions,
            ..
        } = &mut self.instance;
        procedures.work(functions);
    }

    /// Publishes which keys have expired, and learns of some more that will.
    fn look_at_expiring(&mut self) {
        let Self {
            engine,
            session,
            instance,
            connections,
            ..
        } = self;
        keyspace_events::publish_expired_for_nobody(engine, instance, connections);
        if !instance.expiring.is_looking() {
            return;
        }
        session.note_changes(ChangeNotes::default());
        // An error of a moment: the keys are looked at in the next round.
        if let Err(status) = instance.expiring.look(session) {
            tracing::debug!(?status, "cannot look at keys that expire");
        }
    }

    fn tick_when_due(&mut self) {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now + Statistics::TICK;
            self.tick(now);
        }
    }

    fn handle(&mut self, event: &Event) {
        match event.source {
            Source::Listener | Source::UnixListener => self.accept(event.source),
            Source::Handovers => self.take_over(),
            Source::Connection(index, _) => self.connection_event(index, event),
            Source::Log => {
                self.bell.silence();
                self.release_held();
            }
            Source::Stop => {}
        }
    }

    // ---- Service --------------------------------------------------------------

    /// Takes a connection out of the tables, with what is begun for it.
    fn take(&mut self, index: u32) -> Option<Client> {
        let connection = self.connections.take(index)?;
        let executor = std::mem::take(&mut self.executors[index as usize]);
        Some(Client {
            connection,
            executor,
        })
    }

    fn put(&mut self, client: Client) {
        let Client {
            connection,
            executor,
        } = client;
        self.executors[connection.index as usize] = executor;
        self.connections.put(connection);
    }

    /// Lets `work` have a connection, and does what it says then.
    fn with_client(
        &mut self,
        index: u32,
        work: impl FnOnce(&mut Self, &mut Client) -> std::io::Result<Next>,
    ) {
        let Some(mut client) = self.take(index) else {
            return;
        };
        match work(self, &mut client) {
            Ok(Next::Keep) if self.is_over_output_limit(&client.connection) => self.close(client),
            Ok(Next::Keep) => self.keep(client),
            Ok(Next::Close) => self.close(client),
            Err(error) => {
                tracing::debug!(%error, index, "connection lost");
                self.close(client);
            }
        }
    }

    fn keep(&mut self, mut client: Client) {
        let Client {
            connection,
            executor,
        } = &mut client;
        let index = connection.index;
        let admitted = self.instance.admits(&connection.info);
        let mut wanted = connection.wanted(executor.reads(), admitted);
        // Nothing else tells that the client is gone.
        wanted.ended |= executor.is_blocked();
        if wanted != connection.interest {
            connection.interest = wanted;
            let source = connection.source();
            self.poll.change(connection.socket.as_fd(), source, wanted);
        }
        if let Some(until) = connection.held_until()
            && self.held.insert(index, until) != Some(until)
        {
            self.wanted = self.wanted.max(until);
            self.waiters += 1;
        }
        if connection.wants_another_look() && !self.draining.contains(&index) {
            self.draining.push(index);
        }
        if executor.is_paused() && !self.paused.contains(&index) {
            self.paused.push(index);
        }
        if let Some(until) = executor.rests_until() {
            self.resting.insert((until, index));
        } else if executor.is_busy() && !self.busy.contains(&index) {
            self.busy.push_back(index);
        }
        executor.trim(connection);
        self.put(client);
        self.bound_memory();
    }

    fn serve(&mut self, client: &mut Client) -> std::io::Result<Next> {
        self.serve_with(client, Executor::serve)
    }

    fn serve_with(
        &mut self,
        client: &mut Client,
        serve: impl FnOnce(
            &mut Executor,
            &mut Connection,
            &mut ServeContext<'_>,
        ) -> std::io::Result<Next>,
    ) -> std::io::Result<Next> {
        serve(
            &mut client.executor,
            &mut client.connection,
            &mut ServeContext {
                engine: &self.engine,
                session: &mut self.session,
                kernel: &self.programs.connections,
                instance: &mut self.instance,
                others: &mut self.connections,
                buffer: &mut self.buffer,
            },
        )
    }

    fn serve_if(&mut self, index: u32, is_to_be_served: impl FnOnce(&Executor) -> bool) {
        self.with_client(index, |server, client| {
            if is_to_be_served(&client.executor) {
                server.serve(client)
            } else {
                Ok(Next::Keep)
            }
        });
    }

    fn take_over(&mut self) {
        for handover in self.programs.handovers() {
            let known = self
                .connections
                .get(handover.index)
                .is_some_and(|connection| connection.cookie == handover.cookie);
            // Else it is not accepted yet, or gone.
            if known {
                self.with_client(handover.index, Self::serve_handed_over);
            }
        }
    }

    fn serve_handed_over(&mut self, client: &mut Client) -> std::io::Result<Next> {
        let connection = &mut client.connection;
        let arrived = self.programs.connections.arrived(connection.index);
        if arrived.is_broken() {
            let peer = &connection.info.peer;
            if self.programs.connections.way(connection.index) == bpfdb::abi::BPFDB_WAY_SPLICED {
                tracing::warn!(
                    %peer,
                    "closing a connection whose client has begun to read by splice()"
                );
            } else {
                tracing::warn!(%peer, "closing a connection that sends without reading");
            }
            return Ok(Next::Close);
        }
        connection.take_over();
        self.serve(client)
    }

    fn connection_event(&mut self, index: u32, event: &Event) {
        self.with_client(index, |server, client| {
            let connection = &mut client.connection;
            if event.source != connection.source() {
                return Ok(Next::Keep);
            }
            // The other end of a Unix-domain socket may be gone, and what it sent
            // still be here.
            let has_more =
                connection.info.is_unix() && (event.ready.readable || client.executor.is_busy());
            if event.failed && !has_more {
                return Ok(Next::Close);
            }
            // As in Redis, what it has sent behind that is not executed.
            if event.ready.ended && client.executor.is_blocked() {
                return Ok(Next::Close);
            }
            if event.ready.ended && connection.state == State::Kernel {
                connection.drain();
                // The end is told before the bytes of its segment are counted: they are when this has
                // had the socket's lock.
                connection.wake()?;
                let drained = connection.is_drained(&server.programs.connections);
                return Ok(if drained { Next::Close } else { Next::Keep });
            }
            if connection.held_until().is_some() {
                connection.press();
            }
            server.serve(client)
        });
    }

    /// Messages that others have published go to those that have subscribed.
    fn send_pushed(&mut self) {
        for index in self.connections.take_pushed() {
            self.with_client(index, |server, client| {
                let (kernel, instance) = (&server.programs.connections, &server.instance);
                let durable = instance.log.durable();
                let connection = &mut client.connection;
                let was_held = connection.held_until().is_some();
                connection.send_pushed(kernel, &instance.statistics, durable)?;
                if was_held && connection.held_until().is_none() && !connection.is_overfull() {
                    // Its replies are durable by now, and gone: what it has sent meanwhile is executed,
                    // which nothing else brings here any more.
                    return server.serve(client);
                }
                Ok(Next::Keep)
            });
        }
    }

    // ---- What is held back until it is durable ----------------------------------------

    /// Once for all that were served in a round: they become durable together.
    fn want_durable(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        let waiters = std::mem::take(&mut self.waiters);
        if wanted > 0 {
            let log = &self.instance.log;
            log.want(wanted, waiters);
            // It may have been, before anybody was told to say so; and of a log that has failed
            // nobody says anything any more.
            if log.durable() >= wanted || log.has_failed() {
                self.release_held();
            }
        }
    }

    fn release_held(&mut self) {
        let log = &self.instance.log;
        let refusal = log.has_failed().then(|| log.refusal());
        // After that: of a log that has failed this is the last word.
        let durable = log.durable();
        let is_over = |until: u64| refusal.is_some() || until <= durable;
        let due: Vec<u32> = (self.held.iter())
            .filter_map(|(&index, &until)| is_over(until).then_some(index))
            .collect();
        for index in due {
            self.held.remove(&index);
            self.with_client(index, |server, client| {
                let connection = &mut client.connection;
                match (connection.held_until(), &refusal) {
                    (None, _) => return Ok(Next::Keep),
                    (Some(until), _) if until <= durable => {}
                    (Some(_), Some(why)) => {
                        connection.give_up_held(why.as_deref().unwrap_or("MISCONF"));
                        client.executor.give_up();
                    }
                    (Some(_), None) => return Ok(Next::Keep),
                }
                server.serve(client)
            });
            self.close_those_told();
        }
    }

    /// Those whose time has come are busy again, after those that are.
    fn wake_resting(&mut self) {
        let now = Instant::now();
        while let Some(&(until, index)) = self.resting.first()
            && until <= now
        {
            self.resting.pop_first();
            if !self.busy.contains(&index) {
                self.busy.push_back(index);
            }
        }
    }

    /// One step of one long command; then the others are served.
    fn work_on(&mut self) {
        if let Some(index) = self.busy.pop_front() {
            self.serve_if(index, Executor::is_busy);
        }
    }

    /// When CLIENT PAUSE is over, by time or by UNPAUSE, what waited is executed.
    fn end_pause_when_due(&mut self) {
        let left = self.instance.pause.left(Instant::now());
        if left.is_some_and(|left| left.is_zero()) {
            self.instance.unpause();
        }
        if self.instance.pause.is_on() {
            return;
        }
        for index in std::mem::take(&mut self.paused) {
            self.serve_if(index, Executor::is_paused);
            self.close_those_told();
        }
    }

    fn look_at_draining(&mut self) {
        for index in std::mem::take(&mut self.draining) {
            self.with_client(index, |server, client| {
                let connection = &mut client.connection;
                if connection.state == State::Daemon {
                    return server.serve(client);
                }
                let drained = connection.state == State::Draining
                    && connection.is_drained(&server.programs.connections);
                Ok(if drained { Next::Close } else { Next::Keep })
            });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close_all();
    }
}

fn executors(sessions: u32) -> Vec<Executor> {
    let mut executors = Vec::new();
    executors.resize_with(sessions as usize, Executor::default);
    executors
}

/// Those that the engine has: who calls them first need not wait for it.
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
