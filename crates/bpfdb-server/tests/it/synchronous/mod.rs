//! What synchronous clients are replied while the disk does not answer: nothing that is not
//! durable, on whatever path, and nothing false at the end.

use bpfdb_tests::server as common;

mod commands;
mod ends;
mod failures;
mod modes;
mod paths;
mod scripts;

use std::ops::Deref;
use std::thread;
use std::time::Duration;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use common::{Client, TestServer, show, words};

/// Longer than a flush and the thread's interval between two of them, and shorter than what the
/// engine waits for a disk before it is read-only.
const WHILE: Duration = Duration::from_millis(200);

/// A server on a disk that answers again when this is dropped, also if that is a panic: else the
/// end of the log would wait for ever.
struct Logged {
    _release: Release,
    server: TestServer,
}

impl Deref for Logged {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

struct Release(SimulatedDisk);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

fn start(disk: &SimulatedDisk) -> Logged {
    start_with(disk, Settings::default())
}

fn start_with(disk: &SimulatedDisk, settings: Settings) -> Logged {
    Logged {
        _release: Release(disk.clone()),
        server: TestServer::start_logged(disk, settings),
    }
}

/// A synchronous client.
fn sync(server: &TestServer) -> Client {
    let mut client = server.client();
    assert_eq!(client.say("CLIENT DURABILITY SYNC"), "+OK\r\n");
    client
}

/// All that was written is on the disk, and from now on nothing gets there.
fn settle(disk: &SimulatedDisk, writer: &mut Client) {
    assert_eq!(writer.say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    disk.hold(true);
}

/// Commands in one message.
fn send(client: &mut Client, commands: &[&str]) {
    let bytes: Vec<u8> = commands.iter().copied().flat_map(words).collect();
    client.send(&bytes);
}

/// As text, what has come in the meantime.
fn told(client: &mut Client) -> Vec<String> {
    thread::sleep(WHILE);
    let replies = client.replies_at_hand();
    replies.iter().map(|reply| show(reply)).collect()
}

#[track_caller]
fn is_told_nothing(client: &mut Client, what: &str) {
    let told = told(client);
    assert!(told.is_empty(), "{what}: {told:?}");
}
