//! The Unix-domain socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bpfdb_server::settings::Settings;
use bpfdb_tests::namespace;

use crate::operation::{ask, info, start};
use bpfdb_tests::server::{PATIENCE, request, show, wait_until};

/// What a Client reads and writes is a TcpStream; this one is not.
fn talk(stream: &mut UnixStream, bytes: &[u8], until: usize) -> Vec<u8> {
    stream.write_all(bytes).expect("sent");
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    while got.len() < until {
        let len = stream.read(&mut chunk).expect("a reply");
        assert!(len > 0, "closed after {}", show(&got));
        got.extend_from_slice(&chunk[..len]);
    }
    got
}

#[test]
fn a_unix_socket_has_the_same_data() {
    let path = namespace::files().folder.join("bpfdb.sock");
    let server = start(Settings {
        unix_socket: Some(path.clone()),
        ..Settings::default()
    });
    let mut tcp = server.client();
    assert_eq!(tcp.say("SET a tcp"), "+OK\r\n");
    let mut unix = UnixStream::connect(&path).expect("a connection");
    unix.set_read_timeout(Some(PATIENCE)).expect("set");
    assert_eq!(
        talk(&mut unix, &request(&[b"get", b"a"]), 9),
        b"$3\r\ntcp\r\n"
    );
    // A transaction of its own, that conflicts with others.
    talk(&mut unix, &request(&[b"begin"]), 5);
    talk(&mut unix, &request(&[b"set", b"a", b"unix"]), 5);
    let said = tcp.say("SET a 2");
    assert!(
        said.starts_with("-CONFLICT") && said.contains("; held by client "),
        "{said}"
    );
    assert_eq!(tcp.say("GET a"), "$3\r\ntcp\r\n");
    talk(&mut unix, &request(&[b"commit"]), 5);
    assert_eq!(tcp.say("GET a"), "$4\r\nunix\r\n");

    let pipeline = request(&[b"incr", b"n"]).repeat(10_000);
    let mut writer = unix.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || writer.write_all(&pipeline));
    let expected: String = (1..=10_000).map(|n| format!(":{n}\r\n")).collect();
    let got = talk(&mut unix, b"", expected.len());
    assert!(got == expected.as_bytes());
    sender.join().expect("no panic").expect("sent");

    let list = ask(&mut tcp, "CLIENT LIST");
    assert!(
        list.contains(&format!("addr={}:0 ", path.display())),
        "{list}"
    );
    assert!(list.contains("flags=U "), "{list}");

    // What is sent is executed, although the reply is not waited for.
    let mut hasty = UnixStream::connect(&path).expect("a connection");
    hasty
        .write_all(&request(&[b"set", b"hasty", b"1"]))
        .expect("sent");
    drop(hasty);
    wait_until("it is executed", || tcp.say("GET hasty") == "$1\r\n1\r\n");

    // The same if it takes longer than a turn.
    let mut hasty = UnixStream::connect(&path).expect("a connection");
    let mut requests = request(&[b"client", b"reply", b"off"]);
    requests.extend(request(&[b"incrbyfloat", b"many", b"1"]).repeat(3000));
    hasty.write_all(&requests).expect("sent");
    drop(hasty);
    wait_until("all are executed", || {
        tcp.say("GET many") == "$4\r\n3000\r\n"
    });

    // What it leaves open is rolled back.
    talk(&mut unix, &request(&[b"begin"]), 5);
    talk(&mut unix, &request(&[b"set", b"a", b"lost"]), 5);
    drop(unix);
    wait_until("the lock is gone", || tcp.say("SET a 3") == "+OK\r\n");
    wait_until("nobody is left", || {
        info(&mut tcp, "clients", "unix_clients") == "0"
    });
    let engine = server.engine.clone();
    drop(tcp);
    server.stop();
    assert!(!path.exists());
    assert_eq!(engine.stats().expect("figures").sessions, 0);
}
