//! The proxy in user space: one thread, which waits for what is ready and serves it.
//!
//! ```text
//!  client ──► accept: start, password ──► greeted ──► requests ──► a server of the pool
//!    ▲                                                   │ none is free: waits
//!    └───────────────── replies ◄────────────────────────┘ over: the next client's (pools)
//! ```
//!
//! | module | |
//! |---|---|
//! | `accept`, `admit` | a connection becomes a client, and authenticates |
//! | `secure` | TLS begins |
//! | `requests`, `extended` | from a client to its server |
//! | `flow` | what is sent, and what is waited for |
//! | `replies`, `effects` | from a server to its client; what a reply says of the session |
//! | `settled` | a request or a transaction is over |
//! | `pools` | which client gets which server |
//! | `servers` | servers are opened, log in, and are closed |
//! | `addresses` | hosts that have others |
//! | `leave` | clients end |
//! | `ending` | the proxy ends |
//! | `cancel` | requests to cancel |
//! | `timeouts`, `activity` | what has taken too long |
//! | `quotas` | how many servers there may be |
//! | `figures` | what the endpoint of metrics is told |
//! | `mirroring` | what is sent to a second database, too |
//! | `copies` | how the process hears of what the kernel has brought, for that |
//! | `handover` | which clients the kernel serves |
//! | `unnamed` | what it has done with their unnamed statements |
//! | `stopper` | what is said from other threads |
//! | `succession` | another proxy takes the place of this one |
//! | `predecessor` | this proxy takes the place of another one |
//! | `console` | what operators see and say |
//! | `pause` | databases that are paused, and servers that are replaced |

mod accept;
mod activity;
mod addresses;
mod admit;
mod cancel;
mod console;
mod copies;
mod effects;
mod ending;
mod extended;
mod figures;
mod flow;
mod handover;
mod leave;
mod mirroring;
mod pause;
mod pools;
mod predecessor;
mod quotas;
mod replies;
mod requests;
mod secure;
mod servers;
mod settled;
mod stopper;
mod succession;
mod timeouts;
mod unnamed;

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use bpfdb_service::endpoint::Endpoint;
use rustc_hash::FxHashMap;

use crate::auth::scram::{Keys, Verifiers};
use crate::auth::secrets::{Secrets, Whose};
use crate::client::Client;
use crate::config::File;
use crate::error::{Result, system};
use crate::io::poll::{Event, Interest, Poll, Source, Ticks};
use crate::io::slab::{Id, Slab};
use crate::io::socket::{self, Address, Received};
use crate::io::tls;
use crate::kernel::programs::Kernel;
use crate::metrics::Loop;
use crate::mirror::Mirror;
use crate::names::Names;
use crate::pool::{Key, Pool};
use crate::server::Server;
use crate::settings::{Host, Settings, look_up};
use crate::statements::Texts;
use crate::traffic::{self, Traffic};
use crate::wire::reply::state;
use predecessor::Predecessor;
pub use stopper::Stopper;
use succession::Succession;

/// Bytes that wait to be sent to one end; then nothing more is read from the other. Twice what one
/// `recv()` brings, so that both can be under way.
const HIGH: usize = 2 * socket::CHUNK;
/// Bytes of one message that are kept until it is whole. Only a Parse is longer than a few.
const HELD_MAX: usize = 16 << 20;
/// What has taken too long is looked for so often.
const TICK: Duration = Duration::from_millis(100);

/// Where something may be done.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Requests of a client, or it has a server now.
    Client(Id),
    /// Replies of a server.
    Server(Id),
}

pub struct Proxy {
    settings: Rc<Settings>,
    poll: Poll,
    /// Of the servers of mirrors: they are looked at when mirrors have their turn.
    mirror_poll: Poll,
    listeners: Vec<OwnedFd>,
    addresses: Vec<Address>,
    accepting: accept::Accepting,
    stop: UnixStream,
    /// Shadows, which have no connection, included.
    clients: Slab<Client>,
    shadows: usize,
    /// What the client that was greeted last cancels by.
    last_number: i32,
    /// Those whose clients are gone, the one that was left first in front; some may be gone, too.
    left_shadows: VecDeque<Id>,
    /// By the database that is mirrored.
    mirrors: FxHashMap<String, Mirror>,
    looking: copies::Looking,
    servers: Slab<Server>,
    cancels: Slab<cancel::Cancel>,
    pools: Vec<Pool>,
    /// By the database: the host that has let the proxy in last.
    hosts: FxHashMap<String, Host>,
    names: Names,
    by_key: FxHashMap<Key, u32>,
    texts: Texts,
    /// What the database has said of passwords.
    secrets: Secrets,
    /// Of users that have logged in by SCRAM: with them the proxy logs in as they do.
    keys: FxHashMap<Whose, Keys>,
    verifiers: Verifiers,
    client_tls: Option<Arc<rustls::ServerConfig>>,
    server_tls: Option<Arc<rustls::ClientConfig>>,
    work: VecDeque<Work>,
    /// Ends that have more than was received at once.
    again: Vec<Event>,
    kernel: Option<Kernel>,
    /// A server was about to be free: it is asked for again at once.
    retries: bool,
    ticks: Ticks,
    ticked: Instant,
    held: pause::Held,
    succession: Succession,
    /// Operators that wait for something.
    awaited: Vec<(Id, console::Awaited)>,
    console_traffic: Traffic,
    period_begun: Instant,
    /// Where the settings came from.
    source: Option<ReadSettings>,
    /// For the endpoint; gone before that, which would wait for a page.
    pages: Sender<String>,
    metrics: Option<Endpoint>,
    /// What the endpoint asks for a page, if there is to be one.
    asker: Option<Loop>,
    /// It is over.
    ends: bool,
    /// It is when this is so.
    ending: ending::Ending,
    /// Since when all that is awaited for the end is there, but for what clients have not taken.
    read_since: Option<Instant>,
}

type ReadSettings = Box<dyn FnMut() -> std::result::Result<File, String>>;

impl Proxy {
    /// Listens, and serves no client yet. If there is a proxy at `takeover_socket`, its place is taken.
    ///
    /// # Errors
    /// An address that cannot be listened at, programs that cannot be loaded, a proxy that cannot be followed: that goes
    /// on then as if there had been none of this.
    pub fn new(mut settings: Settings) -> Result<(Self, Stopper)> {
        settings.check()?;
        settings.find_hosts(None, look_up);
        for (name, _) in settings
            .names()
            .iter()
            .filter(|(_, found)| found.is_empty())
        {
            tracing::warn!(
                name,
                "there is no host of this name now; it is looked up again and again"
            );
        }
        let settings = Rc::new(settings);
        let client_tls = tls::for_clients(&settings.client_tls, settings.asks_for_certificates())?;
        let server_tls = tls::for_servers(&settings.server_tls)?;
        let poll = Poll::new()?;
        let mut addresses: Vec<_> = settings.listen.iter().copied().map(Address::Inet).collect();
        let takeover = settings.administration.takeover_socket.as_deref();
        let mut predecessor = takeover.map_or(Ok(None), Predecessor::find)?;
        let mut listen = |address: &Address| {
            let taken = predecessor
                .as_mut()
                .and_then(|before| before.listener(address));
            taken.map_or_else(|| socket::listen(address), Ok)
        };
        let mut listeners = (addresses.iter().map(&mut listen)).collect::<Result<Vec<_>>>()?;
        // The port that the first one got.
        let own = listeners
            .first()
            .and_then(|first| socket::own(first.as_fd()));
        let administration = &settings.administration;
        let port = own.map_or(administration.listen_port, |own| own.port());
        let file = format!(".s.PGSQL.{port}");
        for folder in &settings.unix_socket_dirs {
            let address = Address::Unix(folder.join(&file));
            listeners.push(listen(&address)?);
            socket::set_mode(&address, administration.unix_socket_mode)?;
            addresses.push(address);
        }
        for (index, listener) in listeners.iter().enumerate() {
            poll.add(
                listener.as_fd(),
                Source::Listener(index as u32),
                Interest::READ,
            )?;
        }
        let kernel = load_kernel(&settings, listeners.first())?;
        if let Some(kernel) = &kernel {
            poll.add(kernel.ring_fd(), Source::Kernel, Interest::READ)?;
            poll.add(kernel.copies_fd(), Source::Copies, Interest::READ)?;
            poll.add(kernel.sink_fd(), Source::Sink, Interest::READ)?;
        }
        let mirror_poll = Poll::new()?;
        poll.add(mirror_poll.as_fd(), Source::Mirrors, Interest::READ)?;
        let (stop, stopper) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        poll.add(stop.as_fd(), Source::Stop, Interest::READ)?;
        let (pages, asked) = channel();
        let asker = figures::asker(&settings, &stopper, asked)?;
        let names = Names::new().map_err(system("make a pair of sockets"))?;
        poll.add(names.fd(), Source::Names, Interest::READ)?;
        let ticks = Ticks::each(TICK)?;
        poll.add(ticks.as_fd(), Source::Ticks, Interest::READ)?;
        let metrics = figures::serve(&settings, asker.as_ref(), predecessor.is_some())?;
        if let Some(before) = &mut predecessor {
            before.prepare()?;
        }
        let mut proxy = Self {
            settings,
            poll,
            mirror_poll,
            listeners,
            addresses,
            accepting: accept::Accepting::default(),
            stop,
            clients: Slab::new(),
            shadows: 0,
            last_number: 0,
            left_shadows: VecDeque::new(),
            mirrors: FxHashMap::default(),
            looking: copies::Looking::default(),
            servers: Slab::new(),
            cancels: Slab::new(),
            pools: Vec::new(),
            hosts: FxHashMap::default(),
            names,
            by_key: FxHashMap::default(),
            texts: Texts::new(kernel.as_ref().map(|kernel| Rc::clone(&kernel.shared))),
            secrets: Secrets::default(),
            keys: FxHashMap::default(),
            verifiers: Verifiers::default(),
            client_tls,
            server_tls,
            work: VecDeque::new(),
            again: Vec::new(),
            kernel,
            retries: false,
            ticks,
            ticked: Instant::now(),
            held: pause::Held::default(),
            succession: Succession::default(),
            awaited: Vec::new(),
            console_traffic: Traffic::default(),
            period_begun: Instant::now(),
            source: None,
            pages,
            metrics,
            asker,
            ends: false,
            ending: ending::Ending::No,
            read_since: None,
        };
        proxy.ask_for_names();
        proxy.begin_succession(predecessor)?;
        proxy.take_over()?;
        proxy.serve_metrics();
        Ok((proxy, Stopper(stopper)))
    }

    /// Where the first listener is, with the port that it got.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        socket::own(self.listeners.first()?.as_fd())
    }

    /// Where metrics are served, with the port that it got.
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.metrics.as_ref().map(|endpoint| endpoint.address)
    }

    /// Requests that the kernel has brought to servers within their clients' `send()`, so far.
    pub fn kernel_requests(&self) -> u64 {
        let kernel = self.kernel.as_ref();
        kernel.map_or(0, |kernel| kernel.shared.figures().0)
    }

    /// Where RELOAD gets the settings from.
    pub fn on_reload(&mut self, read: impl FnMut() -> std::result::Result<File, String> + 'static) {
        self.source = Some(Box::new(read));
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// The system does not say what is ready.
    pub fn run(&mut self) -> Result<()> {
        let mut events = Vec::new();
        loop {
            let timeout = match self.retries || !self.again.is_empty() {
                true => Some(Duration::ZERO),
                false => self.looking.timeout(),
            };
            events.append(&mut self.again);
            self.poll.wait(&mut events, timeout)?;
            self.retry();
            self.look_for_copies();
            self.work();
            for event in events.drain(..) {
                self.seen(event);
                self.work();
            }
            if self.ends {
                self.say_goodbye();
                return Ok(());
            }
        }
    }

    fn seen(&mut self, event: Event) {
        match event.source {
            Source::Listener(index) => self.accept(index),
            Source::Stop => self.listen_to_stopper(),
            Source::Names => self.names_are_looked_up(),
            Source::Ticks => {
                self.ticks.take();
                self.ticked = Instant::now();
                self.tick();
            }
            Source::Kernel => self.kernel_seen(),
            Source::Copies | Source::Mirrors => self.woken_for_mirrors(),
            Source::Sink => {
                if let Some(kernel) = &mut self.kernel {
                    kernel.empty_sink();
                }
            }
            Source::Client(client) => self.client_seen(client, event),
            Source::Server(server) => self.server_seen(server, event),
            Source::Cancel(cancel) => self.cancel_seen(cancel, event),
            Source::Takeover => self.successor_comes(),
            Source::Successor => self.successor_seen(),
            Source::Predecessor => self.predecessor_seen(),
        }
    }

    fn work(&mut self) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Client(client) => self.serve_client(client),
                Work::Server(server) => self.serve_server(server),
            }
        }
    }

    fn client_seen(&mut self, id: Id, event: Event) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        // If it is not waited for now, it is told of again when it is.
        let is_awaited = client.interest.readable;
        if event.readable && is_awaited || event.failed {
            match client.socket.receive(&mut client.input) {
                Received::Bytes { count, more } => {
                    if is_awaited && (more || event.ends || event.failed) {
                        self.again.push(event.again());
                    }
                    client.received += count as u64;
                    client.asked = traffic::now();
                    if let Some(pool) = client.pool {
                        self.pools[pool as usize].traffic.received += count as u64;
                    }
                    self.grab(id);
                    // What it has sent before went another way.
                    self.copies_seen_of(id);
                }
                Received::Nothing if !event.failed => {}
                Received::Nothing | Received::End => return self.leave(id),
            }
        }
        if event.writable {
            self.flush_client(id);
        }
        self.work.push_back(Work::Client(id));
    }

    fn server_seen(&mut self, id: Id, event: Event) {
        let is_held_up = self.is_held_up(id);
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        if matches!(server.stage, crate::server::Stage::Connecting) {
            if event.writable || event.failed {
                self.connected(id);
            }
            return;
        }
        let is_awaited = server.interest.readable;
        // What it has said last waits for its client, if that takes nothing now: it is told of again when it is awaited.
        if !is_awaited && event.failed && is_held_up {
            return;
        }
        if event.readable && is_awaited || event.failed {
            match server.socket.receive(&mut server.input) {
                Received::Bytes { more, .. } => {
                    if is_awaited && (more || event.ends || event.failed) {
                        self.again.push(event.again());
                    }
                    self.server_speaks(id);
                }
                Received::Nothing if !event.failed => {}
                Received::Nothing | Received::End => return self.server_ended(id),
            }
        }
        if event.writable {
            self.flush_server(id);
        }
        self.work.push_back(Work::Server(id));
    }

    /// All clients hear why their connection ends.
    fn say_goodbye(&mut self) {
        // What they have sent goes to their mirrors.
        self.serve_mirrors();
        self.end_succession();
        for id in self.clients.ids() {
            self.refuse(id, state::ADMIN_SHUTDOWN, ending::TOLD);
        }
        if let Some(kernel) = &self.kernel {
            tracing::info!(figures = ?kernel.shared.figures(), "the kernel's part");
        }
        self.remove_files();
    }
}

/// The programs, for the first listener, if a cgroup was named for them.
fn load_kernel(settings: &Settings, listener: Option<&OwnedFd>) -> Result<Option<Kernel>> {
    let address = listener.and_then(|listener| socket::own(listener.as_fd()));
    let (Some(cgroup), Some(address)) = (&settings.cgroup, address) else {
        return Ok(None);
    };
    let ports = console::ports(settings);
    Kernel::load(cgroup, address.port(), &ports).map(Some)
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.stop.shutdown(std::net::Shutdown::Both);
    }
}
