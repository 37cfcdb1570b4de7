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

use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{EvictionPolicy, Settings};

use super::lent::end_at_exit;
use super::{Client, TestServer};
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
        self.all_settings = Some(all_settings(&mut self.admin()));
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

    /// A client that may do everything.
    fn admin(&self) -> Client {
        let mut client = self.client();
        let password = &self.settings.require_pass.0;
        if !password.is_empty() {
            client.ask(&[b"AUTH", password.as_bytes()]);
        }
        client
    }

    /// Makes everything as it was before; false if that is not possible.
    fn is_restored(&mut self) -> bool {
        self.end_clients();
        if self.evicts() {
            // Its thread has a session.
            self.settings.max_memory_policy = EvictionPolicy::NoEviction;
            self.all_settings = None;
        }
        let is_as_at_first = |first: &Vec<u8>| *first == all_settings(&mut self.admin());
        if !self.all_settings.as_ref().is_some_and(is_as_at_first) {
            if self.engine.set_memory_limit(self.memory_limit).is_err() {
                return false;
            }
            self.engine
                .set_snapshot_max_age(self.options.snapshot_max_age);
            self.start_next();
        }
        if self.all_settings.is_none() {
            self.look_at_settings();
        }
        self.is_left_alone() && self.is_emptied() && self.is_left_alone()
    }

    /// Those that the test has not closed: they may be fields behind the server in a structure.
    fn end_clients(&self) {
        let mut client = self.admin();
        client.say("CLIENT UNPAUSE");
        for others in ["normal", "pubsub"] {
            client.say(&format!("CLIENT KILL TYPE {others} SKIPME yes"));
        }
    }

    fn evicts(&self) -> bool {
        self.settings.max_memory_policy != EvictionPolicy::NoEviction
    }

    fn is_emptied(&self) -> bool {
        let mut client = self.admin();
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
        done && self.all_settings == Some(all_settings(&mut client))
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

fn all_settings(client: &mut Client) -> Vec<u8> {
    client.ask(&[b"CONFIG", b"GET", b"*"])
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
