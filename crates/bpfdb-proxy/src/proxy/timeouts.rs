//! What has taken too long.

use std::time::Instant;

use super::Proxy;
use crate::client::Stage;
use crate::wire::reply::state;

impl Proxy {
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        self.look_at_waiting(now);
        self.end_waits(now);
        self.end_logins(now);
        self.end_connects(now);
        self.end_cancels(now);
        self.close_idle(now);
    }

    fn end_waits(&mut self, now: Instant) {
        for number in 0..self.pools.len() {
            while let Some(&first) = self.pools[number].waiting.front() {
                let since = self.clients.get(first).and_then(|client| client.waits);
                if since.is_some_and(|since| now - since < self.settings.query_wait_timeout) {
                    break;
                }
                self.refuse(first, state::TOO_MANY_CONNECTIONS, "query_wait_timeout");
                self.pools[number]
                    .waiting
                    .retain(|waiting| *waiting != first);
            }
            self.open_servers(number as u32);
        }
    }

    fn end_logins(&mut self, now: Instant) {
        let limit = self.settings.client_login_timeout;
        for id in self.clients.ids() {
            // Those who were refused before may have taken it with them.
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            if !matches!(client.stage, Stage::Ready) && now - client.since >= limit {
                self.refuse(id, state::PROTOCOL_VIOLATION, "client_login_timeout");
            }
        }
    }

    fn end_connects(&mut self, now: Instant) {
        let limit = self.settings.server_connect_timeout;
        for id in self.servers.ids() {
            let Some(server) = self.servers.get(id) else {
                continue;
            };
            if !server.is_ready() && now - server.since >= limit {
                self.too_late(id);
            }
        }
    }

    fn close_idle(&mut self, now: Instant) {
        let limit = self.settings.server_idle_timeout;
        for number in 0..self.pools.len() {
            while let Some(&first) = self.pools[number].free.front() {
                match self.servers.get(first) {
                    Some(server) if now - server.since < limit => break,
                    Some(_) => self.close_server(first),
                    None => drop(self.pools[number].free.pop_front()),
                }
            }
        }
    }
}
