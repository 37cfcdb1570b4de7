//! The ways of a call, and what has answered it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;

use bpfdb::Engine;
use bpfdb_server::settings::{LocalClients, Settings};
use tempfile::TempDir;

use crate::isolation::{histories, money, named, stress};
use bpfdb_tests::server::procedures::{ask, daemon_calls, load};
use bpfdb_tests::server::{Client, Reply, TestServer, cgroup, kernel_answers, wait_until};

/// Of the calls, on a busy machine: what a client sends soon after a call that was given up is the
/// daemon's, too.
const IN_KERNEL_PERCENT: u64 = 40;
/// Of the calls of synchronous clients: all of them are the daemon's, which has the kernel run
/// those that write.
const IN_KERNEL_PERCENT_SYNC: u64 = 10;

/// The libraries of all suites, and a function of each that writes: of a synchronous client the
/// interpreter runs those that only read.
const LIBRARIES: [(&str, &str); 4] = [
    (histories::LIBRARY, "warm_histories"),
    (named::LIBRARY, "warm_anomalies"),
    (money::LIBRARY, "warm_money"),
    (stress::LIBRARY, "warm_stress"),
];

/// How a call comes to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// The kernel answers on the way.
    Tcp,
    /// The kernel answers within the client's send().
    Send,
    /// By a Unix-domain socket: the daemon has the kernel run it.
    Daemon,
}

/// A server whose functions the kernel runs.
struct Running {
    server: TestServer,
    socket: PathBuf,
    _folder: TempDir,
}

/// A server whose clients come on this path.
pub(crate) struct Served {
    running: Arc<Running>,
    pub(crate) path: Path,
}

/// What the kernel has done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Calls of the functions that it has run by itself.
    pub(crate) calls: u64,
    /// Those that the daemon had it run.
    pub(crate) by_daemon: u64,
    /// Those that it has begun and could not go on with, and left to the interpreter.
    given_up: u64,
    /// Requests answered within the client's send().
    local: u64,
}

/// The one whose clients are answered on the way, and the one whose clients are answered within their
/// send().
static SHARED: [Mutex<Option<Arc<Running>>>; 2] = [const { Mutex::new(None) }; 2];

fn stop_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: a function without preconditions. Behind the one of the cgroup, so before it.
        unsafe { libc::atexit(stop_shared) };
    });
}

/// When the process ends. A panic ends it with a signal.
extern "C" fn stop_shared() {
    // What is local to this thread is gone by now.
    let stopped = thread::spawn(|| {
        for shared in &SHARED {
            drop(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    });
    stopped.join().expect("a clean stop");
}

impl Running {
    fn start(local_clients: LocalClients) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("bpfdb.sock");
        let settings = Settings {
            bind: Ipv4Addr::LOCALHOST.into(),
            unix_socket: Some(socket.clone()),
            local_clients,
            ..Settings::default()
        };
        let server = TestServer::start_as_told(&bpfdb::Options::default(), settings);
        let mut client = server.client();
        let mut of_daemon = Client::connect_unix(&socket);
        for (library, _) in LIBRARIES {
            load(&mut client, library);
        }
        // Each is compiled once more for the daemon, when that has met some calls.
        for (_, function) in LIBRARIES {
            wait_until("the daemon has the kernel run it", || {
                let reply = ask(&mut of_daemon, &["FCALL", function, "1", "warm"]);
                assert!(!reply.is_error(), "{reply}");
                daemon_calls(&mut client, function) > 0
            });
        }
        Self {
            server,
            socket,
            _folder: folder,
        }
    }
}

impl Served {
    /// The server that all tests of these suites share.
    pub(crate) fn shared(path: Path) -> Self {
        let local = path == Path::Send;
        let mut shared = SHARED[usize::from(local)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let running = shared.get_or_insert_with(|| {
            let running = Running::start(match local {
                true => LocalClients::In(cgroup::own()),
                false => LocalClients::Off,
            });
            stop_at_exit();
            Arc::new(running)
        });
        Self {
            running: Arc::clone(running),
            path,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.running.server.engine
    }

    /// A client that is answered on its way from its next request on.
    pub(crate) fn client(&self) -> Client {
        match self.path {
            Path::Daemon => self.daemon_client(),
            Path::Tcp => self.running.server.client(),
            Path::Send if !kernel_answers() => self.running.server.client(),
            Path::Send => {
                let mut client = self.running.server.client();
                wait_until("requests are answered in send()", || {
                    let before = self.requests_local();
                    assert_eq!(client.say("PING"), "+PONG\r\n");
                    self.requests_local() > before
                });
                client
            }
        }
    }

    pub(crate) fn daemon_client(&self) -> Client {
        Client::connect_unix(&self.running.socket)
    }

    fn requests_local(&self) -> u64 {
        let counters = self.engine().counters().expect("figures");
        counters.redis().net.requests_local
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut client = self.running.server.client();
        let mut figures = Figures {
            local: self.requests_local(),
            ..Figures::default()
        };
        for function in ask(&mut client, &["PROCEDURES"]).items {
            let number = |name: &str| function.field(name).and_then(Reply::number);
            let [all, by_daemon] = ["calls", "calls_by_daemon"]
                .map(|name| number(name).expect("a number").unsigned_abs());
            figures.calls += all - by_daemon;
            figures.by_daemon += by_daemon;
            figures.given_up += given_up(&function);
        }
        figures
    }

    /// Of so many calls since then the kernel has run its part on this path, and it has given
    /// some of them up.
    pub(crate) fn check_path(&self, before: &Figures, calls: u64) {
        let now = self.figures();
        // Counters go with a program.
        let answered = match self.path {
            _ if !kernel_answers() => now.by_daemon.saturating_sub(before.by_daemon),
            Path::Daemon => now.by_daemon.saturating_sub(before.by_daemon),
            Path::Tcp | Path::Send => now.calls.saturating_sub(before.calls),
        };
        let given_up = now.given_up.saturating_sub(before.given_up);
        let local = now.local - before.local;
        println!(
            "{calls} calls: the kernel ran {answered}, gave up {given_up}; {local} requests in send()"
        );
        let percent = match kernel_answers() {
            true => IN_KERNEL_PERCENT,
            false => IN_KERNEL_PERCENT_SYNC,
        };
        assert!(
            answered * 100 >= calls * percent,
            "{calls} calls: {before:?}, then {now:?}"
        );
        assert!(given_up > 0, "{before:?}, then {now:?}");
        assert_eq!(
            local > 0,
            self.path == Path::Send && kernel_answers(),
            "{before:?}, then {now:?}"
        );
    }

    /// Some calls were run for the daemon, besides.
    pub(crate) fn check_daemon(&self, before: &Figures) {
        let now = self.figures();
        assert!(now.by_daemon > before.by_daemon, "{before:?}, then {now:?}");
    }

    /// All that is done has ended.
    pub(crate) fn check_nothing_held(&self) {
        wait_until("no lock and no transaction is left", || {
            let stats = self.engine().stats().expect("figures");
            (stats.locks, stats.transactions) == (0, 0)
        });
    }
}

/// For reasons that lie in the call: conflicts are not among them.
fn given_up(function: &Reply) -> u64 {
    let reasons = function.field("deoptimisations").expect("a field");
    let numbers = reasons.items.iter().skip(1).step_by(2);
    let sum: i64 = numbers.filter_map(Reply::number).sum();
    sum.unsigned_abs()
}
