//! Servers that one test after the other has for itself ([`crate::lent`]), each with the options and
//! settings that the test wants: to make one costs most of a second of processor time, and tests that run side
//! by side never meet in one.
//!
//! ```text
//!            lend()              lend()
//!   (none) ---------> lent <---------------- idle ---> stopped
//!                      |        drop()        ^     discard, end of the process
//!                      +----- is_tidy() ------+
//!                      +----- is not ------------> stopped
//! ```
//!
//! 1. A lent server is that of one test; its clients are that test's only.
//! 2. An idle one is as it was made, but for its counters: no client is connected, no transaction is
//!    open, there is no key, script, library or pause, and each setting has its first value.
//! 3. A server is lent again only for the same options and settings.
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
    /// Its options and settings, as text.
    kind: String,
    server: TestServer,
    /// What CONFIG GET says of all settings at first.
    settings: Vec<u8>,
    /// Sessions that it has without clients.
    sessions: u64,
}

pub(super) fn lend(options: &bpfdb::Options, settings: Settings) -> Lent {
    let kind = format!("{options:?} {settings:?}");
    KINDS.take_such(
        |pooled| pooled.kind == kind,
        || Pooled::make(kind.clone(), options, settings),
    )
}

impl Pooled {
    fn make(kind: String, options: &bpfdb::Options, settings: Settings) -> Self {
        let server = TestServer::start_as_told(options, settings);
        end_at_exit();
        let settings = all_settings(&mut server.client());
        let mut pooled = Self {
            kind,
            server,
            settings,
            sessions: 0,
        };
        if !pooled.is_left_alone() {
            pooled.sessions = pooled.server.engine.stats().expect("figures").sessions;
        }
        pooled
    }

    /// Makes everything as it was before; false if that is not possible.
    fn is_tidy(&self) -> bool {
        self.is_left_alone() && self.is_emptied() && self.is_left_alone()
    }

    fn is_emptied(&self) -> bool {
        let mut client = self.server.client();
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
        done && all_settings(&mut client) == self.settings
    }

    /// Waits until all connections and transactions are over. False: they are not.
    fn is_left_alone(&self) -> bool {
        let start = Instant::now();
        loop {
            let stats = self.server.engine.stats().expect("figures");
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
        &self.server
    }
}

impl Lend for Pooled {
    fn restore(&mut self) -> bool {
        // See 4 and 2.
        !crate::log::is_wanted() && self.is_tidy()
    }
}
