//! What clients are at, and for how long: limits of queries, of transactions, of those that stand still, and of
//! clients that say nothing.
//!
//! Nothing is noted on the way of a request. Each tick compares what is counted anyway, also by the
//! programs; so a time is exact to a tick.

use std::time::{Duration, Instant};

use super::Proxy;
use super::timeouts::is_over;
use crate::client::{Client, Doing, Seen};
use crate::kernel::abi;
use crate::server::IDLE;
use crate::settings::Limits;
use crate::traffic;
use crate::wire::reply::state;

impl Proxy {
    /// Ends those that are at the same for too long.
    pub(super) fn end_activities(&mut self, now: Instant) {
        for id in self.clients.ids() {
            let is_one = |client: &&Client| client.is_ready() && client.console.is_none();
            let Some(client) = self.clients.get(id).filter(is_one) else {
                continue;
            };
            let limits = self.settings.limits(&client.user);
            let limit = limits.transaction;
            if !limit.is_zero() && self.transaction_time(client) >= limit {
                self.refuse(id, state::TRANSACTION_TIMEOUT, "transaction timeout");
                continue;
            }
            let seen = self.seen_now(client);
            let client = &mut self.clients[id];
            if client.seen != seen {
                (client.seen, client.seen_since) = (seen, now);
            } else if let Some((state, told)) = too_long(client, limits, now) {
                self.refuse(id, state, told);
            }
        }
    }

    /// How long the transaction of a client has lasted, or its query outside of one.
    fn transaction_time(&self, client: &Client) -> Duration {
        let begun = match (&self.kernel, client.slot, client.is_away) {
            (Some(kernel), Some(slot), true) => {
                let word = kernel.word(slot);
                match word.state() {
                    // If it is another's by the time that is read, it has begun later.
                    abi::BPFDB_PROXY_LINKING | abi::BPFDB_PROXY_LINKED => {
                        kernel.shared.times(word.server()).1
                    }
                    _ => 0,
                }
            }
            _ => {
                let server = client.server.and_then(|server| self.servers.get(server));
                server.map_or(0, |server| server.begun)
            }
        };
        match begun {
            0 => Duration::ZERO,
            begun => Duration::from_nanos(traffic::now().saturating_sub(begun)),
        }
    }

    fn seen_now(&self, client: &Client) -> Seen {
        let count = client.received.wrapping_add(client.answered);
        let (Some(kernel), Some(slot), true) = (&self.kernel, client.slot, client.is_away) else {
            let server = client.server.and_then(|server| self.servers.get(server));
            let doing = match server {
                _ if client.waits.is_some() => Doing::Waits,
                Some(server) if !server.expected.is_empty() => Doing::Query,
                Some(server) if server.status != IDLE => Doing::StandsStill,
                _ if client.is_between() => Doing::Nothing,
                _ => Doing::StandsStill,
            };
            return Seen { doing, count };
        };
        let word = kernel.word(slot);
        let count = count.wrapping_add(kernel.shared.requests(slot));
        let (doing, replies) = match word.state() {
            abi::BPFDB_PROXY_WAITING => (Doing::Waits, 0),
            abi::BPFDB_PROXY_LINKING | abi::BPFDB_PROXY_LINKED => {
                let doing = if word.due() > 0 {
                    Doing::Query
                } else if word.has(abi::BPFDB_PROXY_OPEN) {
                    Doing::StandsStill
                } else {
                    Doing::Nothing
                };
                (doing, kernel.shared.replies(word.server()))
            }
            _ => (Doing::Nothing, 0),
        };
        let count = count.wrapping_add(replies);
        Seen { doing, count }
    }
}

fn too_long(client: &Client, limits: Limits, now: Instant) -> Option<(&'static str, &'static str)> {
    let (limit, state, told) = match client.seen.doing {
        Doing::Waits => return None,
        Doing::Nothing => (limits.idle, state::IDLE_SESSION, "client_idle_timeout"),
        Doing::Query => (limits.query, state::QUERY_CANCELED, "query timeout"),
        Doing::StandsStill => (
            limits.idle_transaction,
            state::IDLE_IN_TRANSACTION,
            "idle transaction timeout",
        ),
    };
    is_over(client.seen_since, limit, now).then_some((state, told))
}
