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
//! 4. The server of a test that panicked is stopped, and so is one with a log: that is compared then; and one that
//!    the test has spoiled ([`Pooled::spoil`]).
//! 5. Cold values stay on the disk of the engine that they are of ([`Home`]), and there are none in an idle server. Files
//!    that had some may be there for a while, and figures of cold values go on: [`Pooled::cold_before`].

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::DatabaseOrder;
use bpfdb_log::Directory;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::{EvictionPolicy, Settings};
use tempfile::TempDir;

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

/// Where a server's cold values are.
pub enum Home {
    /// It has none.
    Memory,
    /// On a disk of which a test can hold the reads.
    Simulated(SimulatedDisk),
    /// In files that the kernel can read.
    Files(TempDir),
}

impl Home {
    /// One on which values go to files of this machine.
    pub(super) fn files() -> Self {
        Self::Files(tempfile::tempdir().expect("a directory"))
    }

    fn is_such(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn start(&self, options: &bpfdb::Options, settings: Settings) -> TestServer {
        match self {
            Self::Memory => TestServer::start_as_told(options, settings),
            Self::Simulated(disk) => TestServer::start_tiered(disk.clone(), settings),
            Self::Files(folder) => {
                let disk = Directory::own(folder.path()).expect("a directory");
                TestServer::start_tiered(disk, settings)
            }
        }
    }

    /// Lets the disk answer again.
    fn release(&self) {
        if let Self::Simulated(disk) = self {
            disk.hold_reads(false);
        }
    }
}

pub struct Pooled {
    /// `None` only while another server takes its place.
    server: Option<TestServer>,
    home: Home,
    /// What its test has done to it cannot be undone.
    is_spoiled: bool,
    /// What INFO says of cold values while it is idle: names and numbers.
    cold_before: BTreeMap<String, u64>,
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

pub(super) fn lend(options: &bpfdb::Options, home: Home, settings: Settings) -> Lent {
    let such = |idle: &Pooled| idle.settings == settings && idle.is_on_such(options, &home);
    let pooled = KINDS.newest(such);
    let pooled = pooled.unwrap_or_else(|| {
        let mut new = Pooled::new(options, home, settings);
        new.look_at_settings();
        new
    });
    KINDS.lend(pooled)
}

/// One whose engine no test has had.
pub(super) fn lend_first(options: &bpfdb::Options, home: Home, settings: Settings) -> Lent {
    let mut first = Pooled::make(options, home, settings);
    first.look_at_settings();
    KINDS.lend(first)
}

/// One that has just started.
pub(super) fn lend_new(options: &bpfdb::Options, settings: Settings) -> Lent {
    KINDS.lend(Pooled::new(options, Home::Memory, settings))
}

impl Pooled {
    /// A server that has just started, if possible in the place of an idle one.
    fn new(options: &bpfdb::Options, home: Home, settings: Settings) -> Self {
        let such =
            |idle: &Self| idle.has_programs_for(&settings) && idle.is_on_such(options, &home);
        match KINDS.oldest(such) {
            Some(idle) => idle.with(settings),
            None => Self::make(options, home, settings),
        }
    }

    fn make(options: &bpfdb::Options, home: Home, settings: Settings) -> Self {
        let server = home.start(options, settings.clone());
        end_at_exit();
        let mut pooled = Self {
            home,
            is_spoiled: false,
            cold_before: BTreeMap::new(),
            options: options.clone(),
            settings,
            all_settings: None,
            memory_limit: server.engine.memory_limit(),
            sessions: 0,
            server: Some(server),
        };
        // What demotes values has sessions from the beginning.
        if pooled.tier.is_some() || (!pooled.evicts() && !pooled.is_left_alone()) {
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
        let mut client = self.admin();
        self.all_settings = client.as_mut().and_then(all_settings);
        if let Some(client) = &mut client {
            self.look_at_cold_values(client);
        }
    }

    fn look_at_cold_values(&mut self, client: &mut Client) {
        if self.tier.is_some() {
            let info = client.say("INFO everything");
            let lines = info.lines().filter_map(|line| line.split_once(':'));
            let of_tier = lines.filter(|(name, _)| name.starts_with("tier_"));
            let numbers =
                of_tier.filter_map(|(name, text)| Some((name.into(), text.parse().ok()?)));
            self.cold_before = numbers.collect();
        }
    }

    /// Was its engine made with these options, and with such a place for cold values?
    fn is_on_such(&self, options: &bpfdb::Options, home: &Home) -> bool {
        self.home.is_such(home) && format!("{:?}", self.options) == format!("{options:?}")
    }

    /// It is not lent again.
    pub fn spoil(&mut self) {
        self.is_spoiled = true;
    }

    /// The disk of its cold values.
    ///
    /// # Panics
    /// It has none that is simulated.
    pub fn disk(&self) -> &SimulatedDisk {
        match &self.home {
            Home::Simulated(disk) => disk,
            Home::Memory | Home::Files(_) => panic!("no simulated disk"),
        }
    }

    /// A figure of INFO of cold values as it was before the test had the server.
    ///
    /// # Panics
    /// There is no such figure.
    pub fn cold_before(&self, name: &str) -> u64 {
        *self.cold_before.get(name).expect("a figure")
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

    fn is_emptied(&mut self) -> bool {
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
        let is_emptied = done
            && self.all_settings == all_settings(&mut client)
            && self.has_no_records()
            && self.has_no_cold_values();
        self.look_at_cold_values(&mut client);
        is_emptied
    }

    /// Waits until nothing of cold values is left, and no read of them is under way.
    fn has_no_cold_values(&self) -> bool {
        let Some(tier) = &self.tier else { return true };
        let start = Instant::now();
        loop {
            let bpfdb_tier::Figures {
                found,
                park,
                prefetch,
                ..
            } = tier.figures();
            let ended = prefetch.used + prefetch.late + prefetch.unused + prefetch.failed;
            if found.values + park.seats == 0 && ended >= prefetch.started {
                return true;
            }
            if start.elapsed() > FAREWELL {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
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
        self.home.release();
        // See 4 and 2.
        !crate::log::is_wanted() && !self.is_spoiled && self.is_restored()
    }
}

/// Else its threads would wait for the disk for ever.
impl Drop for Pooled {
    fn drop(&mut self) {
        self.home.release();
    }
}
