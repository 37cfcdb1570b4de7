//! The servers of one user on one database, and who waits for one.

use std::collections::VecDeque;
use std::time::Instant;

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
    /// Which of the database's hosts is used.
    pub(crate) host: usize,
    /// Hosts that have not let the proxy in, one after the other.
    pub(crate) failed: usize,
    /// None of them has: they are left alone until then.
    pub(crate) rests_until: Option<Instant>,
    /// Servers that the kernel knows.
    pub(crate) known: usize,
    /// Clients that want a server, the first first.
    pub(crate) waiting: VecDeque<Id>,
    /// Clients that are not admitted yet, about whom the database is asked (auth_query).
    pub(crate) lookups: VecDeque<Id>,
    /// Clients that are to be greeted when a first server has told its parameters.
    pub(crate) greeting: Vec<Id>,
    pub(crate) welcome: Option<Parameters>,
    /// Servers that are nobody's, the one that was used last at the end.
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
            host: 0,
            failed: 0,
            rests_until: None,
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

    /// Those who wait for a server.
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

    /// The host that is used.
    pub(crate) fn host(&self) -> &Host {
        let hosts = &self.database.hosts;
        &hosts[self.host % hosts.len()]
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
