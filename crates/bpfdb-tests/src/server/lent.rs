//! Servers that a test has for itself ([`crate::lent`]), with the settings that a server has by itself:
//! a test may change its functions, scripts and statistics, and look at all of its data.
//!
//! Not for tests in a network namespace of their own, tests that stop the server, let its log fail or
//! count what it has done since its start: such a test starts a [`TestServer`].

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Once;
use std::thread;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use tempfile::TempDir;

use super::pool::KINDS;
use super::procedures::ask;
use super::{Client, Reply, TestServer, wait_until};
use crate::lent::{Lend, Lent, Pool};

static PLAIN: Pool<Plain> = Pool::new();
static LOGGED: Pool<Logged> = Pool::new();

/// A server without a log, unless all tests are to have one.
pub fn plain() -> Lent<Plain> {
    PLAIN.take(Plain::start)
}

/// A server with a log, and the disk of that, which can be held.
pub fn logged() -> (SimulatedDisk, Lent<Logged>) {
    let server = LOGGED.take(Logged::start);
    (server.disk.clone(), server)
}

pub struct Plain {
    server: TestServer,
    settings: Vec<Reply>,
    /// For clients that the kernel does not see.
    pub socket: PathBuf,
    _folder: TempDir,
}

impl Plain {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("bpfdb.sock");
        let settings = Settings {
            unix_socket: Some(socket.clone()),
            ..Settings::default()
        };
        let server = TestServer::start_with(&bpfdb::Options::default(), settings);
        end_at_exit();
        Self {
            settings: settings_of(&mut server.client()),
            server,
            socket,
            _folder: folder,
        }
    }

    pub fn unix_client(&self) -> Client {
        Client::connect_unix(&self.socket)
    }
}

impl Deref for Plain {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl Lend for Plain {
    fn restore(&mut self) -> bool {
        is_as_new(&self.server, &self.settings)
    }
}

pub struct Logged {
    server: TestServer,
    settings: Vec<Reply>,
    disk: SimulatedDisk,
}

impl Logged {
    fn start() -> Self {
        let disk = SimulatedDisk::new(1);
        let server = TestServer::start_logged(&disk, Settings::default());
        end_at_exit();
        Self {
            settings: settings_of(&mut server.client()),
            server,
            disk,
        }
    }
}

impl Deref for Logged {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl Lend for Logged {
    fn restore(&mut self) -> bool {
        self.disk.hold(false);
        is_as_new(&self.server, &self.settings)
    }
}

/// Else the end of the log would wait for the disk for ever.
impl Drop for Logged {
    fn drop(&mut self) {
        self.disk.hold(false);
    }
}

/// Names and values by turns.
fn settings_of(client: &mut Client) -> Vec<Reply> {
    ask(client, &["CONFIG", "GET", "*"]).items
}

/// Ends what clients have left open, and empties the server: true if it has these settings, too.
fn is_as_new(server: &TestServer, settings: &[Reply]) -> bool {
    let mut client = server.client();
    client.say("CLIENT KILL TYPE normal SKIPME yes");
    wait_until("all other clients are gone", || {
        client
            .say("INFO clients")
            .contains("\nconnected_clients:1\r\n")
    });
    for (found, wanted) in settings_of(&mut client).chunks(2).zip(settings.chunks(2)) {
        if found != wanted {
            client.ask(&[b"CONFIG", b"SET", &wanted[0].text, &wanted[1].text]);
        }
    }
    for command in [
        "FLUSHALL",
        "FUNCTION FLUSH",
        "SCRIPT FLUSH",
        "LATENCY RESET",
        "SLOWLOG RESET",
        "CONFIG RESETSTAT",
    ] {
        let told = client.say(command);
        assert!(!told.starts_with('-'), "{command}: {told}");
    }
    wait_until("no procedure has a program", || {
        client
            .say("INFO bpfdb")
            .contains("\nbpfdb_procedure_programs:0\r\n")
    });
    wait_until("no lock and no transaction is left", || {
        let stats = server.engine.stats().expect("figures");
        (stats.locks, stats.transactions) == (0, 0)
    });
    settings_of(&mut client) == settings
}

/// Stops the idle servers when the process ends, before it leaves its cgroup.
pub(super) fn end_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: a function without preconditions. The first server is there, so behind the one of the
        // cgroup.
        unsafe { libc::atexit(end) };
    });
}

/// A panic ends the process with a signal.
extern "C" fn end() {
    // What is local to this thread is gone by now.
    let ended = thread::spawn(|| {
        PLAIN.end();
        LOGGED.end();
        KINDS.end();
    });
    ended.join().expect("a clean stop");
}
