//! Databases that are paused, disabled, or whose servers are replaced.
//!
//! A pool that is paused gives no server to anybody: a client that needs one waits in the process, and a server that
//! becomes free is closed. The process serves its clients meanwhile: within the kernel a client that asks again and
//! again would keep its server. So it is while servers of a pool are replaced.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::Proxy;
use crate::io::slab::Id;
use crate::server::Server;
use crate::takeover::Said;
use crate::wire::reply::state;

/// What operators have said at the console.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) all_paused: bool,
    pub(super) paused: FxHashSet<String>,
    /// They take no new clients.
    pub(super) disabled: FxHashSet<String>,
    /// Settings that differ from the file: their values.
    pub(super) settings: BTreeMap<String, String>,
    /// Mirrors that differ from the file, by their databases; an empty one is none.
    pub(super) mirrors: BTreeMap<String, String>,
}

impl Held {
    pub(super) fn is_paused(&self, database: &str) -> bool {
        self.all_paused || self.paused.contains(database)
    }

    pub(super) fn to_hand_over(&self) -> Said {
        Said {
            all_paused: self.all_paused,
            paused: self.paused.iter().cloned().collect(),
            disabled: self.disabled.iter().cloned().collect(),
            settings: self.settings.clone().into_iter().collect(),
            mirrors: self.mirrors.clone().into_iter().collect(),
        }
    }
}

impl From<Said> for Held {
    fn from(held: Said) -> Self {
        Self {
            all_paused: held.all_paused,
            paused: held.paused.into_iter().collect(),
            disabled: held.disabled.into_iter().collect(),
            settings: held.settings.into_iter().collect(),
            mirrors: held.mirrors.into_iter().collect(),
        }
    }
}

impl Proxy {
    pub(super) fn pools_of(&self, database: Option<&str>) -> Vec<u32> {
        let is_wanted = |number: &u32| {
            let key = &self.pools[*number as usize].key;
            database.is_none_or(|database| key.database == database)
        };
        (0..self.pools.len() as u32).filter(is_wanted).collect()
    }

    /// Puts what operators have said into force.
    pub(super) fn hold_pools(&mut self) {
        for number in 0..self.pools.len() as u32 {
            let pool = &mut self.pools[number as usize];
            let is_paused = self.held.is_paused(&pool.key.database);
            if std::mem::replace(&mut pool.is_paused, is_paused) == is_paused {
                continue;
            }
            if is_paused {
                self.take_clients(number);
                self.sweep(number);
            } else {
                self.tell_full(number);
                self.tell_wanted(number);
                self.serve_waiting(number);
                self.open_servers(number);
            }
        }
    }

    /// Each server of the pool is closed when it is free.
    pub(super) fn retire(&mut self, number: u32) {
        self.retire_if(number, |_| true);
    }

    /// The same of some of them.
    pub(super) fn retire_if(&mut self, number: u32, is_meant: impl Fn(&Server) -> bool) {
        let mut are_there = false;
        for id in self.servers.ids() {
            let server = &mut self.servers[id];
            if server.pool == number && is_meant(server) {
                server.retires = true;
                are_there = true;
            }
        }
        if !are_there {
            return;
        }
        self.pools[number as usize].retires = true;
        self.take_clients(number);
        self.sweep(number);
    }

    /// The process serves all clients of a pool.
    fn take_clients(&mut self, number: u32) {
        self.tell_full(number);
        self.tell_wanted(number);
        for id in self.clients.ids() {
            let client = self.clients.get(id);
            if client.is_some_and(|client| client.pool == Some(number)) {
                self.grab(id);
            }
        }
    }

    pub(super) fn is_unwanted(&self, id: Id) -> bool {
        let is_so = |server: &Server| server.retires || self.pools[server.pool as usize].is_paused;
        self.servers.get(id).is_some_and(is_so)
    }

    /// Closes the servers of a pool that are free, and are not to be.
    pub(super) fn sweep(&mut self, number: u32) {
        let pool = &self.pools[number as usize];
        if !pool.is_paused && !pool.retires {
            return;
        }
        let free: Vec<Id> = pool.free.iter().copied().collect();
        for id in free {
            if self.is_unwanted(id) {
                self.close_server(id);
            }
        }
        let mut wanted = Vec::new();
        while let Some(id) = self.take_from_kernel(number) {
            if self.is_unwanted(id) {
                self.close_server(id);
            } else {
                wanted.push(id);
            }
        }
        for id in wanted {
            self.give(id);
        }
        let retires = |id: &Id| self.servers[*id].pool == number && self.servers[*id].retires;
        self.pools[number as usize].retires = self.servers.ids().iter().any(retires);
        self.tell_full(number);
        self.tell_wanted(number);
    }

    pub(super) fn sweep_all(&mut self) {
        for number in 0..self.pools.len() as u32 {
            self.sweep(number);
        }
    }

    /// Ends all clients and servers of a database.
    pub(super) fn kill(&mut self, database: &str, told: &str) {
        let pools = self.pools_of(Some(database));
        for id in self.clients.ids() {
            let pool = self.clients.get(id).and_then(|client| client.pool);
            if pool.is_some_and(|pool| pools.contains(&pool)) {
                self.refuse(id, state::ADMIN_SHUTDOWN, told);
            }
        }
        for number in pools {
            self.retire(number);
        }
    }
}
