//! The server: one thread that accepts connections and answers what the kernel
//! leaves to it.

mod admission;
mod durable;
mod front_end;
mod housekeeping;
mod postponed;
mod service;
mod starting;
mod waiters;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bpfdb::{ChangeNotes, Engine, Session};

pub use front_end::FrontEnd;

use crate::commands::keyspace_events;
use crate::commands::large::{self, Collector};
use crate::connection::Connection;
use crate::connection::table::ConnectionTable;
use crate::error::Result;
use crate::executor::Executor;
use crate::instance::Instance;
use crate::io::bell::Bell;
use crate::io::poll::{Event, Poll, Source};
use crate::io::stopper::Stopper;
use crate::io::unix;
use crate::kernel::apart::ProgramLoader;
use crate::kernel::cgroup::Cgroup;
use crate::kernel::programs::Programs;
use crate::kernel::workers::Workers;
use crate::stats::statistics::Statistics;

/// How often connections are looked at that wait for the kernel.
const DRAIN_PERIOD: Duration = Duration::from_millis(10);
/// How long no connection is accepted after there were no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Events of which the messages are sent together. A subscriber waits for the time slices of so many clients at most.
const PUBLISHED_TOGETHER: usize = 16;
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
    /// Rung when something has become durable, or was read from a file.
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
    accept_paused: Option<Instant>,
    next_tick: Instant,
    workers: Workers,
    buffer: Vec<u8>,
    _metrics: Option<bpfdb_service::endpoint::Endpoint>,
    // Dropped in this order: programs, then what they are attached to.
    programs: Programs,
    cgroup: Arc<Cgroup>,
}

impl Server {
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

    /// Loads the program of commands on collections, for callers that do not want to wait until the
    /// first of these commands has it loaded.
    pub fn loader(&self) -> ProgramLoader {
        self.instance.loader.clone()
    }

    /// The same of the program of commands on an element of a large collection.
    pub fn large_loader(&self) -> ProgramLoader {
        self.instance.large_loader.clone()
    }

    /// The same of the programs that begin reads of cold values; `None`: there are no such values.
    pub fn prefetch_loader(&self) -> Option<ProgramLoader> {
        self.instance.prefetch_loader.clone()
    }

    /// The same of the programs that answer GETs of cold values.
    pub fn park_loader(&self) -> Option<ProgramLoader> {
        self.instance.park_loader.clone()
    }

    /// Serves until it is stopped. Nothing here waits for anything but events and the
    /// next time at which there is something to do: a connection that waits is put aside, and has
    /// its turn again.
    ///
    /// Returns the programs for another server on the same engine at the same address
    /// ([`Server::start_loaded`]): no new client comes to them.
    pub fn run(mut self) -> Result<FrontEnd> {
        let mut events = Vec::new();
        self.instance.statistics.set_ready(true);
        loop {
            self.poll.wait(&mut events, Some(self.timeout()))?;
            for (number, event) in events.iter().enumerate() {
                if event.source == Source::Stop {
                    self.send_pushed();
                    tracing::info!(address = %self.address(), "stopping");
                    self.instance.statistics.set_ready(false);
                    let address = self.address();
                    let local_clients = self.instance.settings.local_clients.clone();
                    return Ok(FrontEnd::after(
                        &self.programs,
                        address,
                        local_clients,
                        &self.cgroup,
                    ));
                }
                self.handle(event);
                self.serve_waiters();
                // What some clients have published goes to a subscriber by one send(). Those that are to be
                // closed get what was published before.
                if self.connections.has_closing() || (number + 1) % PUBLISHED_TOGETHER == 0 {
                    self.send_pushed();
                    self.close_those_told();
                }
            }
            self.send_pushed();
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
            self.say_garbage();
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
        if let Some(until) = self.accept_paused {
            tick = tick.min(until.saturating_duration_since(now));
        }
        match self.draining.is_empty() {
            true => tick,
            false => tick.min(DRAIN_PERIOD),
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

    /// Writes that find no memory wait for the collector, if it may find something.
    fn say_garbage(&self) {
        let garbage = large::garbage(Instant::now());
        if let Err(error) = self.instance.evictor.set_garbage(garbage) {
            tracing::debug!(%error, "writes do not wait for the collector");
        }
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
                self.go_on_after_reads();
                self.go_on_after_questions();
                self.take_overdue();
            }
            Source::Stop => {}
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Clients do not wait for what is being loaded.
        self.close_all();
        self.refuse_waiting();
        self.instance.loader.end();
        self.instance.large_loader.end();
        let loaders = [&self.instance.prefetch_loader, &self.instance.park_loader];
        for loader in loaders.into_iter().flatten() {
            loader.end();
        }
    }
}
