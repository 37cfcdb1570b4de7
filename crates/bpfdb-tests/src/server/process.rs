//! A server in a process of its own, whose memory can be measured.
//!
//! The process is the test program itself, started with one test only. So a file
//! that uses this has such a test:
//!
//! ```ignore
//! #[test]
//! #[ignore = "the process of the server"]
//! fn server_process() {
//!     common::process::serve();
//! }
//! ```

use crate::process::this_program;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_server::Server;
use bpfdb_server::settings::{LocalClients, Settings};

use super::{Client, cgroup};

const SESSIONS: &str = "BPFDB_TEST_SESSIONS";
/// The cgroup of clients that are answered in their own send(), if any are.
const LOCAL: &str = "BPFDB_TEST_LOCAL_CGROUP";

pub struct ServerProcess {
    pub address: SocketAddr,
    child: Child,
}

impl ServerProcess {
    pub fn start(max_sessions: u32) -> Self {
        cgroup::own();
        let local = match cgroup::chosen() {
            LocalClients::In(path) => Some((LOCAL, path)),
            _ => None,
        };
        let mut command = Command::new(this_program());
        cgroup::keep(&mut command);
        let mut child = command
            .args(["--ignored", "--exact", "server_process", "--nocapture"])
            .env(SESSIONS, max_sessions.to_string())
            .envs(local)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"))
            .lines()
            .map_while(Result::ok);
        let address = lines
            .find_map(|line| line.split("listens at ").nth(1)?.parse().ok())
            .expect("it listens");
        // What else it says has somewhere to go.
        thread::spawn(move || lines.for_each(drop));
        Self { address, child }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of memory that the process has in use.
    pub fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        kilobytes(&status, "VmRSS:") << 10
    }
}

impl ServerProcess {
    /// Time that its threads have run.
    pub fn processor_time(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(path).expect("it runs");
        // Behind the name, which may hold anything: fields 14 and 15 are ticks
        // in user mode and in the kernel.
        let fields = stat.rsplit(')').next().expect("a name");
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks
            .map(|ticks| ticks.parse::<u64>().expect("ticks"))
            .sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The end of its input stops it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Bytes of memory that the kernel has in use for itself: slabs, and what
/// sockets hold.
pub fn kernel_memory() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let sockets = std::fs::read_to_string("/proc/net/sockstat").expect("sockstat");
    let pages: u64 = sockets
        .lines()
        .find_map(|line| {
            line.strip_prefix("TCP:")?
                .split("mem ")
                .nth(1)?
                .parse()
                .ok()
        })
        .expect("memory of TCP");
    (kilobytes(&memory, "SUnreclaim:") << 10) + pages * 4096
}

fn kilobytes(table: &str, name: &str) -> u64 {
    table
        .lines()
        .find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or_else(|| panic!("no {name}"))
}

/// What the process does; nothing if it is not such a process.
pub fn serve() {
    let Ok(sessions) = std::env::var(SESSIONS) else {
        return;
    };
    let max_sessions = sessions.parse().expect("a number");
    let engine = Engine::create(&bpfdb::Options {
        max_sessions,
        ..bpfdb::Options::default()
    })
    .expect("an engine");
    let local = std::env::var_os(LOCAL);
    let options = super::at_any_port(Settings {
        max_clients: max_sessions,
        local_clients: local.map_or(LocalClients::Off, |path| LocalClients::In(path.into())),
        ..Settings::default()
    });
    let server = Server::start(&engine, &options).expect("a server");
    let stopper = server.stopper();
    println!("listens at {}", server.address());
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.stop();
    });
    server.run().expect("a clean stop");
}
