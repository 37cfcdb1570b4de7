//! Servers are opened, log in, and are closed.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::Proxy;
use super::handover::stream_of;
use crate::auth::login::{Login, Step};
use crate::io::poll::Source;
use crate::io::slab::Id;
use crate::io::socket;
use crate::io::tls::SslMode;
use crate::pool::Failure;
use crate::server::{Lookup, Server, Stage};
use crate::settings::{Database, Host, TargetSessionAttrs, named};
use crate::wire::reply::{self, state};

/// Hosts of which none has let the proxy in are left alone for so long.
const HOSTS_REST: Duration = Duration::from_millis(250);

/// Is a server that has let us in one of those that are meant?
fn fits(login: &Login, target: TargetSessionAttrs) -> bool {
    let reported = |name: &str| login.parameters.get(name);
    target.fits(
        reported("in_hot_standby"),
        reported("default_transaction_read_only"),
    )
}

impl Proxy {
    /// Opens as many servers as the pool's clients wait for, and it may have.
    pub(super) fn open_servers(&mut self, pool: u32) {
        while self.may_open(pool) && self.open_another(pool) {}
    }

    /// Has one been opened? If not, others may have.
    pub(super) fn open_another(&mut self, pool: u32) -> bool {
        let opened = self.open_server(pool, false);
        if let Err(error) = &opened {
            let host = self.next_host(pool);
            let told = format!("server connection to {host} failed: {error}");
            self.failed_at(pool, &host, Failure::Told(told));
        }
        opened.is_ok()
    }

    fn next_host(&self, number: u32) -> Host {
        let pool = &self.pools[number as usize];
        let current = self.hosts.get(&pool.key.database);
        pool.next_host(current).clone()
    }

    fn open_server(&mut self, pool: u32, wants_tls: bool) -> std::io::Result<()> {
        let host = self.next_host(pool);
        let socket = socket::connect(host.place()?, &self.settings.keep_alive)?;
        let mut server = Server::new(socket, pool, host);
        server.wants_tls = wants_tls;
        let id = self.servers.insert(server);
        let server = &self.servers[id];
        let poll = match self.pools[pool as usize].key.is_mirror {
            true => &self.mirror_poll,
            false => &self.poll,
        };
        let added = poll.add(server.socket.as_fd(), Source::Server(id), server.interest);
        if let Err(error) = added {
            self.servers.remove(id);
            return Err(std::io::Error::other(error));
        }
        let pool = &mut self.pools[pool as usize];
        pool.servers += 1;
        pool.logging_in += 1;
        Ok(())
    }

    /// A connection is there, or there is none.
    pub(super) fn connected(&mut self, id: Id) {
        let server = &mut self.servers[id];
        if let Err(error) = socket::take_error(server.socket.as_fd()) {
            let told = format!("server connection to {} failed: {error}", server.host);
            self.not_in(id, Failure::Told(told));
            return;
        }
        if !self.ask_for_tls(id) {
            self.start_login(id);
        }
    }

    /// Names the user of the proxy there.
    pub(super) fn start_login(&mut self, id: Id) {
        let pool = &self.pools[self.servers[id].pool as usize];
        let whose = self.whose(&pool.key.database, pool.user());
        let whose = whose.as_ref();
        let server = &mut self.servers[id];
        let mut parameters = vec![("user", pool.user()), ("database", pool.name())];
        let options = pool.database.parameters.iter().chain(&pool.key.options);
        parameters.extend(options.map(|(name, value)| (name.as_str(), value.as_str())));
        let begun = frontend::startup_message(parameters, &mut server.output);
        let user = pool.user();
        let password = pool.database.password.as_ref();
        let password = password.or_else(|| self.settings.users.get(user)).cloned();
        let looked_up = || self.secrets.last(whose?).map(str::to_owned);
        let password = password.or_else(looked_up);
        let password = password.filter(|password| !password.is_empty());
        let keys = whose.and_then(|whose| self.keys.get(whose)).cloned();
        server.stage = Stage::LogsIn(Box::new(Login::new(user.to_owned(), password, keys)));
        match begun {
            Ok(()) => self.flush_server(id),
            Err(error) => self.login_failed(id, error.to_string()),
        }
    }

    /// Messages of a server that lets us in, or does not.
    pub(super) fn log_in(&mut self, id: Id) {
        let may_try_tls = self.may_try_tls(id);
        let server = &mut self.servers[id];
        let Stage::LogsIn(login) = &mut server.stage else {
            return;
        };
        match login.go_on(&mut server.input, &mut server.output) {
            Step::Waits => self.flush_server(id),
            Step::Refused(_) if may_try_tls => self.again_with_tls(id),
            Step::Refused(message) => self.not_in(id, Failure::Refused(message)),
            Step::Failed(told) => {
                self.not_in(
                    id,
                    Failure::NotProven(format!("server login failed: {told}")),
                );
            }
            Step::In if !fits(login, self.pools[server.pool as usize].database.target) => {
                let target = self.pools[server.pool as usize].database.target;
                let told = format!("{} is not {target}", server.host);
                server.output.clear();
                frontend::terminate(&mut server.output);
                let _ = server.socket.send(&mut server.output);
                self.not_in(id, Failure::Told(told));
            }
            Step::In => {
                server.parameters = login.parameters.clone();
                server.first = login.parameters.clone();
                server.key = login.key;
                server.stage = Stage::Ready;
                let (number, welcome) = (server.pool, server.parameters.clone());
                let host = server.host.clone();
                let pool = &mut self.pools[number as usize];
                pool.logging_in -= 1;
                pool.failed.clear();
                (pool.refusal, pool.rests_until) = (None, None);
                pool.welcome.get_or_insert(welcome);
                let greeting = std::mem::take(&mut pool.greeting);
                self.server_waits(id);
                self.offer_server(id);
                self.tell_full(number);
                self.use_host(number, &host);
                for client in greeting {
                    if self.clients.get(client).is_some() {
                        self.greet(client);
                    }
                }
                self.begin_session(id);
            }
        }
    }

    /// A host has let the proxy in: it is the database's from now on. If one of them is meant, servers at others are
    /// not used any more, in none of the database's pools.
    fn use_host(&mut self, number: u32, host: &Host) {
        let Database { hosts, target, .. } = &self.pools[number as usize].database;
        let (is_one_of, target) = (hosts.len() > 1, *target);
        if !is_one_of {
            return;
        }
        let database = self.pools[number as usize].key.database.clone();
        self.hosts.insert(database.clone(), host.clone());
        if target == TargetSessionAttrs::Any {
            return;
        }
        let pools = self.pools_of(Some(&database));
        for number in &pools {
            self.retire_if(*number, |server| server.host != *host);
        }
        for id in self.servers.ids() {
            let Some(server) = self.servers.get(id) else {
                continue;
            };
            if !server.is_ready() && server.host != *host && pools.contains(&server.pool) {
                let told = format!("{host} is used instead");
                self.not_in(id, Failure::Told(told));
            }
        }
    }

    /// Does the server refuse those that come without TLS, and are they to try it?
    fn may_try_tls(&self, id: Id) -> bool {
        let server = &self.servers[id];
        let mode = self.settings.server_tls.mode;
        mode == SslMode::Allow && !server.wants_tls && !server.socket.has_tls()
    }

    fn again_with_tls(&mut self, id: Id) {
        let Some(server) = self.servers.remove(id) else {
            return;
        };
        let pool = &mut self.pools[server.pool as usize];
        pool.servers -= 1;
        pool.logging_in -= 1;
        if let Err(error) = self.open_server(server.pool, true) {
            let failure = Failure::Told(error.to_string());
            self.failed_at(server.pool, &server.host, failure);
        }
    }

    pub(super) fn login_failed(&mut self, id: Id, told: String) {
        self.not_in(id, Failure::Told(told));
    }

    pub(super) fn not_in(&mut self, id: Id, failure: Failure) {
        let Some(server) = self.servers.remove(id) else {
            return;
        };
        let pool = &mut self.pools[server.pool as usize];
        pool.servers -= 1;
        pool.logging_in -= 1;
        self.tell_full(server.pool);
        self.failed_at(server.pool, &server.host, failure);
    }

    /// A host has not let the proxy in. The next one is tried; clients wait meanwhile. When all were tried they hear
    /// what one of them has said of the user. If none has, they go on waiting: the host that is meant may be about
    /// to become it.
    fn failed_at(&mut self, number: u32, host: &Host, failure: Failure) {
        let pool = &mut self.pools[number as usize];
        // An address that its name had before.
        if !pool.database.hosts.contains(host) {
            return self.open_servers(number);
        }
        if pool.database.hosts.len() == 1 {
            return self.no_server(number, &failure);
        }
        if !pool.failed.contains(host) {
            let database = pool.key.database.as_str();
            tracing::warn!(database, %host, %failure, "the next host is tried");
            pool.failed.push(host.clone());
        }
        // No other host is awaited then: clients hear of any failure.
        let has_one_name = named(&pool.database.hosts).count() == 1;
        if failure.is_refusal() || has_one_name && pool.refusal.is_none() {
            pool.refusal = Some(failure);
        }
        if !pool.has_tried_all() {
            return self.open_servers(number);
        }
        pool.rests_until = Some(Instant::now() + HOSTS_REST);
        pool.last_failure = Some(Instant::now());
        // Those that log in at the same time may be let in.
        if pool.refusal.is_some() && pool.logging_in > 0 {
            return;
        }
        pool.failed.clear();
        match pool.refusal.take() {
            Some(refusal) => self.no_server(number, &refusal),
            None => self.open_servers(number),
        }
    }

    /// Without any server left those that wait are told why; else they go on waiting for the others.
    fn no_server(&mut self, number: u32, failure: &Failure) {
        tracing::warn!(%failure, "no server");
        self.pools[number as usize].last_failure = Some(Instant::now());
        if self.pools[number as usize].servers > 0 {
            return;
        }
        match failure {
            Failure::NotProven(told) | Failure::Told(told) => self.refuse_waiting(number, told),
            Failure::Refused(message) => {
                for client in self.take_waiting(number) {
                    self.end(client, message);
                }
                self.refuse_lookups(number);
            }
        }
        self.tell_wanted(number);
    }

    /// Those that wait for a server of the pool, which has none for them any more.
    pub(super) fn take_waiting(&mut self, number: u32) -> Vec<Id> {
        let pool = &mut self.pools[number as usize];
        let mut waiting = std::mem::take(&mut pool.greeting);
        waiting.extend(pool.waiting.drain(..));
        waiting
    }

    pub(super) fn refuse_waiting(&mut self, number: u32, told: &str) {
        for client in self.take_waiting(number) {
            self.refuse(client, state::CONNECTION_FAILURE, told);
        }
        self.refuse_lookups(number);
    }

    /// What a server has said to another user is not for these.
    fn refuse_lookups(&mut self, number: u32) {
        for client in std::mem::take(&mut self.pools[number as usize].lookups) {
            let told = "there is no server to ask about passwords (auth_query)";
            self.refuse(client, state::CONNECTION_FAILURE, told);
        }
    }

    /// A server took too long.
    pub(super) fn too_late(&mut self, id: Id) {
        self.not_in(id, Failure::Told("server connection timed out".into()));
    }

    /// The database has closed a connection.
    pub(super) fn server_ended(&mut self, id: Id) {
        let Some(server) = self.servers.get(id) else {
            return;
        };
        if !server.is_ready() {
            let told = "server closed the connection while the proxy logged in";
            return self.not_in(id, Failure::Told(told.into()));
        }
        // What it has said before: until its client has taken that, it is there.
        self.servers[id].has_ended = true;
        self.server_speaks(id);
        self.serve_server(id);
    }

    /// The same, and its client takes all that it has said.
    pub(super) fn server_is_over(&mut self, id: Id) {
        let Some(server) = self.servers.get(id) else {
            return;
        };
        let client = server.client;
        let is_between = stream_of(self.kernel.as_ref(), server).is_between();
        self.close_server(id);
        match client {
            Some(client) if is_between => {
                let told = "server closed the connection unexpectedly";
                self.refuse_at_last(client, state::CONNECTION_FAILURE, told);
            }
            // The rest of its message does not come.
            Some(client) => self.end_at_last(client, b""),
            None => {}
        }
    }

    /// Away with it: its session is of no use, or was not used.
    pub(super) fn close_server(&mut self, id: Id) {
        if let Some(server) = self.servers.get(id) {
            let pool = server.pool;
            self.close_server_for(id, pool);
        }
    }

    /// The same; then the pool `next` may open one.
    pub(super) fn close_server_for(&mut self, id: Id, next: u32) {
        let Some(mut server) = self.servers.remove(id) else {
            return;
        };
        let mut goodbye = BytesMut::new();
        frontend::terminate(&mut goodbye);
        // Behind a message that is not whole it would be part of that.
        if server.is_quiet() {
            server.output = goodbye;
            let _ = server.socket.send(&mut server.output);
        }
        let number = server.pool;
        if let (Some(kernel), Some(place)) = (&mut self.kernel, server.slot) {
            self.pools[number as usize].traffic += kernel.shared.traffic(place);
            kernel.remove_server(place, number);
            self.pools[number as usize].known -= 1;
        }
        let pool = &mut self.pools[number as usize];
        pool.servers -= 1;
        pool.free.retain(|free| *free != id);
        self.tell_full(number);
        if let Some(client) = server
            .client
            .and_then(|client| self.clients.get_mut(client))
        {
            client.server = None;
        }
        let lookup = server.lookup.take();
        drop(server);
        if let Some(lookup) = lookup {
            let has_failed = true;
            self.looked_up(Lookup {
                has_failed,
                ..lookup
            });
        }
        self.open_servers(next);
    }

    /// A message of the proxy's own for a client that ends with it.
    pub(super) fn refuse(&mut self, id: Id, state: &str, told: &str) {
        let message = self.refusal(id, state, told);
        self.end(id, &message);
    }

    /// The same for one that may still have to read what its server has said.
    fn refuse_at_last(&mut self, id: Id, state: &str, told: &str) {
        let message = self.refusal(id, state, told);
        self.end_at_last(id, &message);
    }

    fn refusal(&self, id: Id, state: &str, told: &str) -> BytesMut {
        if self.settings.administration.log_pooler_errors
            && let Some(client) = self.clients.get(id)
            && client.shadow.is_none()
        {
            tracing::warn!(user = client.user, state, told, "a client is refused");
        }
        let mut message = BytesMut::new();
        reply::fatal(&mut message, state, told);
        message
    }

    /// Sends a client without a server its last message, behind what it has not taken yet: it ends when it has.
    fn end_at_last(&mut self, id: Id, message: &[u8]) {
        self.grab(id);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.output.extend_from_slice(message);
        client.ends = Some(Instant::now());
        self.flush_client(id);
    }

    /// Sends a client its last message, as far as it takes it at once.
    pub(super) fn end(&mut self, id: Id, message: &[u8]) {
        self.grab(id);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        // Within a message it could not be told from that.
        let server = client.server.and_then(|server| self.servers.get(server));
        let stream = server.map(|server| stream_of(self.kernel.as_ref(), server));
        if stream.is_none_or(|stream| stream.is_between()) {
            client.output.extend_from_slice(message);
        }
        let _ = client.socket.send(&mut client.output);
        client.socket.say_end();
        self.leave(id);
    }
}
