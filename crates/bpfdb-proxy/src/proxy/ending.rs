//! The proxy is to end, at once or when something is over.

use std::time::{Duration, Instant};

use super::Proxy;
use crate::client::Client;
use crate::io::slab::Id;
use crate::io::socket::{self, Address};
use crate::settings::PoolMode;
use crate::wire::reply::state;

/// Why a connection ends.
pub(super) const TOLD: &str = "the proxy is shutting down";

/// Clients may take so long with the rest of their replies when all transactions are over.
const READ_TIME: Duration = Duration::from_secs(5);

/// What is awaited before the proxy ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is not to end.
    #[default]
    No,
    /// All servers are closed, as by PAUSE; clients are accepted meanwhile, and wait.
    Paused,
    /// The same, and no client is accepted; clients that wait for a server are refused.
    Servers,
    /// All clients have left, and no client is accepted.
    Clients,
}

impl Ending {
    /// Has it paused all databases?
    pub(super) fn pauses(self) -> bool {
        matches!(self, Self::Paused | Self::Servers)
    }
}

impl Proxy {
    /// Begins to end. What was awaited before may be more, or the same, but not another thing.
    ///
    /// # Errors
    /// It waits for servers to be closed, and is asked to go on serving clients until they leave. Or another proxy
    /// follows this one, and has its listeners.
    pub(super) fn begin_ending(&mut self, ending: Ending) -> Result<(), String> {
        if self.ending.pauses() && ending == Ending::Clients {
            return Err("pooler is shutting down".into());
        }
        if self.has_successor() && ending != Ending::Paused {
            return Err("another proxy takes over".into());
        }
        tracing::info!(?ending, "the proxy is to end");
        self.ending = ending;
        if ending != Ending::Paused {
            self.close_listeners();
        }
        if ending.pauses() {
            self.held.all_paused = true;
            self.hold_pools();
        }
        Ok(())
    }

    /// No client can connect any more, also to cancel. Another proxy may listen at the same addresses: the programs look
    /// at no connections that begin from now on.
    fn close_listeners(&mut self) {
        self.forget_listeners();
        self.remove_files();
        if let Some(kernel) = &mut self.kernel {
            kernel.detach();
        }
    }

    /// The files of our Unix sockets go.
    pub(super) fn remove_files(&mut self) {
        for address in self.addresses.drain(..) {
            if let Address::Unix(path) = address {
                socket::remove_file(&path);
            }
        }
    }

    /// Is what was awaited there?
    pub(super) fn go_on_ending(&mut self) {
        if self.ending == Ending::Servers {
            for number in 0..self.pools.len() as u32 {
                for client in self.take_waiting(number) {
                    self.refuse(client, state::ADMIN_SHUTDOWN, TOLD);
                }
            }
        }
        if self.ending.pauses() {
            self.end_pinned();
        }
        self.ends |= match self.ending {
            Ending::No => false,
            Ending::Paused | Ending::Servers => self.are_all_paused() && self.has_sent_all(),
            Ending::Clients => !self.has_clients(),
        };
    }

    /// Clients that would keep their servers until they leave, though they have no transaction. Those of session
    /// pooling do so as it is meant.
    fn end_pinned(&mut self) {
        for id in self.clients.ids() {
            if self
                .clients
                .get(id)
                .is_some_and(|client| self.rests(client))
            {
                self.refuse(id, state::ADMIN_SHUTDOWN, TOLD);
            }
        }
    }

    /// Does a client keep a server that has nothing to do?
    fn rests(&self, client: &Client) -> bool {
        let is_done = client.is_between() && client.input.is_empty() && !client.has_output();
        let server = client.server.and_then(|server| self.servers.get(server));
        let is_quiet = server.is_some_and(|server| server.is_quiet() && server.cancels == 0);
        client.pinned && client.mode != PoolMode::Session && is_done && is_quiet
    }

    /// Have all clients taken what is for them, or had the time for it?
    fn has_sent_all(&mut self) -> bool {
        let since = *self.read_since.get_or_insert_with(Instant::now);
        let is_here = |client: &Client| client.shadow.is_none() && client.has_output();
        let has_output = |id: &Id| self.clients.get(*id).is_some_and(is_here);
        !self.clients.ids().iter().any(has_output) || since.elapsed() >= READ_TIME
    }

    /// Operators do not count, and what is sent to a mirror does not, either. Those of a proxy that this one follows
    /// are still to come.
    fn has_clients(&self) -> bool {
        let counts = |id| {
            let client = self.clients.get(id);
            client.is_some_and(|client| client.console.is_none() && client.shadow.is_none())
        };
        self.succession.predecessor.is_some() || self.clients.ids().into_iter().any(counts)
    }
}
