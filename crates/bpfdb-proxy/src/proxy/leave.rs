//! Clients end.

use super::Proxy;
use crate::client::Stage;
use crate::io::slab::Id;
use crate::settings::PoolMode;

/// Type and length.
const TERMINATE: &[u8] = b"X\0\0\0\x04";

impl Proxy {
    /// A client is gone, or has to go.
    pub(super) fn leave(&mut self, id: Id) {
        self.grab(id);
        self.copies_seen_of(id);
        let Some(mut client) = self.clients.remove(id) else {
            return;
        };
        let is_whole = client.framing.is_between();
        self.shadow_leaves(client.mirrored, is_whole);
        let is_shadow = client.shadow.is_some();
        if let Some(shadow) = client.shadow.take() {
            let queued = client.input.len();
            let server = client.server.map(|server| &self.servers[server]);
            let unanswered = server.map_or(0, |server| server.expected.len());
            // It says so itself, with nothing else in its queue.
            let is_over = is_whole && client.input[..] == *TERMINATE;
            self.shadow_is_gone(shadow, queued, unanswered, is_over);
        }
        if let (Some(kernel), Some(slot)) = (&mut self.kernel, client.slot) {
            client.names.clear();
            client
                .names
                .tell(|name, number| kernel.name(slot, name, number));
            kernel.remove_client(slot);
        }
        let logs = self.settings.administration.log_disconnections && !is_shadow;
        if logs && matches!(client.stage, Stage::Ready) {
            tracing::info!(user = client.user, "a client has left");
        }
        if let Stage::LooksUp { pool, .. } = client.stage {
            let lookups = &mut self.pools[pool as usize].lookups;
            lookups.retain(|waiting| *waiting != id);
            self.tell_wanted(pool);
        }
        if let Some(number) = client.pool {
            let pool = &mut self.pools[number as usize];
            if client.waits.is_some() {
                pool.waiting.retain(|waiting| *waiting != id);
            }
            pool.clients -= 1;
            pool.greeting.retain(|greeting| *greeting != id);
            self.tell_wanted(number);
        }
        let Some(server) = client.server else {
            return;
        };
        let is_over = client.is_between() && self.servers[server].is_quiet();
        let needs_reset = client.pinned || client.mode == PoolMode::Session;
        drop(client);
        self.servers[server].client = None;
        if is_over && self.servers[server].cancels == 0 {
            self.put_right(server, needs_reset);
            return;
        }
        // In the midst of a transaction its server is of no use, and need not finish what no client reads.
        if !self.servers[server].expected.is_empty() {
            self.send_cancel(server, false, None);
        }
        self.close_server(server);
    }
}
