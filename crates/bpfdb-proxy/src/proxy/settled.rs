//! A request has all its replies, or a transaction is over: whose the server is then.

use super::pools::has_connect_query;
use super::{Proxy, Work};
use crate::awaited::{Expected, Own};
use crate::io::slab::Id;
use crate::server::{Copying, IDLE, Server};
use crate::settings::PoolMode;
use crate::traffic::{self, Traffic};
use crate::wire::reply::{self, state};

impl Proxy {
    /// ReadyForQuery: is nothing more to come?
    pub(super) fn ready(&mut self, id: Id, status: u8) -> bool {
        let server = &mut self.servers[id];
        let is_ours = matches!(server.expected.first_end(), Some(Expected::Own(_)));
        let client = server.client.and_then(|client| self.clients.get(client));
        let is_open = client.is_some_and(|client| client.is_open);
        if client.is_some() && !is_ours {
            let ended = count(server, status, is_open);
            self.pools[server.pool as usize].traffic += ended;
        }
        server.status = status;
        server.copying = Copying::No;
        if let Some(client) = server
            .client
            .and_then(|client| self.clients.get_mut(client))
        {
            client.answered += 1;
        }
        // Behind an error that came before it was sent.
        self.pass_over(id);
        let server = &mut self.servers[id];
        server.expected.pop_front();
        // The data of a COPY that has failed before it began, and their end.
        while matches!(
            server.expected.front(),
            Some(Expected::CopyEnd | Expected::CopyData)
        ) {
            server.expected.pop_front();
        }
        let is_over = server.expected.is_empty();
        // What was awaited behind it was no request, such as data of a COPY that has failed.
        if is_over && server.status == IDLE && !is_open {
            (server.asked, server.begun) = (0, 0);
        }
        is_over
    }

    /// All that was sent has its replies; whose the server is now. `own`: the last of it was this one of the proxy's.
    pub(super) fn settled(&mut self, id: Id, own: Option<Own>) {
        let server = &mut self.servers[id];
        // RESET gives a parameter the value that it had before that query.
        let may_follow = !has_connect_query(&self.pools, server);
        let has_set = server.status == IDLE && std::mem::take(&mut server.has_set);
        let is_open = (server.client)
            .and_then(|client| self.clients.get(client))
            .is_some_and(|client| client.is_open);
        // Portals end with their transaction.
        server.has_portal &= is_open || server.status != IDLE;
        let has_portal = server.has_portal;
        if let Some(client) = server
            .client
            .and_then(|client| self.clients.get_mut(client))
        {
            let mut assigns = None;
            // What the client has sent of its next request has texts, too, and their replies are to come.
            if own.is_some() {
                client.unfit = 0;
                for (name, value) in client.parameters.adopt(&server.parameters) {
                    reply::parameter(&mut client.output, name, &value);
                }
            } else if !client.is_open {
                // A portal may be executed later, as its text says.
                let hint = match has_portal {
                    true => client.hint,
                    false => client.hint.take(),
                };
                client.pinned |= hint.is_some_and(|hint| hint.calls_session);
                assigns = client.assigns.take();
            }
            if has_set {
                match assigns {
                    Some(assignment) if may_follow => {
                        server.parameters.follow(assignment.clone());
                        client.parameters.follow(assignment);
                    }
                    _ => client.pinned = true,
                }
            }
        }
        match server.client {
            // What a client has left is put right.
            None if server.speaks => {}
            None if server.lookup.is_some() => {
                let lookup = server.lookup.take();
                self.give(id);
                if let Some(lookup) = lookup {
                    self.looked_up(lookup);
                }
            }
            None => match own {
                Some(Own::Reset) => self.was_reset(id),
                Some(_) => self.give(id),
                None => self.close_server(id),
            },
            Some(client) => {
                self.work.push_back(Work::Client(client));
                // Behind a statement of ours it uses the server for what it has sent meanwhile.
                if own.is_none() {
                    self.over(id);
                    // In this order: it may be quicker with its next request than we are.
                    self.hand_back(client);
                }
                self.flush_client(client);
            }
        }
    }

    /// Gives a server on if its client's transaction is over, and may.
    pub(super) fn over(&mut self, id: Id) {
        let server = &self.servers[id];
        let Some(client) = server.client.and_then(|client| self.clients.get(client)) else {
            return;
        };
        if !server.expected.is_empty() || !client.is_between() {
            return;
        }
        if client.mode == PoolMode::Statement && server.status != IDLE {
            let client = server.client;
            self.close_server(id);
            if let Some(client) = client {
                let told = "transaction blocks are not allowed in statement pooling mode";
                self.refuse(client, state::PROTOCOL_VIOLATION, told);
            }
            return;
        }
        let keeps = client.pinned || client.mode == PoolMode::Session;
        if server.status == IDLE && !keeps {
            self.release(id);
        }
    }
}

/// A request has its ReadyForQuery.
fn count(server: &mut Server, status: u8, is_open: bool) -> Traffic {
    let now = traffic::now();
    let since = |begun: u64| {
        if begun == 0 {
            0
        } else {
            now.saturating_sub(begun)
        }
    };
    let mut ended = Traffic {
        queries: 1,
        query_time: since(server.asked),
        ..Traffic::default()
    };
    if status == IDLE {
        ended.transactions = 1;
        ended.transaction_time = since(server.begun);
    }
    // What was sent behind it begins now.
    let goes_on = server.expected.len() > 1 || is_open;
    let next = if goes_on { now } else { 0 };
    server.asked = next;
    if status == IDLE {
        server.begun = next;
    }
    ended
}
