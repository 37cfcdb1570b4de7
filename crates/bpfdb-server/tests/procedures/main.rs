//! Scripts and functions that the kernel runs mean what Lua says, and what Redis answers.
//!
//! ```text
//! programs/     random programs with commands
//! same.rs       each of them beside Redis: replies, data, times
//! fixed.rs      programs that were thought of, and calls of all forms
//! replaced.rs   libraries that change under load
//! inside.rs     some of them called from inside a process, beside FCALL
//! daemon.rs     calls that the daemon has the kernel run, for clients that it keeps
//! given_up.rs   calls that the kernel gives up leave nothing
//! ```

#[path = "../common/mod.rs"]
mod common;

mod daemon;
mod fixed;
mod given_up;
mod inside;
mod programs;
mod replaced;
mod same;

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use bpfdb_server::settings::Settings;
use bpfdb_tests::namespace;
use common::{Client, PATIENCE, Reply, TestServer, wait_until};

fn ask(client: &mut Client, words: &[&str]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    parsed(&client.ask(&words))
}

fn parsed(bytes: &[u8]) -> Reply {
    Reply::parse(bytes).expect("a whole reply").0
}

/// A server of its own: functions are those of all clients.
fn server() -> TestServer {
    TestServer::start(&bpfdb::Options::default())
}

/// One that has a Unix-domain socket, too: whose clients the kernel does not see.
struct WithSocket {
    server: TestServer,
    path: PathBuf,
}

impl WithSocket {
    fn start() -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let path = namespace::files().folder.join(format!("{number}.sock"));
        let settings = Settings {
            unix_socket: Some(path.clone()),
            ..Settings::default()
        };
        Self {
            server: TestServer::start_with(&bpfdb::Options::default(), settings),
            path,
        }
    }

    /// A client of the daemon.
    fn unix_client(&self) -> Client {
        let stream = UnixStream::connect(&self.path).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        // To read and to write, one is as good as the other.
        Client::from_stream(TcpStream::from(OwnedFd::from(stream)))
    }
}

/// Loads a library and waits until its functions run where they will.
fn load(client: &mut Client, text: &str) {
    let reply = ask(client, &["FUNCTION", "LOAD", "REPLACE", text]);
    assert!(!reply.is_error(), "{reply} for {text}");
    settle(client);
}

/// Waits until what can be is published, and what was replaced is forgotten.
fn settle(client: &mut Client) {
    let libraries = ask(client, &["FUNCTION", "LIST"]);
    let registered: usize = libraries
        .items
        .iter()
        .map(|library| library.field("functions").map_or(0, |all| all.items.len()))
        .sum();
    wait_until("functions are compiled", || {
        let shown = ask(client, &["PROCEDURES"]);
        let functions = shown.items.iter().filter(|one| is(one, "kind", "function"));
        let all: Vec<_> = functions.collect();
        all.len() == registered && all.into_iter().all(is_settled)
    });
}

/// In the kernel, or it never will be.
fn is_settled(one: &Reply) -> bool {
    let reasons = one.field("reasons").map_or(0, |all| all.items.len());
    is(one, "path", "kernel") || reasons > 0
}

fn is(one: &Reply, field: &str, value: &str) -> bool {
    one.field(field)
        .is_some_and(|found| found.text == value.as_bytes())
}

/// Does something again until the kernel has answered so many calls of it: a request that comes
/// before the daemon has given the connection back is the daemon's.
fn until_in_kernel(client: &mut Client, name: &str, calls: i64, mut work: impl FnMut(&mut Client)) {
    const TRIES: usize = 200;
    for _ in 0..TRIES {
        let before = kernel_calls(client, name);
        back_to_kernel(client);
        work(client);
        if kernel_calls(client, name) - before >= calls {
            return;
        }
    }
    panic!("{name}: {}", shown(client, name));
}

/// As a rule.
fn back_to_kernel(client: &mut Client) {
    client.say("GET nothing");
    std::thread::sleep(std::time::Duration::from_millis(2));
}

/// What PROCEDURES says of this one.
fn shown(client: &mut Client, name: &str) -> Reply {
    let all = ask(client, &["PROCEDURES"]);
    let found = all.items.iter().find(|one| is(one, "name", name));
    found
        .unwrap_or_else(|| panic!("no {name} in {all}"))
        .clone()
}

/// Calls of it that the kernel has answered.
fn kernel_calls(client: &mut Client, name: &str) -> i64 {
    let calls = shown(client, name).field("calls").and_then(Reply::number);
    calls.expect("a number")
}

/// Those of them that the daemon had the kernel run.
fn daemon_calls(client: &mut Client, name: &str) -> i64 {
    let shown = shown(client, name);
    let calls = shown.field("calls_by_daemon").and_then(Reply::number);
    calls.expect("a number")
}

/// The same of all.
fn all_kernel_calls(client: &mut Client) -> i64 {
    let all = ask(client, &["PROCEDURES"]);
    let calls = |one: &Reply| one.field("calls").and_then(Reply::number).unwrap_or(0);
    all.items.iter().map(calls).sum()
}
