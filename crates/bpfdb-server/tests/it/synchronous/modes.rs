//! Clients that become synchronous, or cease to be.

use std::io::Read;
use std::thread;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::AppendFsync::Always;
use bpfdb_server::settings::Settings;
use bpfdb_tests::settings::is_emulated;

use super::common::lent::logged;
use super::common::{Client, TestServer, wait_until};
use super::{WHILE, is_told_nothing, send, settle, start_with, sync, told};

/// Sends commands in one message, of whose replies no more than so many may come before they
/// are durable.
#[track_caller]
fn waits(commands: &[&str], harmless: usize) {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    settle(&disk, &mut writer);
    send(&mut own, commands);
    thread::sleep(WHILE);
    let told = own.replies_at_hand();
    assert!(told.len() <= harmless, "{commands:?}: {told:?}");
    disk.hold(false);
    for _ in told.len()..commands.len() {
        assert!(!own.reply().starts_with(b"-"), "{commands:?}");
    }
}

#[test]
fn what_precedes_the_end_of_the_mode_in_a_pipeline_waits() {
    for end in [
        "CLIENT DURABILITY ASYNC",
        "CLIENT DURABILITY DEFAULT",
        "RESET",
    ] {
        waits(&["SET a 1", end], 0);
    }
}

#[test]
fn a_block_that_ends_the_mode_waits() {
    let end = "CLIENT DURABILITY ASYNC";
    waits(&["MULTI", "SET a 1", end, "EXEC"], 3);
}

/// What the commands before it and after it in the block expose is not kept.
#[test]
fn a_block_that_begins_the_mode_waits() {
    for choice in ["CONFIG SET appendfsync always", "CLIENT DURABILITY SYNC"] {
        let (disk, server) = logged();
        let (mut writer, mut own) = (server.client(), server.client());
        settle(&disk, &mut writer);
        for (command, reply) in [
            ("MULTI", "+OK\r\n"),
            ("SET a 1", "+QUEUED\r\n"),
            (choice, "+QUEUED\r\n"),
            ("SET b 1", "+QUEUED\r\n"),
        ] {
            assert_eq!(own.say(command), reply);
        }
        send(&mut own, &["EXEC"]);
        is_told_nothing(&mut own, choice);
        disk.hold(false);
        let done = "*3\r\n+OK\r\n+OK\r\n+OK\r\n";
        assert_eq!(own.reply(), done.as_bytes(), "{choice}");
    }
}

/// What user space has not replied yet when the choice is made. What the kernel has answered was told
/// before. So was what a slow machine had not done within the time that a connection has at once.
#[test]
fn what_precedes_the_beginning_of_the_mode_in_a_pipeline_waits() {
    let (disk, server) = logged();
    for choice in ["CONFIG SET appendfsync always", "CLIENT DURABILITY SYNC"] {
        precedes_the_beginning(&disk, &server, choice, "+OK\r\n");
        let mut admin = server.client();
        assert_eq!(admin.say("CONFIG SET appendfsync everysec"), "+OK\r\n");
    }
    let disk = SimulatedDisk::new(6);
    let settings = Settings {
        append_fsync: Always,
        ..Settings::default()
    };
    let server = start_with(&disk, settings);
    for (choice, chosen) in [
        ("CLIENT DURABILITY DEFAULT", "+OK\r\n"),
        ("RESET", "+RESET\r\n"),
    ] {
        precedes_the_beginning(&disk, &server, choice, chosen);
    }
}

/// Of clients that are asynchronous before they make this choice, whose reply is `chosen`.
fn precedes_the_beginning(disk: &SimulatedDisk, server: &TestServer, choice: &str, chosen: &str) {
    let (mut writer, mut own) = (server.client(), server.client());
    if own.say("CLIENT DURABILITY") == "$4\r\nsync\r\n" {
        for client in [&mut writer, &mut own] {
            assert_eq!(client.say("CLIENT DURABILITY ASYNC"), "+OK\r\n");
        }
    }
    writer.say("FLUSHALL");
    settle(disk, &mut writer);
    assert_eq!(writer.say("SET a 1"), "+OK\r\n");
    send(&mut own, &["COPY a b", "MSETNX c 1", choice]);
    let before = told(&mut own);
    let most = if is_emulated() { 2 } else { 0 };
    assert!(before.len() <= most, "{choice}: {before:?}");
    disk.hold(false);
    for reply in &[":1\r\n", ":1\r\n", chosen][before.len()..] {
        assert_eq!(own.reply(), reply.as_bytes(), "{choice}");
    }
}

#[test]
fn what_precedes_the_end_of_the_setting_in_a_pipeline_waits() {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), server.client());
    assert_eq!(own.say("CONFIG SET appendfsync always"), "+OK\r\n");
    settle(&disk, &mut writer);
    send(&mut own, &["SET a 1", "CONFIG SET appendfsync everysec"]);
    is_told_nothing(&mut own, "SET");
    disk.hold(false);
    assert_eq!(own.reply(), b"+OK\r\n");
    assert_eq!(own.reply(), b"+OK\r\n");
}

/// What comes later is not replied before what is held back, though the kernel could answer it.
#[test]
fn what_comes_after_the_end_of_the_mode_is_told_in_order() {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    settle(&disk, &mut writer);
    assert_eq!(writer.say("SET old value"), "+OK\r\n");
    send(&mut own, &["INCR n", "CLIENT DURABILITY ASYNC"]);
    for _ in 0..3 {
        thread::sleep(WHILE);
        send(&mut own, &["GET old", "INCR n", "ECHO said"]);
    }
    is_told_nothing(&mut own, "GET");
    disk.hold(false);
    assert_eq!(own.reply(), b":1\r\n");
    assert_eq!(own.reply(), b"+OK\r\n");
    for number in 2..5 {
        assert_eq!(own.reply(), b"$5\r\nvalue\r\n");
        assert_eq!(own.reply(), format!(":{number}\r\n").as_bytes());
        assert_eq!(own.reply(), b"$4\r\nsaid\r\n");
    }
    assert_eq!(own.say("INCR n"), ":5\r\n");
}

/// Bytes that have come, as many as there are for now.
fn read_some(client: &mut Client) -> usize {
    client.stream.set_read_timeout(Some(WHILE)).expect("set");
    let mut chunk = vec![0; 1 << 20];
    let mut all = 0;
    while let Ok(got @ 1..) = client.stream.read(&mut chunk) {
        all += got;
    }
    all
}

/// A reply that was begun before, to a client that reads slowly.
#[test]
fn what_is_left_of_a_reply_waits_when_the_setting_changes() {
    const LEN: usize = 48 << 20;
    let (disk, server) = logged();
    let (mut writer, mut slow) = (server.client(), server.client());
    assert_eq!(writer.say("CLIENT DURABILITY ASYNC"), "+OK\r\n");
    settle(&disk, &mut writer);
    let last = (LEN - 1).to_string();
    let set = writer.ask(&[b"SETRANGE", b"big", last.as_bytes(), b"x"]);
    assert_eq!(set, format!(":{LEN}\r\n").into_bytes());
    send(&mut slow, &["GETRANGE big 0 -1"]);
    wait_until("the reply is on its way", || {
        slow.stream.peek(&mut [0]).expect("a byte") == 1
    });
    thread::sleep(WHILE);
    assert_eq!(writer.say("CONFIG SET appendfsync always"), "+OK\r\n");
    let before = read_some(&mut slow);
    assert!(before < LEN, "{before} bytes were told");
    disk.hold(false);
    let whole = LEN + format!("${LEN}\r\n\r\n").len();
    let mut all = before;
    wait_until("all is told", || {
        all += read_some(&mut slow);
        all >= whole
    });
    assert_eq!(all, whole);
}
