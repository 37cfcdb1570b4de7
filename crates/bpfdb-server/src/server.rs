//! The server: one thread that accepts connections and answers what the kernel
//! leaves to it.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bpfdb::{Engine, Session};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::cgroup::Cgroup;
use crate::client::{Client, Next, State};
use crate::error::{Result, system};
use crate::poll::{Event, Interest, Poll, Source};
use crate::programs::Programs;
use crate::settings::{ConfigFile, LogLevel, Settings};
use crate::socket;

/// Connections taken in before others are served.
const ACCEPT_MAX: usize = 64;
/// How often connections are looked at that wait for the kernel.
const DRAIN_PERIOD: Duration = Duration::from_millis(10);
/// How long no connection is accepted after there were no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const RECEIVE_BUFFER: usize = 64 * 1024;
/// The Redis whose protocol and error texts this server speaks.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

#[derive(Clone, Debug)]
pub struct Options {
    pub settings: Settings,
    /// What the settings were read from: for CONFIG REWRITE.
    pub file: Option<ConfigFile>,
    /// Called when CONFIG SET changes what is logged.
    pub set_log_level: fn(LogLevel),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            file: None,
            set_log_level: |_| {},
        }
    }
}

impl Options {
    /// All as it is by default, but the address; port 0: any.
    pub fn at(address: SocketAddr) -> Self {
        let settings = Settings {
            bind: address.ip(),
            port: address.port(),
            ..Settings::default()
        };
        Self {
            settings,
            ..Self::default()
        }
    }
}

#[derive(Debug)]
struct Stop {
    event: EventFd,
    keep_data: OnceLock<bool>,
}

/// Stops a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    fn new() -> Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(system("create an event"))?;
        Ok(Self(Arc::new(Stop {
            event,
            keep_data: OnceLock::new(),
        })))
    }

    pub fn stop(&self) {
        if let Err(error) = self.0.event.write(1) {
            tracing::error!(%error, "cannot stop the server");
        }
    }

    /// Has a client said whether the data shall stay? (SHUTDOWN SAVE, NOSAVE.)
    pub fn keeps_data(&self) -> Option<bool> {
        self.0.keep_data.get().copied()
    }
}

/// A server that listens; [`Server::run`] serves. Dropping it closes all
/// connections and detaches everything; the engine is not touched.
pub struct Server {
    engine: Engine,
    session: Session,
    listener: TcpListener,
    address: SocketAddr,
    poll: Poll,
    stop: Stopper,
    clients: Vec<Option<Client>>,
    /// Connections that wait for the kernel.
    draining: Vec<u32>,
    accept_paused: bool,
    buffer: Vec<u8>,
    // Dropped in this order: programs, then what they are attached to.
    programs: Programs,
    _cgroup: Cgroup,
}

impl Server {
    /// Loads and attaches the programs, and listens.
    pub fn start(engine: &Engine, options: &Options) -> Result<Self> {
        raise_descriptor_limit();
        let cgroup = Cgroup::create()?;
        let settings = &options.settings;
        let wanted = SocketAddr::new(settings.bind, settings.port);
        let listener = cgroup.inside(|| socket::bound(wanted))?;
        let address = listener
            .local_addr()
            .map_err(system("look at the listener"))?;
        let programs = Programs::attach(engine, &cgroup, address.port())?;
        let stop = Stopper::new()?;
        let poll = Poll::new()?;
        let readable = Interest {
            readable: true,
            ..Interest::default()
        };

        socket::start_listening(&listener, settings.tcp_backlog)?;
        poll.add(listener.as_fd(), Source::Listener, readable)?;
        poll.add(stop.0.event.as_fd(), Source::Stop, readable)?;
        // SAFETY: the ring lives in `programs`, longer than this borrow.
        let ring = unsafe { BorrowedFd::borrow_raw(programs.ring_fd()) };
        poll.add(ring, Source::Handovers, readable)?;

        let mut clients = Vec::new();
        clients.resize_with(programs.connections.len() as usize, || None);
        tracing::info!(%address, "listening");
        Ok(Self {
            engine: engine.clone(),
            // Directed at the session of each connection in turn.
            session: engine.borrow_session(0)?,
            listener,
            address,
            poll,
            stop,
            clients,
            draining: Vec::new(),
            accept_paused: false,
            buffer: vec![0; RECEIVE_BUFFER],
            programs,
            _cgroup: cgroup,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> Result<()> {
        let mut events = Vec::new();
        loop {
            self.poll.wait(&mut events, self.timeout())?;
            for event in &events {
                if event.source == Source::Stop {
                    tracing::info!(address = %self.address, "stopping");
                    return Ok(());
                }
                self.handle(event);
            }
            self.look_at_draining();
            self.resume_accepting();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.draining.is_empty() {
            Some(DRAIN_PERIOD)
        } else if self.accept_paused {
            Some(ACCEPT_PAUSE)
        } else {
            None
        }
    }

    fn handle(&mut self, event: &Event) {
        match event.source {
            Source::Listener => self.accept(),
            Source::Handovers => self.take_over(),
            Source::Connection(index, _) => self.connection_event(index, event),
            Source::Stop => {}
        }
    }

    // ---- Beginning and end of connections -----------------------------------

    fn accept(&mut self) {
        for _ in 0..ACCEPT_MAX {
            match socket::accept(&self.listener) {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection");
                    self.pause_accepting(true);
                    return;
                }
            }
        }
    }

    fn pause_accepting(&mut self, pause: bool) {
        let interest = Interest {
            readable: !pause,
            ..Interest::default()
        };
        self.poll
            .change(self.listener.as_fd(), Source::Listener, interest);
        self.accept_paused = pause;
    }

    fn resume_accepting(&mut self) {
        if self.accept_paused {
            self.pause_accepting(false);
        }
    }

    /// The kernel has given the connection a session already, or had none.
    fn admit(&mut self, socket: std::os::fd::OwnedFd) {
        let known = socket::cookie(socket.as_fd())
            .map_err(system("identify a connection"))
            .and_then(|cookie| Ok((cookie, self.programs.connection(cookie)?)));
        match known {
            Ok((cookie, Some(index))) => self.enter(Client::new(socket, index, cookie)),
            Ok((_, None)) => refuse(socket.as_fd()),
            Err(error) => tracing::error!(%error, "cannot take a connection in"),
        }
    }

    fn enter(&mut self, client: Client) {
        let (index, cookie) = (client.index, client.cookie);
        let added = self
            .poll
            .add(client.socket.as_fd(), client.source(), client.interest);
        if let Err(error) = added {
            tracing::error!(%error, "cannot take a connection in");
            self.programs.release(index, cookie);
            return;
        }
        // A former connection with this index was ended by the kernel, which
        // this process has not noticed yet.
        self.clients[index as usize] = Some(client);
        self.with_client(index, |server, client| {
            client.nudge(&server.programs.connections)?;
            let arrived = server.programs.connections.arrived(index);
            if arrived.is_broken() {
                return Ok(Next::Close);
            }
            if arrived.is_user() {
                client.take_over();
            }
            server.serve(client)
        });
    }

    fn close(&mut self, index: u32, client: Client) {
        self.programs.release(index, client.cookie);
        drop(client);
    }

    // ---- Service --------------------------------------------------------------

    /// Lets `work` have a connection, and does what it says then.
    fn with_client(
        &mut self,
        index: u32,
        work: impl FnOnce(&mut Self, &mut Client) -> std::io::Result<Next>,
    ) {
        let Some(mut client) = self.clients[index as usize].take() else {
            return;
        };
        match work(self, &mut client) {
            Ok(Next::Keep) => {
                let wanted = client.wanted();
                if wanted != client.interest {
                    client.interest = wanted;
                    self.poll
                        .change(client.socket.as_fd(), client.source(), wanted);
                }
                if client.wants_another_look() && !self.draining.contains(&index) {
                    self.draining.push(index);
                }
                self.clients[index as usize] = Some(client);
            }
            Ok(Next::Close) => self.close(index, client),
            Err(error) => {
                tracing::debug!(%error, index, "connection lost");
                self.close(index, client);
            }
        }
    }

    fn serve(&mut self, client: &mut Client) -> std::io::Result<Next> {
        client.serve(
            &self.engine,
            &mut self.session,
            &self.programs.connections,
            &mut self.buffer,
        )
    }

    fn take_over(&mut self) {
        for handover in self.programs.handovers() {
            let known = self
                .clients
                .get(handover.index as usize)
                .and_then(Option::as_ref)
                .is_some_and(|client| client.cookie == handover.cookie);
            // Else it is not accepted yet, or gone.
            if !known {
                continue;
            }
            self.with_client(handover.index, |server, client| {
                let arrived = server.programs.connections.arrived(handover.index);
                if arrived.is_broken() {
                    tracing::warn!(
                        index = handover.index,
                        "closing a connection that sends without reading"
                    );
                    return Ok(Next::Close);
                }
                client.take_over();
                server.serve(client)
            });
        }
    }

    fn connection_event(&mut self, index: u32, event: &Event) {
        self.with_client(index, |server, client| {
            if event.source != client.source() {
                return Ok(Next::Keep);
            }
            if event.failed {
                return Ok(Next::Close);
            }
            if event.ready.ended && client.state == State::Kernel {
                client.drain();
                return Ok(Next::Keep);
            }
            server.serve(client)
        });
    }

    fn look_at_draining(&mut self) {
        for index in std::mem::take(&mut self.draining) {
            self.with_client(index, |server, client| {
                if client.state == State::Daemon {
                    return server.serve(client);
                }
                let drained = client.state == State::Draining
                    && client.is_drained(&server.programs.connections);
                Ok(if drained { Next::Close } else { Next::Keep })
            });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for index in 0..self.clients.len() {
            if let Some(client) = self.clients[index].take() {
                self.close(index as u32, client);
            }
        }
    }
}

/// There is no session left for this connection.
fn refuse(socket: BorrowedFd<'_>) {
    tracing::warn!("refusing a connection: every session is taken");
    // Best effort: it is closed next.
    let _ = socket::send(socket, b"-ERR max number of clients reached\r\n");
}

/// Each connection is a descriptor.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}
