//! Servers that one test after the other has for itself ([`crate::lent`]), each with the options and
//! settings that the test wants: to make one costs most of a second of processor time, and tests that run side
//! by side never meet in one.
//!
//! ```text
//!            lend()              lend()
//!   (none) ---------> lent <---------------- idle ---> stopped
//!                      |        drop()        ^     discard, end of the process
//!                      +---- is_restored() ---+
//!                      +----- is not ------------> stopped
//! ```
//!
//! 1. A lent server is that of one test; its clients are that test's only.
//! 2. An idle one is as it was made, but for its engine's counters and the room that its index has: no client is
//!    connected, no transaction is open, there is no key, script, library or pause, and each setting has
//!    its first value.
//! 3. A server is lent again for the same options and settings. For other settings, or if a test has changed some,
//!    another server takes its place, on the same engine and with the programs that are loaded already. An idle one
//!    evicts nothing.
//! 4. The server of a test that panicked is stopped, and so is one with a log: that is compared then.

use std::io::Write;
use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::DatabaseOrder;
use bpfdb_server::settings::{EvictionPolicy, Settings};

use super::lent::end_at_exit;
use super::{Client, TestServer, request};
use crate::lent::{Lend, Pool};

/// Idle servers that are kept: as many as tests run side by side, of two kinds.
const KEPT: usize = 8;
/// How long the last connections of a test may take to go.
const FAREWELL: Duration = Duration::from_secs(5);

/// Idle servers of all options and settings.
pub(super) static KINDS: Pool<Pooled> = Pool::of_at_most(KEPT);

/// A server that is lent to a test.
pub type Lent = crate::lent::Lent<Pooled>;

pub struct Pooled {
    /// `None` only while another server takes its place.
    server: Option<TestServer>,
    options: bpfdb::Options,
    settings: Settings,
    /// What CONFIG GET says of all settings at first; `None` of one that was just started, which only its
    /// test has asked something.
    all_settings: Option<Vec<u8>>,
    /// Most memory of its engine at first, bytes.
    memory_limit: u64,
    /// Sessions that it has without clients.
    sessions: u64,
}

pub(super) fn lend(options: &bpfdb::Options, settings: Settings) -> Lent {
    let such = |idle: &Pooled| idle.settings == settings && idle.is_on_such(options);
    let pooled = KINDS.newest(such).unwrap_or_else(|| {
        let mut new = Pooled::new(options, settings);
        new.look_at_settings();
        new
    });
    KINDS.lend(pooled)
}

/// One that has just started.
pub(super) fn lend_new(options: &bpfdb::Options, settings: Settings) -> Lent {
    KINDS.lend(Pooled::new(options, settings))
}

impl Pooled {
    /// A server that has just started, if possible in the place of an idle one.
    fn new(options: &bpfdb::Options, settings: Settings) -> Self {
        let such = |idle: &Self| idle.has_programs_for(&settings) && idle.is_on_such(options);
        match KINDS.oldest(such) {
            Some(idle) => idle.with(settings),
            None => Self::make(options, settings),
        }
    }

    fn make(options: &bpfdb::Options, settings: Settings) -> Self {
        let server = TestServer::start_as_told(options, settings.clone());
        end_at_exit();
        let mut pooled = Self {
            options: options.clone(),
            settings,
            all_settings: None,
            memory_limit: server.engine.memory_limit(),
            sessions: 0,
            server: Some(server),
        };
        if !pooled.evicts() && !pooled.is_left_alone() {
            pooled.sessions = pooled.engine.stats().expect("figures").sessions;
        }
        pooled
    }

    /// Another server in its place.
    fn with(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self.start_next();
        self.all_settings = None;
        self
    }

    fn start_next(&mut self) {
        let server = self.server.take().expect("it is there");
        self.server = Some(server.start_next_as_told(self.settings.clone()));
    }

    fn look_at_settings(&mut self) {
        self.all_settings = self
            .admin()
            .and_then(|mut client| all_settings(&mut client));
    }

    /// Was its engine made with these options?
    fn is_on_such(&self, options: &bpfdb::Options) -> bool {
        format!("{:?}", self.options) == format!("{options:?}")
    }

    /// The programs are loaded for an address and for clients of this machine, or none.
    fn has_programs_for(&self, settings: &Settings) -> bool {
        (self.settings.bind, &self.settings.local_clients)
            == (settings.bind, &settings.local_clients)
    }

    /// A client that may do everything; `None` if it is refused.
    fn admin(&self) -> Option<Client> {
        let mut client = self.client();
        let password = &self.settings.require_pass.0;
        let is_let_in = password.is_empty()
            || try_ask(&mut client, &[b"AUTH", password.as_bytes()])? == b"+OK\r\n";
        is_let_in.then_some(client)
    }

    /// Makes everything as it was before; false if that is not possible.
    fn is_restored(&mut self) -> bool {
        // A thread that evicts has a session. Else a look at the settings says whether another server
        // must take its place; that ends all clients.
        let stays =
            !self.evicts() && self.all_settings.is_some() && self.are_settings_as_at_first();
        if !stays {
            if self.engine.set_memory_limit(self.memory_limit).is_err() {
                return false;
            }
            self.engine
                .set_snapshot_max_age(self.options.snapshot_max_age);
            if !self.forgets_order() {
                return false;
            }
            self.settings.max_memory_policy = EvictionPolicy::NoEviction;
            self.start_next();
            self.look_at_settings();
        }
        self.is_left_alone() && self.is_emptied() && self.is_left_alone()
    }

    /// Ends the clients that the test has not closed, too: they may be fields behind the server in a
    /// structure.
    fn are_settings_as_at_first(&self) -> bool {
        let is_ended = |client: &mut Client, command: &str| {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            try_ask(client, &words).is_some()
        };
        self.admin().is_some_and(|mut client| {
            let commands = [
                "CLIENT UNPAUSE",
                "CLIENT KILL TYPE normal SKIPME yes",
                "CLIENT KILL TYPE pubsub SKIPME yes",
            ];
            commands
                .iter()
                .all(|command| is_ended(&mut client, command))
                && all_settings(&mut client) == self.all_settings
                && self.has_first_order()
        })
    }

    /// Have no databases been exchanged?
    fn has_first_order(&self) -> bool {
        let mut session = self.engine.session().expect("a session");
        DatabaseOrder::read(&mut session) == Ok(DatabaseOrder::default())
    }

    /// Before the next server reads it. False: a transaction has it locked.
    fn forgets_order(&self) -> bool {
        let mut session = self.engine.session().expect("a session");
        session.delete(&DatabaseOrder::key()).is_ok()
    }

    fn evicts(&self) -> bool {
        self.settings.max_memory_policy != EvictionPolicy::NoEviction
    }

    fn is_emptied(&self) -> bool {
        let Some(mut client) = self.admin() else {
            return false;
        };
        let commands = [
            "FUNCTION FLUSH SYNC",
            "SCRIPT FLUSH",
            "FLUSHALL",
            "SLOWLOG RESET",
            "CONFIG RESETSTAT",
        ];
        let done = commands
            .iter()
            .all(|command| client.say(command) == "+OK\r\n");
        done && self.all_settings == all_settings(&mut client) && self.has_no_records()
    }

    /// Waits until what large collections have left is removed.
    fn has_no_records(&self) -> bool {
        let start = Instant::now();
        while self.engine.stats().expect("figures").records > 0 {
            if start.elapsed() > FAREWELL {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Waits until all connections and transactions are over. False: they are not.
    fn is_left_alone(&self) -> bool {
        let start = Instant::now();
        loop {
            let stats = self.engine.stats().expect("figures");
            if stats.transactions + stats.locks == 0 && stats.sessions <= self.sessions {
                return true;
            }
            if start.elapsed() > FAREWELL {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Names and values; `None`: the client was refused.
fn all_settings(client: &mut Client) -> Option<Vec<u8>> {
    try_ask(client, &[b"CONFIG", b"GET", b"*"])
}

/// The reply, unless the server closes the connection.
fn try_ask(client: &mut Client, words: &[&[u8]]) -> Option<Vec<u8>> {
    client.stream.write_all(&request(words)).ok()?;
    client.try_reply().ok()
}

impl Deref for Pooled {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        self.server.as_ref().expect("it is there")
    }
}

impl Lend for Pooled {
    fn restore(&mut self) -> bool {
        // See 4 and 2.
        !crate::log::is_wanted() && self.is_restored()
    }
}
