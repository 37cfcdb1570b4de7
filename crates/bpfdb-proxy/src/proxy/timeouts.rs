//! What has taken too long.

use std::time::{Duration, Instant};

use super::Proxy;
use crate::client::{Client, Stage};
use crate::io::slab::Id;
use crate::traffic::{self, Traffic};
use crate::wire::reply::{self, state};

/// PgBouncer's words.
const WAITS: &str = "No server connection available in postgres backend, client being queued";

/// Has it taken longer than it may? A limit of zero is none.
pub(super) fn is_over(since: Instant, limit: Duration, now: Instant) -> bool {
    !limit.is_zero() && now - since >= limit
}

impl Proxy {
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        self.accept_again();
        // A program that has lost its processor for longer than an interval wakes nobody with its copy.
        self.look_again();
        self.end_activities(now);
        self.look_at_waiting(now);
        self.end_waits(now);
        self.tell_waiting(now);
        self.end_logins(now);
        self.end_lasts(now);
        self.end_connects(now);
        self.end_cancels(now);
        self.close_idle(now);
        self.fill_pools();
        self.sweep_all();
        self.look_at_awaited();
        self.go_on_ending();
        self.go_on_leaving();
        self.serve_metrics();
        self.end_period(now);
    }

    /// Averages are of the last period.
    fn end_period(&mut self, now: Instant) {
        let time = now - self.period_begun;
        if time < self.settings.administration.stats_period {
            return;
        }
        self.period_begun = now;
        let mut average = Traffic::default();
        for number in 0..self.pools.len() as u32 {
            let all = self.traffic(number);
            let periods = &mut self.pools[number as usize].periods;
            periods.end(traffic::now(), all);
            average += periods.average();
        }
        if self.settings.administration.log_stats {
            let [transactions, queries, received, sent, ..] = average.figures();
            tracing::info!(transactions, queries, received, sent, "each second");
        }
    }

    fn end_waits(&mut self, now: Instant) {
        for number in 0..self.pools.len() {
            let pool = &self.pools[number];
            let limit = self.settings.query_wait(&pool.database, &pool.key.user);
            while let Some(&first) = self.pools[number].waiting.front() {
                let since = self.clients.get(first).and_then(|client| client.waits);
                if since.is_some_and(|since| !is_over(since, limit, now)) {
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

    /// Clients hear once for each time they wait for long. One that waits has no server whose message this could be within.
    fn tell_waiting(&mut self, now: Instant) {
        let limit = self.settings.query_wait_notify;
        for number in 0..self.pools.len() {
            let client = |id: &Id| self.clients.get(*id);
            let waits = |id: &Id| client(id).and_then(|client| client.waits);
            let is_long = |id: &Id| waits(id).is_some_and(|since| is_over(since, limit, now));
            let is_told = |client: &Client| client.knows_it_waits || client.shadow.is_some();
            let waiting = self.pools[number].waiting.iter().copied();
            // Behind the first of them come those that wait less.
            let untold = waiting
                .take_while(is_long)
                .filter(|id| client(id).is_some_and(|client| !is_told(client)));
            for id in untold.collect::<Vec<_>>() {
                if let Some(client) = self.clients.get_mut(id) {
                    client.knows_it_waits = true;
                    reply::notice(&mut client.output, WAITS);
                    self.flush_client(id);
                }
            }
        }
    }

    fn end_logins(&mut self, now: Instant) {
        let limit = self.settings.client_login_timeout;
        for id in self.clients.ids() {
            // Those that were refused before may have taken it with them.
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            if !matches!(client.stage, Stage::Ready) && is_over(client.since, limit, now) {
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
            if !server.is_ready() && is_over(server.since, limit, now) {
                self.too_late(id);
            }
        }
    }

    /// Servers that no client has used for long, or that are old.
    fn close_idle(&mut self, now: Instant) {
        for id in self.servers.ids() {
            let Some(server) = self.servers.get_mut(id) else {
                continue;
            };
            if !server.is_ready() || server.client.is_some() || !server.expected.is_empty() {
                continue;
            }
            if let (Some(kernel), Some(place)) = (&self.kernel, server.slot) {
                let replies = kernel.shared.replies(place);
                if std::mem::replace(&mut server.replies, replies) != replies {
                    server.since = now;
                }
            }
            let (since, number) = (server.since, server.pool);
            let pool = &self.pools[number as usize];
            let is_spare = pool.servers > self.least(pool);
            let is_idle = is_over(since, self.settings.server_idle_timeout, now);
            if (is_idle && is_spare || self.is_old(id)) && self.take_this(id) {
                self.close_server(id);
            }
        }
    }

    pub(super) fn is_old(&self, id: Id) -> bool {
        let server = &self.servers[id];
        let limit = self
            .settings
            .lifetime(&self.pools[server.pool as usize].database);
        // Asked with each transaction: exact to a tick.
        is_over(server.opened, limit, self.ticked)
    }

    /// Is a server no client's, and is it the process's then?
    fn take_this(&mut self, id: Id) -> bool {
        let server = &self.servers[id];
        let pool = &self.pools[server.pool as usize];
        if pool.free.contains(&id) {
            return true;
        }
        match (&self.kernel, server.slot) {
            (Some(kernel), Some(place)) => kernel.take_this(server.pool, place),
            _ => false,
        }
    }
}
