//! Servers that one test after the other has for itself: to make one costs a second of processor
//! time, and tests that run side by side never meet in one.
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
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::Settings;

use super::{Client, TestServer};

/// Idle servers that are kept: as many as tests run side by side, of two kinds.
const KEPT: usize = 8;
/// How long the last connections of a test may take to go.
const FAREWELL: Duration = Duration::from_secs(5);

/// A server that is lent to a test.
pub struct Lent(Option<Pooled>);

struct Pooled {
    /// Its options and settings, as text.
    kind: String,
    server: TestServer,
    /// What CONFIG GET says of all settings at first.
    settings: Vec<u8>,
    /// Sessions that it has without clients.
    sessions: u64,
}

/// The ones that wait; the one at the end was used last.
static IDLE: Mutex<Vec<Pooled>> = Mutex::new(Vec::new());

pub(super) fn lend(options: &bpfdb::Options, settings: Settings) -> Lent {
    let kind = format!("{options:?} {settings:?}");
    let waiting = {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = idle.iter().rposition(|pooled| pooled.kind == kind);
        place.map(|place| idle.remove(place))
    };
    Lent(Some(
        waiting.unwrap_or_else(|| Pooled::make(kind, options, settings)),
    ))
}

impl Pooled {
    fn make(kind: String, options: &bpfdb::Options, settings: Settings) -> Self {
        let server = TestServer::start_as_told(options, settings);
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

impl Deref for Lent {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0.as_ref().expect("lent until it is dropped").server
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let pooled = self.0.take().expect("dropped once");
        // See 4 and 2.
        if thread::panicking() || crate::log::is_wanted() || !pooled.is_tidy() {
            return;
        }
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        static AT_EXIT: std::sync::Once = std::sync::Once::new();
        // SAFETY: a function without preconditions. Behind the one of the cgroup, so before it.
        AT_EXIT.call_once(|| unsafe {
            libc::atexit(stop_all);
        });
        idle.push(pooled);
        let discarded = (idle.len() > KEPT).then(|| idle.remove(0));
        // It takes a while: others need not wait for it.
        drop(idle);
        drop(discarded);
    }
}

/// When the process ends. A panic ends it with a signal.
extern "C" fn stop_all() {
    let idle = std::mem::take(&mut *IDLE.lock().unwrap_or_else(PoisonError::into_inner));
    // What is local to this thread is gone by now.
    let stopped = thread::spawn(move || drop(idle)).join();
    stopped.expect("a clean stop");
}
