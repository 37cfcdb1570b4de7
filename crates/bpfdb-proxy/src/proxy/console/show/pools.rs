//! POOLS, DATABASES, USERS and LISTS.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::super::Proxy;
use super::super::state::{ClientState, ServerState};
use super::{Table, int4, some, text};
use crate::config::CONSOLE;
use crate::settings::{ANY_DATABASE, PoolMode, named};

/// What is counted of pools.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) clients_active: u64,
    pub(crate) clients_waiting: u64,
    pub(crate) clients_cancelling: u64,
    pub(crate) servers_active: u64,
    pub(crate) servers_cancelled: u64,
    pub(crate) servers_idle: u64,
    pub(crate) servers_tested: u64,
    pub(crate) servers_logging_in: u64,
    /// The longest that a client waits.
    pub(crate) wait: Duration,
    pub(crate) mode: PoolMode,
}

impl Proxy {
    /// By database and user: pools that differ by parameters of the start only are one.
    pub(crate) fn counts_of_pools(&self) -> BTreeMap<(&str, &str), Counts> {
        let mut all: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
        let key = |number: u32| {
            let pool = &self.pools[number as usize];
            (pool.key.database.as_str(), pool.key.user.as_str())
        };
        for (number, pool) in self.pools.iter().enumerate() {
            all.entry(key(number as u32)).or_default().mode = pool.mode;
        }
        for id in self.clients.ids() {
            let Some(number) = self.clients[id].pool else {
                continue;
            };
            let counts = all.entry(key(number)).or_default();
            match self.client_state(id) {
                ClientState::LogsIn => {}
                ClientState::Active => counts.clients_active += 1,
                ClientState::Waits(time) => {
                    counts.clients_waiting += 1;
                    counts.wait = counts.wait.max(time);
                }
            }
        }
        for id in self.servers.ids() {
            let server = &self.servers[id];
            let counts = all.entry(key(server.pool)).or_default();
            counts.clients_cancelling += u64::from(server.cancels);
            counts.servers_cancelled += u64::from(server.cancels > 0);
            match self.server_state(id) {
                ServerState::LogsIn => counts.servers_logging_in += 1,
                ServerState::Tested => counts.servers_tested += 1,
                ServerState::Active(_) => counts.servers_active += 1,
                ServerState::Idle => counts.servers_idle += 1,
            }
        }
        all
    }

    fn operators(&self) -> u64 {
        let ids = self.clients.ids();
        let is_one = |id: &&crate::io::slab::Id| self.clients[**id].console.is_some();
        ids.iter().filter(is_one).count() as u64
    }

    pub(super) fn show_pools(&self) -> Table {
        let mut all = self.counts_of_pools();
        let console = Counts {
            clients_active: self.operators(),
            mode: PoolMode::Statement,
            ..Counts::default()
        };
        all.insert((CONSOLE, CONSOLE), console);
        let row = |((database, user), counts): (&(&str, &str), &Counts)| {
            let numbers = [
                counts.clients_active,
                counts.clients_waiting,
                counts.clients_cancelling,
                // Requests to cancel do not wait.
                0,
                counts.servers_active,
                counts.clients_cancelling,
                counts.servers_cancelled,
                counts.servers_idle,
                // Servers are not checked before they are used.
                0,
                counts.servers_tested,
                counts.servers_logging_in,
                counts.wait.as_secs(),
                u64::from(counts.wait.subsec_micros()),
            ];
            let names = [some(database), some(user)].into_iter();
            let numbers = numbers.into_iter().map(some);
            names.chain(numbers).chain([some(counts.mode)]).collect()
        };
        let numbers = [
            "cl_active",
            "cl_waiting",
            "cl_active_cancel_req",
            "cl_waiting_cancel_req",
            "sv_active",
            "sv_active_cancel",
            "sv_being_canceled",
            "sv_idle",
            "sv_used",
            "sv_tested",
            "sv_login",
            "maxwait",
            "maxwait_us",
        ];
        let names = [text("database"), text("user")].into_iter();
        let columns = names.chain(numbers.into_iter().map(int4));
        Table {
            columns: columns.chain([text("pool_mode")]).collect(),
            rows: all.iter().map(row).collect(),
        }
    }

    /// Those of the settings, and those that clients have found by `*`.
    fn databases(&self) -> BTreeSet<&str> {
        let named = self.settings.databases.keys().map(String::as_str);
        let found = self.pools.iter().map(|pool| pool.key.database.as_str());
        let held = self.held.paused.iter().map(String::as_str);
        named
            .filter(|name| *name != ANY_DATABASE)
            .chain(found)
            .chain(held)
            .collect()
    }

    pub(super) fn show_databases(&self) -> Table {
        let columns = vec![
            text("name"),
            text("host"),
            int4("port"),
            text("database"),
            text("force_user"),
            int4("pool_size"),
            int4("min_pool_size"),
            int4("reserve_pool"),
            text("pool_mode"),
            int4("max_connections"),
            int4("current_connections"),
            int4("paused"),
            int4("disabled"),
        ];
        let console = vec![
            some(CONSOLE),
            None,
            some(self.port()),
            some(CONSOLE),
            some(CONSOLE),
            some(2),
            some(0),
            some(0),
            some(PoolMode::Statement),
            some(0),
            some(0),
            some(0),
            some(0),
        ];
        let databases = self.databases();
        let rows = databases.iter().filter_map(|name| self.database_row(name));
        Table {
            columns,
            rows: rows.chain([console]).collect(),
        }
    }

    fn database_row(&self, name: &str) -> Option<Vec<Option<String>>> {
        let databases = &self.settings.databases;
        let database = databases.get(name).or(databases.get(ANY_DATABASE))?;
        let hosts: Vec<&str> = named(&database.hosts)
            .map(|hosts| hosts[0].name.as_str())
            .collect();
        let pools = self.pools.iter().filter(|pool| pool.key.database == name);
        let servers: usize = pools.map(|pool| pool.servers).sum();
        let size = self.settings.size(database);
        Some(vec![
            some(name),
            some(hosts.join(",")),
            some(database.hosts[0].port),
            some(database.name.as_deref().unwrap_or(name)),
            database.user.clone(),
            some(size),
            some(self.settings.least(database, size)),
            some(self.settings.reserve(database)),
            database.pool_mode.map(|mode| mode.to_string()),
            some(
                database
                    .max_db_connections
                    .unwrap_or(self.settings.max_db_connections),
            ),
            some(servers),
            some(u8::from(self.held.is_paused(name))),
            some(u8::from(self.held.disabled.contains(name))),
        ])
    }

    fn users(&self) -> BTreeSet<&str> {
        let known = self.settings.users.keys().map(String::as_str);
        let set = self.settings.administration.users.keys();
        let seen = self.pools.iter().map(|pool| pool.key.user.as_str());
        known.chain(set.map(String::as_str)).chain(seen).collect()
    }

    pub(super) fn show_users(&self) -> Table {
        let of_user = &self.settings.administration.users;
        let mode = |user: &str| of_user.get(user)?.pool_mode.map(|mode| mode.to_string());
        let row = |user: &str| vec![some(user), mode(user)];
        Table {
            columns: vec![text("name"), text("pool_mode")],
            rows: self.users().into_iter().map(row).collect(),
        }
    }

    pub(super) fn show_lists(&self) -> Table {
        let clients = self.clients.ids();
        let logs_in = |id: &&crate::io::slab::Id| self.client_state(**id) == ClientState::LogsIn;
        let logging_in = clients.iter().filter(logs_in).count();
        let used = self.servers.ids();
        let is_used = |id: &&crate::io::slab::Id| self.server_state(**id) != ServerState::Idle;
        let used = used.iter().filter(is_used).count();
        let rows = [
            ("databases", self.databases().len() + 1),
            ("users", self.users().len()),
            ("pools", self.counts_of_pools().len() + 1),
            ("free_clients", self.clients.free_len()),
            ("used_clients", self.connected_clients() - logging_in),
            ("login_clients", logging_in),
            ("free_servers", self.servers.len() - used),
            ("used_servers", used),
            ("dns_names", self.settings.names().len()),
            ("dns_zones", 0),
            ("dns_queries", 0),
            ("dns_pending", 0),
        ];
        Table {
            columns: vec![text("list"), int4("items")],
            rows: rows
                .into_iter()
                .map(|(name, items)| vec![some(name), some(items)])
                .collect(),
        }
    }
}
