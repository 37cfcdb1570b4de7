//! A server that is started on a full disk: it has its data, and is read-only until there is space.

use crate::common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use common::{Connection, Served, alone, small_disk, wait_until};
use nix::mount::MsFlags;

/// What another program has filled the disk with.
const FILLER: &str = "filler";

/// Takes what space there is, that of spares too.
fn fill(data: &Path) {
    for file in fs::read_dir(data.join("log")).expect("a folder") {
        let path = file.expect("a file").path();
        if path.to_string_lossy().contains("spare") {
            fs::remove_file(path).expect("removed");
        }
    }
    let mut filler = File::create(data.join(FILLER)).expect("made");
    let block = [0; 1 << 16];
    while filler.write_all(&block).is_ok() {}
}

fn free(data: &Path) {
    fs::remove_file(data.join(FILLER)).expect("removed");
}

fn state(server: &Served) -> String {
    server.field("persistence", "log_state")
}

/// Reads go on; nothing that writes does, in kernel or daemon.
fn is_read_only(server: &Served) {
    assert_eq!(state(server), "full");
    let mut connection = Connection::open(server.port);
    for write in [
        &["SET", "new", "1"][..],
        &["DEL", "key"],
        &["INCRBYFLOAT", "number", "1"],
        &["MSET", "new", "1", "key", "2"],
    ] {
        let told = connection.ask(write);
        assert!(told.starts_with("-MISCONF no space"), "{write:?}: {told}");
    }
    assert_eq!(connection.ask(&["GET", "key"]), "value");
    assert_eq!(connection.ask(&["EXISTS", "new"]), ":0");
}

/// All that there is, is on the disk: so synchronous clients get their replies.
fn answers_synchronous_clients(server: &Served) {
    let mut connection = Connection::open(server.port);
    for (command, reply) in [
        (&["CLIENT", "DURABILITY", "SYNC"][..], "+OK"),
        (&["GET", "key"], "value"),
        (&["DBSIZE"], ":1"),
        (&["RANDOMKEY"], "key"),
        (&["KEYS", "nothing*"], "*0"),
        (&["BEGIN"], "+OK"),
        (&["GET", "key"], "value"),
        (&["COMMIT"], "+OK"),
    ] {
        assert_eq!(connection.ask(command), reply, "{command:?}");
    }
    let refused = connection.ask(&["SAVE"]);
    assert!(refused.contains("no space"), "{refused}");
}

#[test]
fn a_server_starts_on_a_full_disk() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("made");
    small_disk(&data, 300, MsFlags::empty());
    let server = Served::start_in(&data, 0, &[]);
    let port = server.port;
    assert_eq!(server.ask(&["SET", "key", "value"]), "+OK");
    server.stop();
    fill(&data);

    let server = Served::start_in(&data, port, &[]);
    is_read_only(&server);
    answers_synchronous_clients(&server);
    // Nothing is in the kernel that the disk has not.
    server.stop();
    let server = Served::start_in(&data, port, &["--keep-data"]);
    is_read_only(&server);
    answers_synchronous_clients(&server);
    server.stop();
    let mut server = Served::start_in(&data, port, &[]);
    is_read_only(&server);
    answers_synchronous_clients(&server);
    server.kill();
    let server = Served::start_in(&data, port, &[]);
    is_read_only(&server);
    answers_synchronous_clients(&server);

    free(&data);
    wait_until("it heals", || server.ask(&["SET", "new", "1"]) == "+OK");
    assert_eq!(state(&server), "writing");
    assert_eq!(server.ask(&["DEL", "key"]), ":1");
    server.stop();
    let server = Served::start_in(&data, port, &[]);
    assert_eq!(server.ask(&["GET", "new"]), "1");
    assert_eq!(server.ask(&["EXISTS", "key"]), ":0");
    server.stop();
}

/// The server was killed when the disk was full already, and only the kernel has the last writes.
#[test]
fn a_server_goes_on_with_what_the_kernel_has_on_a_full_disk() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("made");
    small_disk(&data, 140, MsFlags::empty());
    let mut server = Served::start_in(&data, 0, &["--maxmemory", "512M"]);
    let port = server.port;
    let mut connection = Connection::open(port);
    assert_eq!(connection.ask(&["SET", "key", "value"]), "+OK");
    let value = "v".repeat(30_000);
    let written = (0_u64..)
        .find(|n| {
            let key = format!("k{}", n % 100);
            connection.ask(&["SET", &key, &format!("{n}{value}")]) != "+OK"
        })
        .expect("the disk is full at some time");
    server.kill();
    fill(&data);

    for _ in 0..2 {
        let mut server = Served::start_in(&data, port, &["--maxmemory", "512M"]);
        is_read_only(&server);
        has(&server, written, &value);
        server.kill();
    }
    let server = Served::start_in(&data, port, &["--maxmemory", "512M"]);
    small_disk(&data, 500, MsFlags::MS_REMOUNT);
    wait_until("it heals", || server.ask(&["SET", "new", "1"]) == "+OK");
    server.stop();
    let server = Served::start_in(&data, port, &["--maxmemory", "512M"]);
    has(&server, written, &value);
    assert_eq!(server.ask(&["GET", "new"]), "1");
    server.stop();
}

/// Everything that was acknowledged.
fn has(server: &Served, written: u64, value: &str) {
    let mut connection = Connection::open(server.port);
    for n in written - 100..written {
        let found = connection.ask(&["GET", &format!("k{}", n % 100)]);
        assert!(found == format!("{n}{value}"), "{n} of {written}");
    }
}
