//! CLIENTS, SERVERS, SOCKETS and FDS.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::super::super::Proxy;
use super::super::state::ServerState;
use super::{Table, int4, int8, some, text};
use crate::config::CONSOLE;
use crate::io::slab::Id;
use crate::io::socket;
use crate::io::stream::Stream;
use crate::traffic;
use crate::wire::rows::{Column, Kind, Row};

fn columns() -> Vec<Column> {
    vec![
        text("type"),
        text("user"),
        text("database"),
        text("state"),
        text("addr"),
        int4("port"),
        text("local_addr"),
        int4("local_port"),
        text("connect_time"),
        text("request_time"),
        int4("wait"),
        int4("wait_us"),
        int4("close_needed"),
        text("ptr"),
        text("link"),
        int4("remote_pid"),
        text("tls"),
        text("application_name"),
    ]
}

/// What PgBouncer shows of its buffers.
fn buffer_columns() -> [Column; 7] {
    [
        int4("recv_pos"),
        int4("pkt_pos"),
        int4("pkt_remain"),
        int4("send_pos"),
        int4("send_remain"),
        int4("pkt_avail"),
        int4("send_avail"),
    ]
}

/// As PgBouncer writes it, in UTC.
fn shown_time(time: SystemTime) -> String {
    match jiff::Timestamp::try_from(time) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => String::new(),
    }
}

fn ago(time: Duration) -> String {
    shown_time(SystemTime::now() - time)
}

/// Of a time on the monotonic clock, ns; 0: it is as old as `else_`.
fn at(nanos: u64, else_: Instant) -> String {
    match nanos {
        0 => ago(else_.elapsed()),
        nanos => ago(Duration::from_nanos(traffic::now().saturating_sub(nanos))),
    }
}

/// A number that no other connection has.
fn pointer(kind: u64, id: Id) -> String {
    let number = kind << 56 | u64::from(id.serial) << 32 | u64::from(id.index);
    format!("{number:#x}")
}

const CLIENT: u64 = 1;
const SERVER: u64 = 2;

/// Both addresses of a socket: the other end's and ours.
fn addresses(fd: BorrowedFd<'_>, port: u16) -> [Option<String>; 4] {
    match (socket::peer(fd), socket::own(fd)) {
        (Some(peer), Some(own)) => [
            some(peer.ip()),
            some(peer.port()),
            some(own.ip()),
            some(own.port()),
        ],
        _ => [some("unix"), some(port), some("unix"), some(port)],
    }
}

fn shown_tls(socket: &Stream) -> &'static str {
    if socket.has_tls() { "TLS" } else { "" }
}

impl Proxy {
    /// Of Unix sockets, and of the console.
    pub(super) fn port(&self) -> u16 {
        let first = self.address();
        first.map_or(self.settings.administration.listen_port, |first| {
            first.port()
        })
    }

    fn client_row(&self, id: Id) -> Row {
        let client = &self.clients[id];
        let state = self.client_state(id);
        let database = match client.pool {
            Some(pool) => self.pools[pool as usize].key.database.as_str(),
            None if client.console.is_some() => CONSOLE,
            None => "",
        };
        let fd = client.socket.as_fd();
        let peer = getsockopt(&fd, PeerCredentials).ok();
        let link = self.server_of(id);
        let [addr, port, local_addr, local_port] = addresses(fd, self.port());
        vec![
            some("C"),
            some(&client.user),
            some(database),
            some(state.name()),
            addr,
            port,
            local_addr,
            local_port,
            some(ago(client.since.elapsed())),
            some(at(self.last_request(id), client.since)),
            some(state.wait().as_secs()),
            some(state.wait().subsec_micros()),
            some(0),
            some(pointer(CLIENT, id)),
            some(link.map_or_else(String::new, |link| pointer(SERVER, link))),
            some(peer.map_or(0, |peer| peer.pid())),
            some(shown_tls(&client.socket)),
            some(client.parameters.get("application_name").unwrap_or("")),
        ]
    }

    fn server_row(&self, id: Id) -> Row {
        let server = &self.servers[id];
        let pool = &self.pools[server.pool as usize];
        let state = self.server_state(id);
        let link = match state {
            ServerState::Active(Some(client)) => pointer(CLIENT, client),
            _ => String::new(),
        };
        let [addr, port, local_addr, local_port] = addresses(server.socket.as_fd(), self.port());
        vec![
            some("S"),
            some(pool.user()),
            some(&pool.key.database),
            some(state.name()),
            addr,
            port,
            local_addr,
            local_port,
            some(ago(server.opened.elapsed())),
            some(at(self.server_asked(id), server.opened)),
            some(0),
            some(0),
            some(u8::from(server.retires)),
            some(pointer(SERVER, id)),
            some(link),
            some(server.key.0),
            some(shown_tls(&server.socket)),
            some(server.parameters.get("application_name").unwrap_or("")),
        ]
    }

    /// Clients that have a connection.
    fn connections(&self) -> impl Iterator<Item = Id> {
        let ids = self.clients.ids().into_iter();
        ids.filter(|id| !self.is_shadow(*id))
    }

    pub(super) fn show_clients(&self) -> Table {
        Table {
            columns: columns(),
            rows: self.connections().map(|id| self.client_row(id)).collect(),
        }
    }

    pub(super) fn show_servers(&self) -> Table {
        Table {
            columns: columns(),
            rows: self
                .servers
                .ids()
                .into_iter()
                .map(|id| self.server_row(id))
                .collect(),
        }
    }

    /// `active`: only what is in use.
    pub(super) fn show_sockets(&self, active: bool) -> Table {
        let buffers = |mut row: Row, prefix: &str, input: usize, output: usize| {
            row[3] = row[3].as_ref().map(|state| format!("{prefix}{state}"));
            let more = [0, 0, 0, 0, output, input, output];
            row.extend(more.map(some));
            row
        };
        let clients = self.connections().map(|id| {
            let client = &self.clients[id];
            let (input, output) = (client.input.len(), client.output.len());
            buffers(self.client_row(id), "cl_", input, output)
        });
        let is_shown = |id: &Id| !active || self.server_state(*id) != ServerState::Idle;
        let servers = self.servers.ids().into_iter().filter(is_shown).map(|id| {
            let server = &self.servers[id];
            let (input, output) = (server.input.len(), server.output.len());
            buffers(self.server_row(id), "sv_", input, output)
        });
        let mut columns = columns();
        columns.extend(buffer_columns());
        Table {
            columns,
            rows: clients.chain(servers).collect(),
        }
    }

    /// Listeners only: what PgBouncer has besides for its restart is not for others.
    pub(super) fn show_fds(&self) -> Table {
        let names = [
            "client_encoding",
            "std_strings",
            "datestyle",
            "timezone",
            "password",
        ];
        let mut columns = vec![
            int4("fd"),
            text("task"),
            text("user"),
            text("database"),
            text("addr"),
            int4("port"),
            int8("cancel"),
            int4("link"),
        ];
        columns.extend(names.map(text));
        columns.push(("scram_client_key", Kind::Bytes));
        columns.push(("scram_server_key", Kind::Bytes));
        let row = |(listener, address): (&std::os::fd::OwnedFd, &socket::Address)| {
            let own = socket::own(listener.as_fd());
            let addr = own.map_or_else(|| address.to_string(), |own| own.ip().to_string());
            let port = own.map_or_else(|| self.port(), |own| own.port());
            let mut row = vec![
                some(listener.as_raw_fd()),
                some("pooler"),
                None,
                None,
                some(addr),
                some(port),
                some(0),
                some(0),
            ];
            row.resize(15, None);
            row
        };
        let all = self.listeners.iter().zip(&self.addresses);
        Table {
            columns,
            rows: all.map(row).collect(),
        }
    }
}
