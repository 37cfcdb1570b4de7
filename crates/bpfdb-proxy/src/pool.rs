//! The servers of one user on one database, and clients that wait for one.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use bytes::Bytes;

use crate::io::slab::Id;
use crate::parameters::Parameters;
use crate::settings::{Database, Host, PoolMode};
use crate::traffic::{Periods, Traffic};

/// What tells pools apart: servers are as good as each other within one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) database: String,
    pub(crate) user: String,
    /// Parameters of the start that cannot be set later, or are not reported.
    pub(crate) options: Vec<(String, String)>,
    /// Its clients are shadows. They take no server from others.
    pub(crate) is_mirror: bool,
}

/// Why a host gives the pool no server.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The server's own message.
    Refused(Bytes),
    /// The proxy and the server do not agree how the user authenticates.
    NotProven(String),
    /// The host was not there, or is not the one that is meant.
    Told(String),
}

impl Failure {
    /// Is it about the user, so that the same host says it again? Else the host may let the proxy in later.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Refused(message) => {
                let mut fields = message.split(|byte| *byte == 0);
                // It starts, or stops, or has no room.
                !fields.any(|field| field.starts_with(b"C57P0") || field == b"C53300")
            }
            Self::NotProven(_) => true,
            Self::Told(_) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(_) => f.write_str("a server has refused the proxy"),
            Self::NotProven(told) | Self::Told(told) => f.write_str(told),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) key: Key,
    pub(crate) database: Database,
    pub(crate) size: usize,
    pub(crate) mode: PoolMode,
    /// Clients that are logged in, or about to be greeted.
    pub(crate) clients: usize,
    /// Servers, those that log in included.
    pub(crate) servers: usize,
    pub(crate) logging_in: usize,
    /// Hosts that have not let the proxy in since it was let in last, or since all of them were tried.
    pub(crate) failed: Vec<Host>,
    /// What one of them has said of the user.
    pub(crate) refusal: Option<Failure>,
    /// None of them has: they are left alone until then.
    pub(crate) rests_until: Option<Instant>,
    /// When no host has given it a server, last.
    pub(crate) last_failure: Option<Instant>,
    /// Servers that the kernel knows.
    pub(crate) known: usize,
    /// Clients that want a server, the first first.
    pub(crate) waiting: VecDeque<Id>,
    /// Clients that are not admitted yet, about whom the database is asked (auth_query).
    pub(crate) lookups: VecDeque<Id>,
    /// Clients that are to be greeted when a first server has told its parameters.
    pub(crate) greeting: Vec<Id>,
    pub(crate) welcome: Option<Parameters>,
    /// Servers that are no client's, the one that was used last at the end.
    pub(crate) free: VecDeque<Id>,
    /// It gives no server to anybody.
    pub(crate) is_paused: bool,
    /// Some of its servers are to be closed.
    pub(crate) retires: bool,
    /// By the process, and by servers that are gone.
    pub(crate) traffic: Traffic,
    pub(crate) periods: Periods,
}

impl Pool {
    pub(crate) fn new(key: Key, database: Database, size: usize, mode: PoolMode) -> Self {
        Self {
            key,
            database,
            size,
            mode,
            clients: 0,
            servers: 0,
            logging_in: 0,
            failed: Vec::new(),
            refusal: None,
            rests_until: None,
            last_failure: None,
            known: 0,
            waiting: VecDeque::new(),
            lookups: VecDeque::new(),
            greeting: Vec::new(),
            welcome: None,
            free: VecDeque::new(),
            is_paused: false,
            retires: false,
            traffic: Traffic::default(),
            periods: Periods::default(),
        }
    }

    /// May it become the pool of another key?
    pub(crate) fn is_unused(&self) -> bool {
        self.clients == 0 && self.servers == 0 && self.lookups.is_empty()
    }

    /// Those that wait for a server.
    pub(crate) fn wanted(&self) -> usize {
        self.waiting.len() + self.lookups.len()
    }

    /// Is another server to be opened, with so many more than its size?
    pub(crate) fn wants_server(&self, reserve: usize) -> bool {
        let wanted = self.wanted() + usize::from(!self.greeting.is_empty());
        let has_room = self.servers < self.size + reserve;
        let rests = self.rests_until.is_some_and(|until| Instant::now() < until);
        !self.is_paused && !rests && self.logging_in < wanted && has_room
    }

    /// The host that is tried next: of those that have not failed the first one from `current` on, which is used for
    /// the database.
    pub(crate) fn next_host(&self, current: Option<&Host>) -> &Host {
        let hosts = &self.database.hosts;
        let is_current = |host: &Host| Some(host) == current;
        let first = hosts.iter().position(is_current).unwrap_or(0);
        let mut in_order = (0..hosts.len()).map(|index| &hosts[(first + index) % hosts.len()]);
        let next = in_order.find(|host| !self.failed.contains(host));
        next.unwrap_or(&hosts[first])
    }

    /// Has none of its hosts let the proxy in?
    pub(crate) fn has_tried_all(&self) -> bool {
        let hosts = &self.database.hosts;
        hosts.iter().all(|host| self.failed.contains(host))
    }

    /// The user that servers log in as.
    pub(crate) fn user(&self) -> &str {
        self.database.user.as_deref().unwrap_or(&self.key.user)
    }

    /// The database's name on its server.
    pub(crate) fn name(&self) -> &str {
        self.database.name.as_deref().unwrap_or(&self.key.database)
    }
}
