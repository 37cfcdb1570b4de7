//! A connection becomes a client: first packet, password, greeting.

use std::os::fd::AsFd;

use bytes::Buf;

use super::cancel::next_number;
use super::{Proxy, Work};
use crate::auth::client::{self as auth, Verdict};
use crate::auth::{nonce, random};
use crate::client::{Client, Stage};
use crate::config::CONSOLE;
use crate::io::poll::{Interest, Source};
use crate::io::slab::Id;
use crate::io::socket::{self, Address};
use crate::parameters::Parameters;
use crate::pool::{Key, Pool};
use crate::settings::{ANY_DATABASE, AuthType};
use crate::wire::framing::Next;
use crate::wire::reply::{self, state};
use crate::wire::startup::{self, Malformed, Packet};

/// Longest answer about a password, as PostgreSQL has it, bytes.
const PASSWORD_MAX: usize = 65_535;
/// A client must not make any number of them by its parameters. One that no client uses makes room.
const POOLS_MAX: usize = 1024;
/// Clients of the console that may be there beyond `max_client_conn`.
const OPERATORS: usize = 10;
/// Connections beyond these whose first packet is awaited: it may be a request to cancel, or is refused with a
/// message. More are closed without one.
const STARTING: usize = 100;

/// How it goes with accepting clients.
#[derive(Debug, Default)]
pub(super) struct Accepting {
    /// Listeners are not waited for until the next tick.
    rests: bool,
    /// The log has the error since which no client was accepted.
    has_told: bool,
}

impl Proxy {
    pub(super) fn accept(&mut self, listener: u32) {
        loop {
            let Some(accepts) = self.listeners.get(listener as usize) else {
                return;
            };
            let accepted = socket::accept(accepts.as_fd());
            let socket = match accepted {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                Err(error) => return self.rest_listeners(&error),
            };
            self.accepting.has_told = false;
            let most = self.settings.max_client_conn + OPERATORS + STARTING;
            if self.connected_clients() >= most {
                continue;
            }
            let address = socket::peer(socket.as_fd()).map(|peer| peer.ip());
            // A connection by TCP that is reset already has no address. Rules would take it for one by a Unix
            // socket.
            let is_inet = matches!(self.addresses[listener as usize], Address::Inet(_));
            if is_inet && address.is_none() {
                continue;
            }
            if is_inet && let Err(error) = self.settings.keep_alive.apply(&socket) {
                tracing::warn!(%error, "it may stay unknown that a client is gone");
            }
            let secret = i32::from_ne_bytes(random());
            let id = (self.clients).insert(Client::new(socket, address, secret));
            let fd = self.clients[id].socket.as_fd();
            if let Err(error) = self.poll.add(fd, Source::Client(id), Interest::READ) {
                tracing::error!(%error, "a client cannot be served");
                self.clients.remove(id);
            }
        }
    }

    /// A connection cannot be accepted, for example for want of descriptors. It stays in the queue of its listener,
    /// which would be ready again at once: so listeners are not waited for until the next tick.
    fn rest_listeners(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.accepting.has_told, true) {
            tracing::error!(%error, "cannot accept clients");
        }
        self.accepting.rests = true;
        self.wait_for_listeners(Interest::default());
    }

    /// Listeners that were not waited for are waited for again.
    pub(super) fn accept_again(&mut self) {
        if !self.succession.is_prepared() && std::mem::take(&mut self.accepting.rests) {
            self.wait_for_listeners(Interest::READ);
        }
    }

    /// No client is accepted here any more.
    pub(super) fn forget_listeners(&mut self) {
        for listener in self.listeners.drain(..) {
            self.poll.remove(listener.as_fd());
        }
    }

    pub(super) fn wait_for_listeners(&self, interest: Interest) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let source = Source::Listener(index as u32);
            self.poll.change(listener.as_fd(), source, interest);
        }
    }

    /// Packets of a client that is not logged in. `false`: no more is to be done for it now.
    pub(super) fn start_client(&mut self, id: Id) -> bool {
        match self.clients[id].stage {
            Stage::Startup => self.first_packet(id),
            Stage::Proves(_) => self.password(id),
            Stage::LooksUp { .. } | Stage::Greeted => false,
            Stage::Ready => true,
        }
    }

    fn first_packet(&mut self, id: Id) -> bool {
        if self.begins_with_tls(id) && self.clients[id].input.is_empty() {
            return false;
        }
        let Some(client) = self.clients.get_mut(id) else {
            return false;
        };
        let (packet, length) = match startup::parse(&client.input) {
            Ok(None) => return false,
            Ok(Some(parsed)) => parsed,
            Err(malformed) => {
                let (state, told) = refusal(malformed);
                self.refuse(id, state, &told);
                return false;
            }
        };
        client.input.advance(length);
        match packet {
            Packet::Tls | Packet::Gss => {
                self.answer_encryption(id, packet == Packet::Tls);
                false
            }
            Packet::Cancel { process, secret } => {
                self.asks_to_cancel(id, process, secret);
                false
            }
            Packet::Start {
                parameters,
                minor,
                options,
            } => {
                if minor > 0 || !options.is_empty() {
                    reply::negotiate(&mut client.output, &options);
                }
                self.begin(id, parameters)
            }
        }
    }

    /// It has said who it is and what it wants.
    fn begin(&mut self, id: Id, parameters: Vec<(String, String)>) -> bool {
        if !self.may_be_plain(id) {
            self.refuse(id, state::PROTOCOL_VIOLATION, "SSL required");
            return false;
        }
        let wanted = match Wanted::of(parameters, &self.settings.ignore_startup_parameters) {
            Ok(wanted) => wanted,
            Err((state, told)) => {
                self.refuse(id, state, &told);
                return false;
            }
        };
        let client = &mut self.clients[id];
        client.user.clone_from(&wanted.key.user);
        client.parameters = wanted.parameters;
        if self.settings.application_name_add_host {
            let own = client.parameters.get("application_name");
            let own = own.filter(|own| !own.is_empty()).unwrap_or("app");
            let place = socket::peer(client.socket.as_fd());
            let place = place.map_or_else(|| "unix".to_owned(), |place| place.to_string());
            let named = format!("{own} - {place}");
            client.parameters.set("application_name", &named);
        }
        let is_for_console = wanted.key.database == CONSOLE;
        client.wanted = Some(wanted.key);
        // Those of this packet are counted as well. Operators are let in to see what is wrong.
        let more = if is_for_console { OPERATORS } else { 0 };
        if self.connected_clients() > self.settings.max_client_conn + more {
            let told = "no more connections allowed (max_client_conn)";
            self.refuse(id, state::TOO_MANY_CONNECTIONS, told);
            return false;
        }
        if is_for_console {
            return self.begin_console(id);
        }
        self.admit(id)
    }

    fn begin_console(&mut self, id: Id) -> bool {
        let user = self.clients[id].user.clone();
        let Some((role, is_proven)) = self.console_role(id, &user) else {
            self.refuse(id, state::PROTOCOL_VIOLATION, "not allowed");
            return false;
        };
        self.clients[id].console = Some(role);
        if is_proven {
            return self.challenge(id, AuthType::Trust, None);
        }
        self.admit(id)
    }

    fn password(&mut self, id: Id) -> bool {
        let client = &mut self.clients[id];
        let (kind, size, body) = match client.framing.next(&client.input) {
            Next::Begins { kind, size, body } => (kind, size, body),
            Next::Short => return false,
            _ => (0, 0, 0),
        };
        if kind != b'p' || size > PASSWORD_MAX {
            self.refuse(id, state::PROTOCOL_VIOLATION, "expected password response");
            return false;
        }
        if client.input.len() < size {
            return false;
        }
        let message = client.input.split_to(size);
        let Stage::Proves(asked) = &mut client.stage else {
            return false;
        };
        let Some(asked) = asked.take() else {
            return false;
        };
        let secret = client.secret_kept.as_deref();
        let verdict = auth::go_on(
            asked,
            &client.user,
            secret,
            &message[body..],
            nonce,
            &mut self.verifiers,
            &mut client.output,
        );
        self.judge(id, verdict)
    }

    pub(super) fn judge(&mut self, id: Id, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Admitted(keys) => {
                if let Some((keys, whose)) = keys.zip(self.whose_secret(id)) {
                    self.keys.insert(whose, keys);
                }
                let client = &mut self.clients[id];
                client.secret_kept = None;
                client.stage = Stage::Greeted;
                let is_for_console = client.console.is_some();
                (is_for_console || self.enter_pool(id)) && self.greet(id)
            }
            Verdict::Asked(asked) => {
                self.clients[id].stage = Stage::Proves(Some(asked));
                self.flush_client(id);
                // The answer may be there already.
                self.work.push_back(Work::Client(id));
                false
            }
            Verdict::Refused => {
                if let Some(whose) = self.whose_secret(id) {
                    self.secrets.forget(&whose);
                }
                let user = &self.clients[id].user;
                let told = format!("password authentication failed for user \"{user}\"");
                self.refuse(id, state::INVALID_PASSWORD, &told);
                false
            }
        }
    }

    /// As PostgreSQL would: its parameters, a key, and ready. Waits for a first server of the pool.
    pub(super) fn greet(&mut self, id: Id) -> bool {
        if self.clients[id].console.is_some() {
            self.greet_console(id);
            self.work.push_back(Work::Client(id));
            return false;
        }
        let client = &mut self.clients[id];
        let Some(pool) = client.pool else {
            return false;
        };
        let Some(welcome) = &self.pools[pool as usize].welcome else {
            self.pools[pool as usize].greeting.push(id);
            self.flush_client(id);
            self.open_servers(pool);
            return false;
        };
        let mut parameters = welcome.clone();
        for (name, value) in client.parameters.iter() {
            parameters.set(name, value);
        }
        for (name, value) in parameters.iter() {
            reply::parameter(&mut client.output, name, value);
        }
        client.parameters = parameters;
        client.number = next_number(&mut self.last_number);
        reply::key(&mut client.output, client.number, client.secret);
        reply::ready(&mut client.output);
        client.stage = Stage::Ready;
        self.offer_client(id);
        let client = &self.clients[id];
        if self.settings.administration.log_connections {
            let database = self.pools[pool as usize].key.database.as_str();
            tracing::info!(user = client.user, database, "a client has logged in");
        }
        self.flush_client(id);
        self.work.push_back(Work::Client(id));
        // The connection may be broken already.
        self.clients.get(id).is_some()
    }

    /// A client that is admitted has a pool from now on.
    fn enter_pool(&mut self, id: Id) -> bool {
        let wanted = self.clients[id].wanted.take();
        if let Some(told) = wanted.as_ref().and_then(|key| self.is_full_for(key)) {
            self.refuse(id, state::TOO_MANY_CONNECTIONS, &told);
            return false;
        }
        let pool = match wanted.map(|key| self.pool(key)) {
            Some(Ok(pool)) => pool,
            Some(Err((state, told))) => {
                self.refuse(id, state, &told);
                return false;
            }
            None => return false,
        };
        let entered = &mut self.pools[pool as usize];
        entered.clients += 1;
        let client = &mut self.clients[id];
        (client.pool, client.mode) = (Some(pool), entered.mode);
        true
    }

    /// The pool of this key, which is made if there is none.
    pub(super) fn pool(&mut self, key: Key) -> Result<u32, (&'static str, String)> {
        if self.held.disabled.contains(&key.database) {
            let told = format!("database \"{}\" is disabled", key.database);
            return Err((state::PROTOCOL_VIOLATION, told));
        }
        self.pool_of(key)
    }

    /// The same, also if the database takes no new clients.
    pub(super) fn pool_of(&mut self, key: Key) -> Result<u32, (&'static str, String)> {
        let databases = &self.settings.databases;
        let database = databases
            .get(&key.database)
            .or(databases.get(ANY_DATABASE))
            .ok_or((state::INVALID_CATALOG, "no such database".to_owned()))?;
        // The settings come first: pools of a database stay for a while when it is gone from them.
        if let Some(&pool) = self.by_key.get(&key) {
            return Ok(pool);
        }
        let size = self.settings.size_for(database, &key.user);
        let mode = self.settings.mode(database, &key.user);
        let mut pool = Pool::new(key.clone(), database.clone(), size, mode);
        pool.is_paused = self.held.is_paused(&key.database);
        let number = if self.pools.len() < POOLS_MAX {
            self.pools.push(pool);
            self.pools.len() - 1
        } else {
            let unused = self.pools.iter().position(Pool::is_unused).ok_or((
                state::TOO_MANY_CONNECTIONS,
                "too many pools of different users, databases and parameters".to_owned(),
            ))?;
            let before = std::mem::replace(&mut self.pools[unused], pool);
            self.by_key.remove(&before.key);
            unused
        };
        let number = number as u32;
        self.by_key.insert(key, number);
        self.tell_full(number);
        self.tell_wanted(number);
        self.tell_mirrored(number);
        Ok(number)
    }
}

fn refusal(malformed: Malformed) -> (&'static str, String) {
    match malformed {
        Malformed::Length => {
            let told = "invalid length of startup packet";
            (state::PROTOCOL_VIOLATION, told.into())
        }
        Malformed::Body => {
            let told = "invalid startup packet layout: expected terminator as last byte";
            (state::PROTOCOL_VIOLATION, told.into())
        }
        Malformed::Version(version) => {
            let (major, minor) = (version >> 16, version & 0xffff);
            let told = format!(
                "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
            );
            (state::FEATURE_NOT_SUPPORTED, told)
        }
    }
}

/// What a client says at its start.
struct Wanted {
    key: Key,
    parameters: Parameters,
}

impl Wanted {
    fn of(all: Vec<(String, String)>, ignored: &[String]) -> Result<Self, (&'static str, String)> {
        let mut parameters = Parameters::default();
        let (mut user, mut database, mut options) = (None, None, Vec::new());
        for (name, value) in all {
            match name.as_str() {
                "user" => user = Some(value),
                "database" => database = Some(value),
                "replication" => {
                    let told = "replication connections are not for the proxy";
                    return Err((state::FEATURE_NOT_SUPPORTED, told.into()));
                }
                name if ignored.iter().any(|ignored| ignored == name) => {}
                name => match Parameters::settable(name) {
                    Some(name) => parameters.set(name, &value),
                    None => options.push((name.to_owned(), value)),
                },
            }
        }
        let user = user.filter(|user| !user.is_empty()).ok_or((
            state::INVALID_AUTHORIZATION,
            "no PostgreSQL user name specified in startup packet".to_owned(),
        ))?;
        options.sort();
        let database = database.filter(|name| !name.is_empty());
        let database = database.unwrap_or_else(|| user.clone());
        let key = Key {
            database,
            user,
            options,
            is_mirror: false,
        };
        Ok(Self { key, parameters })
    }
}
