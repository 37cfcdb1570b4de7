//! What ends a connection while its replies are held back.

use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use bpfdb_tests::namespace;

use super::common::lent::logged;
use super::common::{Client, wait_until};
use super::{is_told_nothing, send, settle, start_with, sync};

#[test]
fn who_has_said_all_is_told_all() {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    settle(&disk, &mut writer);
    send(&mut own, &["SET a 1", "INCR n", "GET a", "GET none"]);
    own.stream.shutdown(Shutdown::Write).expect("ended");
    is_told_nothing(&mut own, "before the flush");
    disk.hold(false);
    for reply in ["+OK\r\n", ":1\r\n", "$1\r\n1\r\n", "$-1\r\n"] {
        assert_eq!(own.reply(), reply.as_bytes());
    }
    assert!(own.is_closed());
}

#[test]
fn who_quits_is_told_all_before() {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    settle(&disk, &mut writer);
    send(&mut own, &["SET a 1", "QUIT"]);
    is_told_nothing(&mut own, "before the flush");
    disk.hold(false);
    assert_eq!(own.until_closed(), b"+OK\r\n+OK\r\n");
}

#[test]
fn who_is_killed_is_told_nothing() {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    let id = own.say("CLIENT ID");
    let id = id[1..].trim_end().to_owned();
    settle(&disk, &mut writer);
    send(&mut own, &["SET a 1"]);
    is_told_nothing(&mut own, "before the flush");
    assert_eq!(writer.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(own.until_closed(), b"");
    disk.hold(false);
    // Its place may be another one's by then.
    let mut next = sync(&server);
    assert_eq!(next.say("GET a"), "$1\r\n1\r\n");
}

/// A socket whose other end is gone is always ready, and has nothing to be read for as long as the
/// command waits.
#[test]
fn who_goes_while_a_command_waits_for_the_disk_takes_no_time() {
    let path = namespace::files().folder.join("waits.sock");
    let disk = SimulatedDisk::new(5);
    let settings = Settings {
        unix_socket: Some(path.clone()),
        ..Settings::default()
    };
    let server = start_with(&disk, settings);
    let (mut writer, mut own) = (server.client(), Client::connect_unix(&path));
    settle(&disk, &mut writer);
    assert_eq!(writer.say("SET a 1"), "+OK\r\n");
    send(&mut own, &["WAITAOF 1 0 0"]);
    wait_until("it waits", || {
        writer.say("CLIENT LIST").contains("cmd=waitaof")
    });
    drop(own);
    let before = time_of(&mut writer);
    thread::sleep(Duration::from_secs(1));
    let spent = time_of(&mut writer) - before;
    assert!(spent < 0.2, "{spent} seconds in one");
    disk.hold(false);
    wait_until("it is gone", || {
        writer.say("INFO clients").contains("unix_clients:0")
    });
}

/// Seconds of a processor that the server's thread has taken.
fn time_of(client: &mut Client) -> f64 {
    let told = client.say("INFO cpu");
    let of = |who| told.lines().find_map(|line: &str| line.strip_prefix(who));
    ["used_cpu_sys_main_thread:", "used_cpu_user_main_thread:"]
        .iter()
        .map(|who| of(*who).expect("told").parse::<f64>().expect("a number"))
        .sum()
}

/// Longer than any limit below.
const LONG: Duration = Duration::from_secs(3);

#[test]
fn who_waits_for_the_disk_is_not_idle() {
    let (disk, server) = logged();
    assert_eq!(server.client().say("CONFIG SET timeout 1"), "+OK\r\n");
    let mut own = sync(&server);
    settle(&disk, &mut server.client());
    send(&mut own, &["SET a 1"]);
    thread::sleep(LONG);
    assert!(!own.is_closed_already());
    disk.hold(false);
    assert_eq!(own.reply(), b"+OK\r\n");
    wait_until("it is idle", || own.is_closed_already());
}

#[test]
fn who_waits_for_the_disk_is_no_slow_reader() {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    let set = writer.ask(&[
        b"CONFIG",
        b"SET",
        b"client-output-buffer-limit",
        b"normal 0 1kb 1",
    ]);
    assert_eq!(set, b"+OK\r\n");
    settle(&disk, &mut writer);
    let value = "v".repeat(20_000);
    assert_eq!(writer.say(&format!("SET a {value}")), "+OK\r\n");
    send(&mut own, &["GET a"]);
    thread::sleep(LONG);
    assert!(!own.is_closed_already());
    disk.hold(false);
    assert_eq!(own.reply().len(), value.len() + "$20000\r\n\r\n".len());
}
