//! What clients and servers do at this moment, also those that the kernel serves.

use std::time::Duration;

use super::super::Proxy;
use crate::client::Stage;
use crate::io::slab::Id;
use crate::kernel::abi;
use crate::traffic::{self, Traffic};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// Its password is awaited.
    LogsIn,
    Active,
    /// For a server, for so long.
    Waits(Duration),
}

impl ClientState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LogsIn => "login",
            Self::Active => "active",
            Self::Waits(_) => "waiting",
        }
    }

    pub(super) fn wait(self) -> Duration {
        match self {
            Self::Waits(time) => time,
            _ => Duration::ZERO,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    LogsIn,
    /// A statement of the proxy runs on it.
    Tested,
    /// It is a client's.
    Active(Option<Id>),
    Idle,
}

impl ServerState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LogsIn => "login",
            Self::Tested => "tested",
            Self::Active(_) => "active",
            Self::Idle => "idle",
        }
    }
}

/// A client's server and its last request within the kernel.
#[derive(Clone, Copy, Debug, Default)]
struct There {
    server: Option<Id>,
    waits: bool,
    /// ns of the monotonic clock; 0: none.
    asked: u64,
}

impl Proxy {
    fn client_there(&self, id: Id) -> There {
        let client = &self.clients[id];
        let (Some(kernel), Some(slot)) = (&self.kernel, client.slot) else {
            return There::default();
        };
        let (word, asked) = (kernel.word(slot), kernel.shared.asked(slot));
        let has_server = matches!(
            word.state(),
            abi::BPFDB_PROXY_LINKED | abi::BPFDB_PROXY_LINKING
        );
        There {
            server: has_server
                .then(|| kernel.server_at(word.server()))
                .flatten()
                .filter(|_| client.is_away),
            waits: client.is_away && word.state() == abi::BPFDB_PROXY_WAITING,
            asked,
        }
    }

    pub(crate) fn client_state(&self, id: Id) -> ClientState {
        let client = &self.clients[id];
        match client.stage {
            Stage::Ready => {}
            Stage::Greeted => return ClientState::Waits(client.since.elapsed()),
            _ => return ClientState::LogsIn,
        }
        if let Some(since) = client.waits {
            return ClientState::Waits(since.elapsed());
        }
        let there = self.client_there(id);
        if there.waits {
            let time = traffic::now().saturating_sub(there.asked);
            return ClientState::Waits(Duration::from_nanos(time));
        }
        ClientState::Active
    }

    /// The server that a client has.
    pub(super) fn server_of(&self, id: Id) -> Option<Id> {
        let here = self.clients[id].server;
        here.or_else(|| self.client_there(id).server)
    }

    /// When a client has sent its last request, ns of the monotonic clock; 0: it has sent none.
    pub(super) fn last_request(&self, id: Id) -> u64 {
        let there = self.client_there(id).asked;
        self.clients[id].asked.max(there)
    }

    pub(crate) fn server_state(&self, id: Id) -> ServerState {
        let server = &self.servers[id];
        if !server.is_ready() {
            return ServerState::LogsIn;
        }
        if let Some(client) = server.client {
            return ServerState::Active(Some(client));
        }
        if !server.expected.is_empty() {
            return ServerState::Tested;
        }
        match self.client_of_kernel(id) {
            Some(client) => ServerState::Active(Some(client)),
            None => ServerState::Idle,
        }
    }

    /// The client for which a server works within the kernel.
    fn client_of_kernel(&self, id: Id) -> Option<Id> {
        let kernel = self.kernel.as_ref()?;
        let slot = kernel.shared.owner_slot(self.servers[id].slot?)?;
        let client = kernel.client_at(slot)?;
        (self.client_there(client).server == Some(id)).then_some(client)
    }

    /// What went through a pool, by the process and within the kernel.
    pub(crate) fn traffic(&self, number: u32) -> Traffic {
        let there = self.servers.ids().into_iter().filter_map(|id| {
            let server = &self.servers[id];
            let (kernel, place) = (self.kernel.as_ref()?, server.slot?);
            (server.pool == number).then(|| kernel.shared.traffic(place))
        });
        self.pools[number as usize].traffic + there.sum()
    }
}
