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
//!    another server takes its place, on the same engine and with the programs that are loaded already.
//! 4. The server of a test that panicked is stopped, and so is one with a log: that is compared then.

use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::Settings;

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
    /// What CONFIG GET says of all settings at first.
    all_settings: Vec<u8>,
    /// Most memory of its engine at first, bytes.
    memory_limit: u64,
    /// Sessions that it has without clients.
    sessions: u64,
}

pub(super) fn lend(options: &bpfdb::Options, settings: Settings) -> Lent {
    let such = |idle: &Pooled| idle.settings == settings && idle.is_on_such(options);
    match KINDS.newest(such) {
        Some(idle) => KINDS.lend(idle),
        None => lend_new(options, settings),
    }
}

/// One that has just started.
pub(super) fn lend_new(options: &bpfdb::Options, settings: Settings) -> Lent {
    let such = |idle: &Pooled| idle.has_programs_for(&settings) && idle.is_on_such(options);
    let pooled = match KINDS.oldest(such) {
        Some(idle) => idle.with(settings),
        None => Pooled::make(options, settings),
    };
    KINDS.lend(pooled)
}

impl Pooled {
    fn make(options: &bpfdb::Options, settings: Settings) -> Self {
        let server = TestServer::start_as_told(options, settings.clone());
        end_at_exit();
        let mut pooled = Self {
            options: options.clone(),
            settings,
            all_settings: Vec::new(),
            memory_limit: server.engine.memory_limit(),
            sessions: 0,
            server: Some(server),
        };
        pooled.look_at_settings();
        if !pooled.is_left_alone() {
            pooled.sessions = pooled.engine.stats().expect("figures").sessions;
        }
        pooled
    }

    /// Another server in its place.
    fn with(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self.start_next();
        self.look_at_settings();
        self
    }

    fn start_next(&mut self) {
        let server = self.server.take().expect("it is there");
        self.server = Some(server.start_next(self.settings.clone()));
    }

    fn look_at_settings(&mut self) {
        self.all_settings = all_settings(&mut self.admin());
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
        if !self.is_left_alone() {
            return false;
        }
        if all_settings(&mut self.admin()) != self.all_settings {
            if self.engine.set_memory_limit(self.memory_limit).is_err() || !self.is_left_alone() {
                return false;
            }
            self.engine
                .set_snapshot_max_age(self.options.snapshot_max_age);
            self.start_next();
        }
        self.is_emptied() && self.is_left_alone()
    }

    fn is_emptied(&self) -> bool {
        let mut client = self.admin();
        let commands = [
            "CLIENT UNPAUSE",
            "FUNCTION FLUSH SYNC",
            "SCRIPT FLUSH",
            "FLUSHALL",
            "SLOWLOG RESET",
            "CONFIG RESETSTAT",
        ];
        let done = commands
            .iter()
            .all(|command| client.say(command) == "+OK\r\n");
        done && all_settings(&mut client) == self.all_settings
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
