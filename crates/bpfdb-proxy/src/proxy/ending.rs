//! The proxy is to end, at once or when something is over.

use super::Proxy;
use crate::io::socket::{self, Address};
use crate::wire::reply::state;

/// Why a connection ends.
pub(super) const TOLD: &str = "the proxy is shutting down";

/// What is awaited before the proxy ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is not to end.
    #[default]
    No,
    /// All servers are closed, as by PAUSE; clients are accepted meanwhile, and wait.
    Paused,
    /// The same, and nobody is accepted; clients that wait for a server are refused.
    Servers,
    /// All clients have left, and nobody is accepted.
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
    /// It waits for servers to be closed, and is asked to go on serving clients until they leave.
    pub(super) fn begin_ending(&mut self, ending: Ending) -> Result<(), String> {
        if self.ending.pauses() && ending == Ending::Clients {
            return Err("pooler is shutting down".into());
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

    /// Nobody can connect any more, also to cancel. Another proxy may listen at the same addresses: the programs look
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
        self.ends |= match self.ending {
            Ending::No => false,
            Ending::Paused | Ending::Servers => self.servers.len() == 0,
            Ending::Clients => !self.has_clients(),
        };
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
