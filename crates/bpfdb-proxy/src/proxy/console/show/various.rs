//! CONFIG, MEM, MIRRORS, VERSION, and names of hosts.

use std::net::SocketAddr;

use super::super::super::Proxy;
use super::super::super::mirroring::MirrorNow;
use super::super::VERSION;
use super::{Table, int4, int8, some, text};
use crate::client::Client;
use crate::config;
use crate::pool::Pool;
use crate::server::Server;
use crate::wire::rows::Row;

pub(super) fn version() -> Table {
    let own = env!("CARGO_PKG_VERSION");
    let version = format!("PgBouncer {VERSION} as bpfdb-proxy {own} has it");
    Table {
        columns: vec![text("version")],
        rows: vec![vec![some(version)]],
    }
}

pub(super) fn dns_zones() -> Table {
    Table {
        columns: vec![text("zonename"), int8("serial"), int4("count")],
        rows: Vec::new(),
    }
}

/// Bytes of one, how many there are, how many places are free, bytes of all.
fn memory(name: &str, size: usize, used: usize, free: usize) -> Row {
    let all = size * (used + free);
    vec![some(name), some(size), some(used), some(free), some(all)]
}

impl Proxy {
    pub(super) fn dns_hosts(&self) -> Table {
        let ttl = self.settings.dns_max_ttl.as_secs();
        let row = |(name, addresses): (String, Vec<SocketAddr>)| {
            let addresses = addresses.iter().map(|address| address.ip().to_string());
            let addresses: Vec<String> = addresses.collect();
            vec![some(name), some(ttl), some(addresses.join(","))]
        };
        Table {
            columns: vec![text("hostname"), int8("ttl"), text("addrs")],
            rows: self.settings.names().into_iter().map(row).collect(),
        }
    }

    pub(super) fn show_config(&self) -> Table {
        let names = ["key", "value", "default", "changeable"];
        let row = |(name, value, default, changeable): config::Shown| {
            let changeable = if changeable { "yes" } else { "no" };
            vec![some(name), some(value), some(default), some(changeable)]
        };
        Table {
            columns: names.into_iter().map(text).collect(),
            rows: config::all(&self.settings).into_iter().map(row).collect(),
        }
    }

    /// What PgBouncer does not have.
    pub(super) fn show_mirrors(&self) -> Table {
        let columns = [text("database"), text("mirror")].into_iter();
        let numbers = [
            "clients",
            "queued",
            "transactions",
            "lost",
            "errors",
            "lag_us",
        ];
        let row = |now: MirrorNow| {
            vec![
                some(now.database),
                some(now.mirror),
                some(now.shadows),
                some(now.figures.queued),
                some(now.figures.transactions),
                some(now.figures.lost),
                some(now.figures.errors),
                some(now.lag.as_micros()),
            ]
        };
        Table {
            columns: columns.chain(numbers.map(int8)).collect(),
            rows: self.mirrors_now().into_iter().map(row).collect(),
        }
    }

    pub(super) fn show_mem(&self) -> Table {
        let clients = self.clients.ids().into_iter().map(|id| {
            let client = &self.clients[id];
            client.input.capacity() + client.output.capacity()
        });
        let servers = self.servers.ids().into_iter().map(|id| {
            let server = &self.servers[id];
            server.input.capacity() + server.output.capacity()
        });
        let buffers: usize = clients.chain(servers).sum();
        let (clients, servers) = (&self.clients, &self.servers);
        let numbers = ["size", "used", "free", "memtotal"];
        Table {
            columns: [text("name")]
                .into_iter()
                .chain(numbers.map(int4))
                .collect(),
            rows: vec![
                memory("pool_cache", size_of::<Pool>(), self.pools.len(), 0),
                memory(
                    "server_cache",
                    size_of::<Server>(),
                    servers.len(),
                    servers.free_len(),
                ),
                memory(
                    "client_cache",
                    size_of::<Client>(),
                    clients.len(),
                    clients.free_len(),
                ),
                // Bytes of all of them: each is as long as it needs to be.
                memory("iobuf_cache", 1, buffers, 0),
            ],
        }
    }
}
