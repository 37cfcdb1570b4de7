//! What is sent, and what is waited for: an end that does not take bytes is not read for.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::timeouts::is_over;
use super::{HELD_MAX, HIGH, Proxy, Work};
use crate::io::poll::{Event, Interest, Source};
use crate::io::slab::Id;

/// A client that ends is sent the last of it for as long as it takes some of it within this time.
const LAST_TIME: Duration = Duration::from_secs(30);

impl Proxy {
    /// Clients that take nothing of the last that is to be sent.
    pub(super) fn end_lasts(&mut self, now: Instant) {
        for id in self.clients.ids() {
            let ends = self.clients.get(id).and_then(|client| client.ends);
            if ends.is_some_and(|since| is_over(since, LAST_TIME, now)) {
                self.leave(id);
            }
        }
    }

    /// Sends what is there for a client, and waits for what it has to wait for.
    pub(super) fn flush_client(&mut self, id: Id) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let before = client.output.len();
        match client.socket.send(&mut client.output) {
            Ok(sent) => {
                if sent > 0 && client.ends.is_some() {
                    client.ends = Some(Instant::now());
                }
                client.sent += sent as u64;
                if let Some(pool) = client.pool {
                    self.pools[pool as usize].traffic.sent += sent as u64;
                }
            }
            Err(_) => return self.leave(id),
        }
        if client.ends.is_some() && !client.has_output() {
            client.socket.say_end();
            return self.leave(id);
        }
        let (now, server) = (client.output.len(), client.server);
        let is_at_console = client.console.is_some();
        // There is room again.
        if before >= HIGH && now < HIGH {
            if let Some(server) = server {
                self.work.push_back(Work::Server(server));
            } else if is_at_console {
                self.work.push_back(Work::Client(id));
            }
        }
        self.client_waits(id);
    }

    pub(super) fn flush_server(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let before = server.output.len();
        if server.socket.send(&mut server.output).is_err() {
            // It may have said why.
            server.output.clear();
            self.again.push(Event::of_end(Source::Server(id)));
        }
        let Some(server) = self.servers.get(id) else {
            return;
        };
        let (now, client) = (server.output.len(), server.client);
        if before >= HIGH
            && now < HIGH
            && let Some(client) = client
        {
            self.work.push_back(Work::Client(client));
        }
        self.server_waits(id);
    }

    /// What a client waits for: to be read from, unless its server has not taken the last of it.
    pub(super) fn client_waits(&mut self, id: Id) {
        let Some(client) = self
            .clients
            .get(id)
            .filter(|client| client.shadow.is_none())
        else {
            return;
        };
        // Replies of the console have no server that would stop for a client that does not take them.
        let has_room = client.console.is_none() || client.output.len() < HIGH;
        let has_room = has_room && self.clients[id].ends.is_none();
        let wanted = Interest {
            readable: has_room && (client.input.len() < HIGH || self.is_held(id)),
            writable: client.has_output(),
        };
        let client = &mut self.clients[id];
        if client.interest != wanted {
            client.interest = wanted;
            self.poll
                .change(client.socket.as_fd(), Source::Client(id), wanted);
        }
    }

    pub(super) fn server_waits(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let client = server.client.and_then(|client| self.clients.get(client));
        let wanted = Interest {
            readable: !server.has_ended
                && server.input.len() < HIGH
                && client.is_none_or(|client| client.output.len() < HIGH),
            writable: server.has_output(),
        };
        if server.interest != wanted {
            server.interest = wanted;
            let poll = match self.pools[server.pool as usize].key.is_mirror {
                true => &self.mirror_poll,
                false => &self.poll,
            };
            poll.change(server.socket.as_fd(), Source::Server(id), wanted);
        }
    }

    /// Is a message awaited that has to be whole, and is longer than what is read else?
    fn is_held(&self, id: Id) -> bool {
        let client = &self.clients[id];
        let has_room = match client.server {
            Some(server) => self.servers[server].output.len() < HIGH,
            // A mirrored client asks for a server when its message is whole.
            None => client.waits.is_none() && self.is_mirrored(client),
        };
        has_room && client.input.len() < HELD_MAX && self.awaits_whole(client)
    }
}
