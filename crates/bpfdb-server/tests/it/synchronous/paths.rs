//! The ways by which requests come: a Unix socket, and pipelines that are executed together.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use bpfdb_tests::namespace;

use super::common::lent::logged;
use super::common::{Client, PATIENCE, show};
use super::{WHILE, is_told_nothing, send, settle, start_with, sync, told};

/// A client by the server's Unix socket. A `Client` has a TcpStream, which is but a descriptor
/// where no option of TCP is asked for.
fn unix_client(path: &std::path::Path) -> Client {
    let stream = UnixStream::connect(path).expect("a connection");
    let stream = TcpStream::from(OwnedFd::from(stream));
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    Client::from_stream(stream)
}

#[test]
fn a_client_of_the_unix_socket_waits() {
    let path = namespace::files().folder.join("synchronous.sock");
    let disk = SimulatedDisk::new(1);
    let server = start_with(
        &disk,
        Settings {
            unix_socket: Some(path.clone()),
            ..Settings::default()
        },
    );
    let mut writer = server.client();
    assert_eq!(writer.say("MSET old 1 gone 1"), "+OK\r\n");
    let cases = [
        ("GET new", "$4\r\ntext\r\n"),
        ("GET gone", "$-1\r\n"),
        ("MGET old new", "*2\r\n$1\r\n1\r\n$4\r\ntext\r\n"),
        ("EXISTS gone", ":0\r\n"),
        ("DBSIZE", ":2\r\n"),
        (
            "EVAL_RO return(redis.call('get','new')) 0",
            "$4\r\ntext\r\n",
        ),
    ];
    let mut readers: Vec<Client> = (cases.iter().map(|_| unix_client(&path))).collect();
    let (mut own, mut hasty) = (unix_client(&path), unix_client(&path));
    for client in readers.iter_mut().chain([&mut own]) {
        assert_eq!(client.say("CLIENT DURABILITY SYNC"), "+OK\r\n");
    }
    settle(&disk, &mut writer);
    assert_eq!(writer.say("SET new text"), "+OK\r\n");
    assert_eq!(writer.say("DEL gone"), ":1\r\n");
    for (reader, (command, _)) in readers.iter_mut().zip(cases) {
        send(reader, &[command]);
    }
    thread::sleep(WHILE);
    for (reader, (command, _)) in readers.iter_mut().zip(cases) {
        let told = reader.replies_at_hand();
        assert!(told.is_empty(), "{command}: {}", show(&told[0]));
    }
    assert_eq!(
        hasty.say("GET new"),
        "$4\r\ntext\r\n",
        "an asynchronous one"
    );
    assert_eq!(own.say("GET old"), "$1\r\n1\r\n", "that is durable");
    send(&mut own, &["SET own 1"]);
    is_told_nothing(&mut own, "SET");
    disk.hold(false);
    for (reader, (command, reply)) in readers.iter_mut().zip(cases) {
        assert_eq!(show(&reader.reply()), show(reply.as_bytes()), "{command}");
    }
    assert_eq!(own.reply(), b"+OK\r\n");
}

/// Requests that are executed together, in one transaction each time; and of each pipeline what
/// must not be exposed. Replies before that may have been.
#[test]
fn pipelines_that_are_executed_together_wait() {
    let pipelines: &[(&[&str], &str)] = &[
        (&["GET old", "GET old", "GET new"], "text"),
        (&["GET new", "GET old"], "text"),
        (&["GET old", "GET gone"], "$-1"),
        (&["EXISTS old", "EXISTS gone"], ":0"),
        (&["STRLEN old", "STRLEN new", "MGET old new"], ":4"),
        (&["SET own 1", "SET other 1"], "OK"),
        (&["INCR n", "INCR n", "INCR n"], ":"),
        (&["APPEND own a", "SETRANGE own 1 b", "GETDEL own"], ":"),
        (&["SETNX new x", "SETNX new y"], ":0"),
        (&["INCR new", "INCR new"], "ERR"),
    ];
    let (disk, server) = logged();
    for (commands, secret) in pipelines {
        let (mut writer, mut own) = (server.client(), sync(&server));
        assert_eq!(writer.say("DEL new own other n"), ":0\r\n");
        assert_eq!(writer.say("MSET old 1 gone 1"), "+OK\r\n");
        settle(&disk, &mut writer);
        assert_eq!(writer.say("SET new text"), "+OK\r\n");
        assert_eq!(writer.say("DEL gone"), ":1\r\n");
        send(&mut own, commands);
        let early = told(&mut own);
        assert!(
            !early.iter().any(|reply| reply.contains(secret)),
            "{commands:?}: {early:?}"
        );
        disk.hold(false);
        let rest = (early.len()..commands.len()).map(|_| show(&own.reply()));
        let all: Vec<String> = early.iter().cloned().chain(rest).collect();
        assert!(all.concat().contains(secret), "{commands:?}: {all:?}");
        writer.say("DEL new own other n");
    }
}

/// More than a batch takes, of a client that does not wait for replies.
#[test]
fn nothing_of_a_long_pipeline_is_told_before_it_is_durable() {
    const COUNT: usize = 500;
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    settle(&disk, &mut writer);
    send(&mut own, &["INCR n"; COUNT]);
    is_told_nothing(&mut own, "INCR");
    disk.hold(false);
    for n in 1..=COUNT {
        assert_eq!(own.reply(), format!(":{n}\r\n").as_bytes());
    }
}
