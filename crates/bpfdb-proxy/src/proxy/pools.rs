//! Which client gets which server.

use std::time::Instant;

use postgres_protocol::message::frontend;

use super::{Proxy, Work};
use crate::awaited::{Expected, Own};
use crate::client::Client;
use crate::io::slab::Id;
use crate::pool::Pool;
use crate::server::Server;

impl Proxy {
    /// A server for a client that has none: `None` if it has to wait.
    pub(super) fn acquire(&mut self, id: Id) -> Option<Id> {
        let client = &mut self.clients[id];
        let number = client.pool?;
        if client.waits.is_some() {
            return None;
        }
        if !self.pools[number as usize].is_paused
            && let Some(server) = self.take_free(number)
        {
            self.link(id, server);
            // Its first bytes may have failed, which ends the two of them.
            let is_linked = |client: &Client| client.server == Some(server);
            return self
                .clients
                .get(id)
                .is_some_and(is_linked)
                .then_some(server);
        }
        let client = &mut self.clients[id];
        (client.waits, client.knows_it_waits) = (Some(Instant::now()), false);
        self.pools[number as usize].waiting.push_back(id);
        self.tell_wanted(number);
        // One that became free before the programs could know that it is wanted.
        self.serve_waiting(number);
        self.open_servers(number);
        None
    }

    /// The one that was used last: others may become idle long enough to be closed.
    pub(super) fn take_free(&mut self, pool: u32) -> Option<Id> {
        let free = self.pools[pool as usize].free.pop_back();
        free.or_else(|| self.take_from_kernel(pool))
    }

    /// A server is no client's: the client that has waited longest gets it.
    pub(super) fn give(&mut self, id: Id) {
        let number = self.servers[id].pool;
        if self.servers[id].has_ended || self.is_old(id) || self.is_unwanted(id) {
            return self.close_server(id);
        }
        if self.ask_next(id) || self.gives_way(id) {
            return;
        }
        while let Some(client) = self.pools[number as usize].waiting.pop_front() {
            if let Some(waits) = self.clients.get_mut(client) {
                let waited = waits.waits.take().map(|since| since.elapsed());
                let waited = waited.map_or(0, |time| time.as_nanos() as u64);
                self.pools[number as usize].traffic.wait_time += waited;
                self.tell_wanted(number);
                self.link(client, id);
                self.work.push_back(Work::Client(client));
                return;
            }
        }
        self.tell_wanted(number);
        self.servers[id].since = Instant::now();
        if !self.put_into_kernel(id) {
            self.pools[number as usize].free.push_back(id);
        }
    }

    /// From now on the server's replies are this client's.
    fn link(&mut self, client: Id, server: Id) {
        let (c, s) = (&mut self.clients[client], &mut self.servers[server]);
        (c.server, s.client) = (Some(server), Some(client));
        (c.hint, c.assigns) = (None, None);
        (s.asked, s.begun) = (0, 0);
        s.resumes = false;
        s.speaks = false;
        if let (Some(kernel), Some(place)) = (&self.kernel, s.slot) {
            kernel.own(place);
        }
        self.ask_for_parameters(client, server);
    }

    /// The session of a server gets the parameters that its client has.
    pub(super) fn ask_for_parameters(&mut self, client: Id, server: Id) {
        let wanted = &self.clients[client].parameters;
        let parameters = &mut self.servers[server].parameters;
        if let Some(text) = wanted.statement(parameters) {
            // The others it reports. If it refuses, it is closed.
            parameters.follow_all(wanted);
            self.ask(server, Own::Parameters, &text);
        }
    }

    /// The session of a server that is no client's gets back the parameters that clients have set and it does not report.
    /// `false`: it has them as it began.
    pub(super) fn unfollow(&mut self, id: Id) -> bool {
        let server = &mut self.servers[id];
        let mut login = server.parameters.clone();
        login.forget_followed();
        let Some(text) = login.statement(&server.parameters) else {
            return false;
        };
        server.parameters.forget_followed();
        server.resumes = false;
        self.ask(id, Own::Parameters, &text);
        true
    }

    /// A statement of our own.
    fn ask(&mut self, id: Id, own: Own, text: &str) {
        let server = &mut self.servers[id];
        if let Err(error) = frontend::query(text, &mut server.output) {
            tracing::error!(%error, text, "the proxy's own statement is no text");
            return;
        }
        server.expected.push_back(Expected::Own(own));
        // What it says next is the answer, also if the kernel has served its client until now.
        server.speaks = false;
        if let (Some(kernel), Some(place)) = (&self.kernel, server.slot) {
            kernel.own(place);
        }
        self.flush_server(id);
    }

    /// A server has let us in: it is free, after the database's own query if it has one.
    pub(super) fn begin_session(&mut self, id: Id) {
        let pool = &self.pools[self.servers[id].pool as usize];
        match pool.database.connect_query.clone() {
            Some(query) => self.ask(id, Own::Connect, &query),
            None => self.give(id),
        }
    }

    /// The client has no more use of its server, whose transaction is over.
    pub(super) fn release(&mut self, id: Id) {
        let server = &mut self.servers[id];
        if server.cancels > 0 {
            // It stays linked until the last request to cancel has arrived.
            return;
        }
        let Some(client) = server.client.take() else {
            return;
        };
        let mut needs_reset = false;
        if let Some(client) = self.clients.get_mut(client) {
            client.server = None;
            needs_reset = std::mem::take(&mut client.pinned);
        }
        // It was not read while that client had much to read.
        self.server_waits(id);
        self.put_right(id, needs_reset);
    }

    /// Gives a server on that no client has, after what puts it right if a session has left state.
    pub(super) fn put_right(&mut self, id: Id, needs_reset: bool) {
        if self.servers[id].unsure || self.servers[id].has_ended {
            return self.close_server(id);
        }
        let reset = &self.settings.server_reset_query;
        if needs_reset && !reset.is_empty() {
            let reset = reset.clone();
            return self.ask(id, Own::Reset, &reset);
        }
        if needs_reset && !has_connect_query(&self.pools, &self.servers[id]) {
            self.servers[id].parameters.doubt_followed();
        }
        self.give(id);
    }

    /// The query that puts a server right is done. What it is the settings say; DISCARD ALL is known.
    pub(super) fn was_reset(&mut self, id: Id) {
        let reset = self.settings.server_reset_query.to_ascii_lowercase();
        let may_follow = !has_connect_query(&self.pools, &self.servers[id]);
        let server = &mut self.servers[id];
        let words: Vec<&str> = reset.split_ascii_whitespace().collect();
        if words.join(" ").trim_end_matches([';', ' ']) == "discard all" {
            server.statements.clear();
            server.parameters.forget_followed();
        } else {
            // Else it may have them still.
            if reset.contains("deallocate") || reset.contains("discard") {
                server.statements.clear();
            }
            if may_follow {
                server.parameters.doubt_followed();
            }
        }
        self.begin_session(id);
    }
}

/// Does each session of a server's database begin with a query of the settings?
pub(super) fn has_connect_query(pools: &[Pool], server: &Server) -> bool {
    let database = &pools[server.pool as usize].database;
    database.connect_query.is_some()
}
