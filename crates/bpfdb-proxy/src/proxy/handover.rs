//! Which clients the kernel serves.
//!
//! A client's word that is SLOW is ours. We take it when bytes of the client, or of its server, arrive here
//! (`grab`), and go on with what the word and the server's stream say. We give it back when nothing is
//! under way here (`hand_back`); whether something is under way elsewhere the programs see
//! themselves.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::{Proxy, Work};
use crate::awaited::Expected;
use crate::io::slab::Id;
use crate::kernel::abi;
use crate::kernel::programs::{Kernel, Taken};
use crate::kernel::shared::{Present, Word};
use crate::server::{Copying, IDLE, Server};
use crate::settings::PoolMode;
use crate::traffic;
use crate::wire::framing::{Framing, HEADER};

/// The status of ReadyForQuery within a transaction block. Whether it has failed the word does not say;
/// nothing here depends on it.
const OPEN: u8 = b'T';
/// A database that is within its send() for so long has been stopped. Its client's requests may then be
/// executed in another order than they were sent; without this bound the proxy would stand still.
const BRING_TIME: Duration = Duration::from_secs(5);
/// A client that waits in the kernel for so long waits here, among those that the kernel serves first.
const WAIT_THERE: Duration = Duration::from_secs(1);

impl Proxy {
    /// A client has logged in: may the kernel know it?
    pub(super) fn offer_client(&mut self, id: Id) {
        let client = &mut self.clients[id];
        // What is of TLS only the process can read.
        if client.mode == PoolMode::Statement || client.socket.has_tls() {
            return;
        }
        if let (Some(kernel), Some(pool)) = (&mut self.kernel, client.pool) {
            client.slot = kernel.add_client(id, client.socket.as_fd(), pool);
        }
    }

    pub(super) fn offer_server(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let is_mirror = self.pools[server.pool as usize].key.is_mirror;
        let is_followed = !server.socket.has_tls() && !is_mirror;
        if let Some(kernel) = (self.kernel.as_mut()).filter(|_| is_followed) {
            server.slot = kernel.add_server(id, server.socket.as_fd(), server.pool);
            server.statements.present = server.slot.map(|server| Present {
                shared: Rc::clone(&kernel.shared),
                server,
            });
            self.pools[server.pool as usize].known += usize::from(server.slot.is_some());
        }
    }

    /// Gives a client to the kernel, if it has asked for nothing that is not answered. The answer may be still to be
    /// sent: a client that gets it before its word has been changed sends its next request this way, and so on.
    pub(super) fn hand_back(&mut self, id: Id) {
        if let Some(server) = self.clients.get(id).and_then(|client| client.server) {
            // It has not used it after all: a part of a header, or of a message, asks for nothing.
            self.over(server);
        }
        if self.settings.always_slow || self.succession.is_leaving {
            return;
        }
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let Some(slot) = client.slot.filter(|_| !client.is_away) else {
            return;
        };
        let is_done = client.is_between() && client.input.is_empty();
        if !is_done || client.waits.is_some() {
            return;
        }
        let Some(kernel) = &self.kernel else {
            return;
        };
        let pool = client.pool.map(|pool| &self.pools[pool as usize]);
        if pool.is_some_and(|pool| pool.is_paused || pool.retires) {
            return;
        }
        let generation = kernel.word(slot).generation();
        let word = match client.server {
            // All of its servers are elsewhere.
            None if client
                .pool
                .is_none_or(|pool| self.pools[pool as usize].known == 0) =>
            {
                return;
            }
            None => Word::new(abi::BPFDB_PROXY_IDLE, 0, generation),
            Some(server) => {
                let server = &self.servers[server];
                let Some(place) = server.slot else {
                    return;
                };
                let is_done = server.expected.is_empty()
                    && server.framing.is_between()
                    && server.input.is_empty()
                    && server.output.is_empty();
                let is_ours = server.cancels > 0
                    || server.has_set
                    || server.unsure
                    || server.has_portal
                    || server.has_ended;
                if !is_done || server.copying != Copying::No || is_ours {
                    return;
                }
                let shared = kernel.shared.server(place);
                // SAFETY: the programs leave the stream of a server alone that is the process's.
                unsafe {
                    (&raw mut (*shared).stream).write_volatile(abi::bpfdb_proxy_stream::default());
                    (&raw mut (*shared).digest).write_volatile(server.parameters.digest());
                }
                kernel.shared.set_times(place, server.asked, server.begun);
                kernel.shared.owner(place).store(slot + 1, Ordering::SeqCst);
                Word::new(abi::BPFDB_PROXY_LINKED, place, generation)
                    .with(abi::BPFDB_PROXY_OPEN, server.status != IDLE)
            }
        };
        let is_pinned = client.pinned || client.mode == PoolMode::Session;
        let shared = kernel.shared.client(slot);
        // The programs wait until the client has read what is still to be sent.
        let sent = client.sent + client.output.len() as u64;
        // SAFETY: the programs read these of a client that is not SLOW only.
        unsafe {
            (&raw mut (*shared).sent).write_volatile(sent);
            (&raw mut (*shared).received).write_volatile(client.received);
            (&raw mut (*shared).parked).write_volatile(0);
            (&raw mut (*shared).loses).write_volatile(0);
            (&raw mut (*shared).digest).write_volatile(client.parameters.digest());
        }
        let client = &mut self.clients[id];
        client
            .names
            .tell(|name, number| kernel.name(slot, name, number));
        kernel.set_word(slot, word.with(abi::BPFDB_PROXY_PINNED, is_pinned));
        client.is_away = true;
        // The word says from now on which server it has.
        if let Some(server) = client.server.take() {
            self.servers[server].client = None;
            // It was not read while its client had much to read.
            self.server_waits(server);
        }
    }

    /// Takes a client from the kernel, and goes on where that is.
    pub(super) fn grab(&mut self, id: Id) {
        let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get_mut(id)) else {
            return;
        };
        let Some(slot) = client.slot.filter(|_| client.is_away) else {
            return;
        };
        client.is_away = false;
        let slow = |word: Word| Some(word.with(abi::BPFDB_PROXY_SLOW, true));
        let (Ok(word) | Err(word)) = kernel.change_word(slot, slow);
        let pinned = word.has(abi::BPFDB_PROXY_PINNED) && client.mode != PoolMode::Session;
        let newly_pinned = pinned && !client.pinned;
        client.pinned |= pinned;
        let is_waiting = word.state() == abi::BPFDB_PROXY_WAITING;
        self.unnamed_was(id, word, if is_waiting { 0 } else { word.due() });
        let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get_mut(id)) else {
            return;
        };
        match word.state() {
            abi::BPFDB_PROXY_WAITING => {
                if let Some(pool) = client.pool {
                    let since = kernel.shared.asked(slot);
                    let waited = traffic::now().saturating_sub(since);
                    self.pools[pool as usize].traffic.wait_time += waited;
                }
                self.copies_seen_of(id);
                self.take_parked(id, slot);
                return self.work.push_back(Work::Client(id));
            }
            abi::BPFDB_PROXY_LINKING | abi::BPFDB_PROXY_LINKED | abi::BPFDB_PROXY_RESTING => {}
            _ => return,
        }
        let Some(server) = kernel.server_at(word.server()) else {
            return;
        };
        let is_brought = word.state() != abi::BPFDB_PROXY_LINKING || self.is_brought(slot, server);
        // Its mirror gets first what the kernel has brought.
        self.copies_seen_of(id);
        let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get_mut(id)) else {
            return;
        };
        let Some(state) = self.servers.get_mut(server) else {
            return;
        };
        client.server = Some(server);
        state.client = Some(id);
        state.resumes = true;
        if let Some(place) = state.slot {
            (state.asked, state.begun) = kernel.shared.times(place);
        }
        let due = if is_brought { word.due() } else { 0 };
        state.expected = (0..due).map(|_| Expected::Query).collect();
        state.status = if word.has(abi::BPFDB_PROXY_OPEN) {
            OPEN
        } else {
            IDLE
        };
        // Each request may have made it another one, or none.
        state.statements.doubt_unnamed();
        if !is_brought {
            client.parses_there = 0;
            self.take_parked(id, slot);
        }
        if newly_pinned {
            // It is not known here what was done.
            self.forget_statements(server);
        }
        // Last: the server may be gone then.
        self.flush_server(server);
        self.work.push_back(Work::Client(id));
    }

    /// What a client has parked is in front of what has come since.
    fn take_parked(&mut self, id: Id, slot: u32) {
        if let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get_mut(id)) {
            let mut input = BytesMut::from(&kernel.take_parked(slot)[..]);
            input.extend_from_slice(&client.input);
            client.input = input;
        }
    }

    /// LINKING: does the database bring what is parked to its own queue? It does so in its send(), which is
    /// awaited: it is over in a moment. If it could not, we do.
    fn is_brought(&self, slot: u32, server: Id) -> bool {
        let Some(kernel) = &self.kernel else {
            return true;
        };
        let begun = Instant::now();
        while kernel.shared.parked(slot).load(Ordering::SeqCst) > 0 {
            if kernel.word(slot).has(abi::BPFDB_PROXY_BRINGS) {
                return false;
            }
            if begun.elapsed() > BRING_TIME {
                tracing::error!(?server, "a database stands still within its send()");
                return true;
            }
            thread::yield_now();
        }
        true
    }

    /// Bytes of a server have arrived here: whose are they?
    pub(super) fn server_speaks(&mut self, id: Id) {
        let (Some(kernel), Some(server)) = (&self.kernel, self.servers.get(id)) else {
            return;
        };
        let Some(place) = server.slot.filter(|_| server.client.is_none()) else {
            return;
        };
        let owner = kernel.shared.owner(place).load(Ordering::SeqCst);
        if owner == abi::BPFDB_PROXY_PROCESS {
            return;
        }
        let client = owner
            .checked_sub(1)
            .and_then(|slot| Some((slot, kernel.client_at(slot)?)));
        let Some((slot, client)) = client else {
            return self.unlist(id);
        };
        // Its client only rests at it, and may have another.
        let rests = |word: Word| {
            let is_so = word.state() == abi::BPFDB_PROXY_RESTING
                && word.server() == place
                && !word.has(abi::BPFDB_PROXY_SLOW);
            is_so.then(|| word.idle())
        };
        if kernel.change_word(slot, rests).is_ok() {
            return self.unlist(id);
        }
        let word = kernel.word(slot);
        if word.server() == place {
            self.grab(client);
        }
    }

    /// A server that was free is the process's.
    fn unlist(&mut self, id: Id) {
        let server = &self.servers[id];
        if let (Some(kernel), Some(place)) = (&self.kernel, server.slot) {
            kernel.own(place);
            kernel.shared.list(server.pool, place, false);
            self.servers[id].speaks = true;
            self.servers[id].status = IDLE;
        }
    }

    /// A server that was free has said what it had to say, and lives.
    pub(super) fn list_again(&mut self, id: Id) {
        if let Some(server) = self.servers.get_mut(id)
            && std::mem::take(&mut server.speaks)
        {
            if server.framing.is_between() && server.input.is_empty() {
                self.give(id);
            } else {
                server.speaks = true;
            }
        }
    }

    /// The stream of a server that the kernel has begun to bring.
    pub(super) fn resume(&mut self, id: Id) {
        let server = &mut self.servers[id];
        // Bytes have come this way, so no program goes over this stream.
        server.framing = stream_of(self.kernel.as_ref(), server);
        if let (Some(kernel), Some(place), true) = (&self.kernel, server.slot, server.resumes) {
            server.answers = kernel.shared.answers(place);
        }
        server.resumes = false;
    }

    /// A server for the process, of those that the kernel may give to clients.
    pub(super) fn take_from_kernel(&mut self, pool: u32) -> Option<Id> {
        let kernel = self.kernel.as_ref()?;
        if pool >= abi::BPFDB_PROXY_POOLS {
            return None;
        }
        match kernel.take(pool) {
            Taken::Server(place) => {
                let server = kernel.server_at(place)?;
                self.servers[server].statements.doubt_unnamed();
                // It was free; here it may have been within a transaction that has ended there.
                self.servers[server].status = IDLE;
                Some(server)
            }
            Taken::Busy => {
                self.retries = true;
                None
            }
            Taken::None => None,
        }
    }

    /// Lets the kernel have a server that is no client's. `false`: it does not know it.
    pub(super) fn put_into_kernel(&mut self, id: Id) -> bool {
        let server = &self.servers[id];
        let (Some(kernel), Some(place)) = (&self.kernel, server.slot) else {
            return false;
        };
        let shared = kernel.shared.server(place);
        // SAFETY: the server is the process's.
        unsafe {
            (&raw mut (*shared).stream).write_volatile(abi::bpfdb_proxy_stream::default());
            (&raw mut (*shared).digest).write_volatile(server.parameters.digest());
            (&raw mut (*shared).unread).write_volatile(0);
        }
        kernel.shared.set_times(place, 0, 0);
        kernel.shared.owner(place).store(0, Ordering::SeqCst);
        kernel.shared.list(server.pool, place, true);
        let pool = server.pool;
        self.serve_parked(pool);
        true
    }

    /// Clients that wait in the kernel, where a server became free otherwise than by a transaction that is
    /// over: here they wait with precedence.
    fn serve_parked(&mut self, pool: u32) {
        let popped = self.kernel.as_ref().and_then(|kernel| {
            let slot = kernel.shared.pop_waiting(pool)?;
            let waits = kernel.word(slot).state() == abi::BPFDB_PROXY_WAITING;
            kernel.client_at(slot).filter(|_| waits)
        });
        if let Some(client) = popped {
            self.grab(client);
        }
    }

    /// Those that have waited long in the kernel.
    pub(super) fn look_at_waiting(&mut self, now: Instant) {
        for id in self.clients.ids() {
            let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get_mut(id)) else {
                continue;
            };
            let Some(slot) = client.slot.filter(|_| client.is_away) else {
                continue;
            };
            if kernel.word(slot).state() != abi::BPFDB_PROXY_WAITING {
                client.waits_there = None;
                continue;
            }
            let since = *client.waits_there.get_or_insert(now);
            let pool = client.pool.map(|pool| &self.pools[pool as usize]);
            let wait = pool.map_or(Duration::ZERO, |pool| {
                self.settings.query_wait(&pool.database, &pool.key.user)
            });
            let limit = if wait.is_zero() {
                WAIT_THERE
            } else {
                WAIT_THERE.min(wait)
            };
            if now - since >= limit {
                client.waits_there = None;
                self.grab(id);
            }
        }
    }

    /// Whether the pool can have more servers, and so a program that finds none free has to ask for one here.
    pub(super) fn tell_full(&self, number: u32) {
        if let Some(kernel) = self
            .kernel
            .as_ref()
            .filter(|_| number < abi::BPFDB_PROXY_POOLS)
        {
            let pool = &self.pools[number as usize];
            // One that the kernel does not know would never be given to those that wait there.
            let has_all = pool.servers >= pool.size && pool.known == pool.servers;
            let is_full = has_all && !pool.is_paused && !pool.retires;
            kernel.shared.set_full(number, is_full);
        }
    }

    /// Whether requests to the pool are copied.
    pub(super) fn tell_mirrored(&self, number: u32) {
        if let Some(kernel) = self
            .kernel
            .as_ref()
            .filter(|_| number < abi::BPFDB_PROXY_POOLS)
        {
            let is_mirrored = self.pools[number as usize].mirror().is_some();
            let wakes = !self.looks_for_copies();
            kernel.shared.set_mirrored(number, is_mirrored, wakes);
        }
    }

    pub(super) fn tell_wanted(&self, pool: u32) {
        if let Some(kernel) = self
            .kernel
            .as_ref()
            .filter(|_| pool < abi::BPFDB_PROXY_POOLS)
        {
            let state = &self.pools[pool as usize];
            // Each server that becomes free is to be told of.
            let watched = usize::from(state.is_paused || state.retires);
            kernel.shared.set_wanted(pool, state.wanted() + watched);
        }
    }

    /// What the programs tell.
    pub(super) fn kernel_seen(&mut self) {
        let told = self.kernel.as_ref().map(|kernel| kernel.told());
        for event in told.unwrap_or_default() {
            if event.kind == abi::BPFDB_PROXY_FREE {
                self.sweep(event.index);
                self.serve_waiting(event.index);
                self.serve_parked(event.index);
            }
            let client = self
                .kernel
                .as_ref()
                .and_then(|kernel| kernel.client_at(event.index));
            if event.kind == abi::BPFDB_PROXY_TAKE
                && let Some(client) = client
            {
                self.grab(client);
            }
        }
    }

    /// Servers of the kernel for clients that wait here.
    pub(super) fn serve_waiting(&mut self, pool: u32) {
        while self
            .pools
            .get(pool as usize)
            .is_some_and(|pool| pool.wanted() > 0 && !pool.is_paused)
        {
            match self.take_from_kernel(pool) {
                Some(server) => self.give(server),
                None => return,
            }
        }
    }

    /// When a server's last request came, ns of the monotonic clock; 0: none is known.
    pub(super) fn server_asked(&self, id: Id) -> u64 {
        let server = &self.servers[id];
        let there = (self.kernel.as_ref().zip(server.slot))
            .map_or(0, |(kernel, place)| kernel.shared.times(place).0);
        server.asked.max(there)
    }

    /// A server was busy a moment ago.
    pub(super) fn retry(&mut self) {
        if std::mem::take(&mut self.retries) {
            for pool in 0..self.pools.len() as u32 {
                self.serve_waiting(pool);
            }
        }
    }
}

/// Where the stream of a server stands, of the bytes that its client has got: also if the kernel has begun to bring
/// it.
pub(super) fn stream_of(kernel: Option<&Kernel>, server: &Server) -> Framing {
    let (Some(kernel), Some(place), true) = (kernel, server.slot, server.resumes) else {
        return server.framing;
    };
    let shared = kernel.shared.server(place);
    // SAFETY: the place is the server's for as long as the server is there. A program that still goes over the
    // stream makes the value older, and not invalid: it has numbers only.
    let stream = unsafe { (&raw const (*shared).stream).read_volatile() };
    let mut head = [0; HEADER];
    head.copy_from_slice(&stream.head[..HEADER]);
    Framing::resumed(
        stream.left as usize,
        stream.type_,
        head,
        stream.have as usize,
    )
}
