//! Who is answered inside send(), and who is not.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bpfdb_server::settings::{LocalClients, Settings};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};

use crate::local::{at_hand, local, local_client, server, settle, start};
use bpfdb_tests::server::{Client, TestServer, bulk, netns, request};

#[test]
fn the_reply_is_there_when_send_returns() {
    let server = server();
    let mut client = local_client(&server);
    let before = local(&server);
    for i in 0..100 {
        let value = format!("value {i}");
        client.send(&request(&[b"SET", b"here", value.as_bytes()]));
        assert_eq!(at_hand(&client.stream), b"+OK\r\n");
        client.send(&request(&[b"GET", b"here"]));
        assert_eq!(at_hand(&client.stream), bulk(value.as_bytes()));
    }
    assert_eq!(local(&server) - before, 200);
}

/// All of these commands are answered inside send(), and as expected.
fn answered(answers: &[(&str, &str)]) {
    let server = server();
    let mut client = local_client(&server);
    let before = local(&server);
    let number = |reply: &str| reply.trim()[1..].parse::<i64>().ok();
    for &(command, expected) in answers {
        let reply = client.say(command);
        match (command.starts_with("TTL"), number(expected)) {
            // The machine may stand still for a while.
            (true, Some(most @ 1..)) => {
                let left = number(&reply).expect(command);
                assert!((most - 600..=most).contains(&left), "{command}: {left}");
            }
            _ => assert_eq!(reply, expected, "{command}"),
        }
    }
    assert_eq!(local(&server) - before, answers.len() as u64);
}

#[test]
fn commands_of_the_kernel() {
    answered(&[
        ("MSET a 1 b 2", "+OK\r\n"),
        ("MGET a b none", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n"),
        ("INCRBY a 41", ":42\r\n"),
        ("APPEND b 3", ":2\r\n"),
        ("STRLEN b", ":2\r\n"),
        ("EXISTS a b none", ":2\r\n"),
        ("DEL a none", ":1\r\n"),
        ("ECHO hello", "$5\r\nhello\r\n"),
        ("BEGIN", "+OK\r\n"),
        ("SET c 1", "+OK\r\n"),
        ("ROLLBACK", "+OK\r\n"),
        ("GET c", "$-1\r\n"),
        ("SET d 1 EX 1000 NX", "+OK\r\n"),
        ("SET d 2 PX 1000000 nx", "$-1\r\n"),
        ("SET d 3 XX KEEPTTL", "+OK\r\n"),
        ("TTL d", ":1000\r\n"),
        ("SET none 3 XX", "$-1\r\n"),
        ("SETNX d 4", ":0\r\n"),
        ("SETNX e 5", ":1\r\n"),
        ("TTL e", ":-1\r\n"),
        ("PTTL none", ":-2\r\n"),
        ("EXPIRE e 5000", ":1\r\n"),
        ("TTL e", ":5000\r\n"),
        ("PEXPIRE none 50", ":0\r\n"),
        ("SETEX e 7000 0123456789abcdefg", "+OK\r\n"),
        ("PEXPIRE e 3000000", ":1\r\n"),
        ("TTL e", ":3000\r\n"),
        ("GET e", "$17\r\n0123456789abcdefg\r\n"),
        ("PSETEX d 9000000 x", "+OK\r\n"),
        ("SET d y PXAT 4102444800000", "+OK\r\n"),
        ("SET d z KEEPTTL", "+OK\r\n"),
        ("MGET d e", "*2\r\n$1\r\nz\r\n$17\r\n0123456789abcdefg\r\n"),
        // Long over: it is gone at once.
        ("SET d z EXAT 1", "+OK\r\n"),
        ("GET d", "$-1\r\n"),
    ]);
}

#[test]
fn what_was_there_before() {
    answered(&[
        ("GETSET a 1", "$-1\r\n"),
        ("GETSET a 0123456789abcdefg", "$1\r\n1\r\n"),
        (
            "GETSET a 0123456789abcdefgh",
            "$17\r\n0123456789abcdefg\r\n",
        ),
        ("SET a 2 GET", "$18\r\n0123456789abcdefgh\r\n"),
        ("SET a 3 NX get", "$1\r\n2\r\n"),
        ("SET a 4 GET XX EX 1000", "$1\r\n2\r\n"),
        ("TTL a", ":1000\r\n"),
        ("SET a 5 KEEPTTL GET", "$1\r\n4\r\n"),
        ("TTL a", ":1000\r\n"),
        ("SET none 5 GET XX", "$-1\r\n"),
        ("GETEX a", "$1\r\n5\r\n"),
        ("TTL a", ":1000\r\n"),
        ("GETEX a PERSIST", "$1\r\n5\r\n"),
        ("TTL a", ":-1\r\n"),
        ("GETEX a EX 2000", "$1\r\n5\r\n"),
        ("TTL a", ":2000\r\n"),
        ("GETSET a 6", "$1\r\n5\r\n"),
        ("TTL a", ":-1\r\n"),
        ("GETEX none PX 5", "$-1\r\n"),
        ("BEGIN", "+OK\r\n"),
        ("GETDEL a", "$1\r\n6\r\n"),
        ("GETDEL a", "$-1\r\n"),
        ("ROLLBACK", "+OK\r\n"),
        ("GETDEL a", "$1\r\n6\r\n"),
        ("GETDEL a", "$-1\r\n"),
        ("SET a 7", "+OK\r\n"),
        // Long over: it is gone at once.
        ("GETEX a PXAT 1", "$1\r\n7\r\n"),
        ("EXISTS a", ":0\r\n"),
    ]);
}

#[test]
fn parts() {
    answered(&[
        ("GETRANGE a 0 -1", "$0\r\n\r\n"),
        ("SETRANGE a 2 bc", ":4\r\n"),
        ("GETRANGE a 2 5", "$2\r\nbc\r\n"),
        ("SUBSTR a -1 -1", "$1\r\nc\r\n"),
        ("GETBIT a 18", ":1\r\n"),
        ("SETBIT a 18 0", ":1\r\n"),
        ("BITCOUNT a", ":6\r\n"),
        ("BITCOUNT a 3 3", ":4\r\n"),
        ("BITCOUNT none", ":0\r\n"),
        ("BEGIN", "+OK\r\n"),
        ("SETRANGE a 20 end", ":23\r\n"),
        ("SETBIT a 0 1", ":0\r\n"),
        ("GETRANGE a 19 -1", "$4\r\n\0end\r\n"),
        ("ROLLBACK", "+OK\r\n"),
        ("GET a", "$4\r\n\0\0Bc\r\n"),
    ]);
}

#[test]
fn what_is_said_of_keys() {
    answered(&[
        ("TYPE a", "+none\r\n"),
        ("MSET a 1 b 22 c 0123456789abcdefg", "+OK\r\n"),
        ("TYPE a", "+string\r\n"),
        ("TOUCH a b a none", ":3\r\n"),
        ("UNLINK b none", ":1\r\n"),
        ("EXPIRETIME b", ":-2\r\n"),
        ("PEXPIRETIME a", ":-1\r\n"),
        ("EXPIREAT a 4102444800", ":1\r\n"),
        ("ExpireTime a", ":4102444800\r\n"),
        ("PEXPIREAT c 4102444800499", ":1\r\n"),
        ("EXPIRETIME c", ":4102444800\r\n"),
        ("PEXPIREAT c 4102444800500", ":1\r\n"),
        ("EXPIRETIME c", ":4102444801\r\n"),
        ("PEXPIRETIME c", ":4102444800500\r\n"),
        ("PEXPIREAT none 4102444800500", ":0\r\n"),
        ("PERSIST none", ":0\r\n"),
        ("PERSIST c", ":1\r\n"),
        ("PERSIST c", ":0\r\n"),
        ("TTL c", ":-1\r\n"),
        ("GET c", "$17\r\n0123456789abcdefg\r\n"),
        ("BEGIN", "+OK\r\n"),
        ("PERSIST a", ":1\r\n"),
        ("PERSIST a", ":0\r\n"),
        ("TTL a", ":-1\r\n"),
        ("ROLLBACK", "+OK\r\n"),
        ("EXPIRETIME a", ":4102444800\r\n"),
        // Long over: it is gone at once.
        ("EXPIREAT a 1", ":1\r\n"),
        ("TYPE a", "+none\r\n"),
    ]);
}

#[test]
fn switched_off() {
    let server = TestServer::start_as_told(
        &bpfdb::Options::default(),
        Settings {
            local_clients: LocalClients::Off,
            ..Settings::default()
        },
    );
    let mut client = server.client();
    for _ in 0..20 {
        assert_eq!(client.say("PING"), "+PONG\r\n");
    }
    assert_eq!(local(&server), 0);
}

/// IPv4, IPv6, and IPv4 to a listener of IPv6, from another network namespace.
#[test]
fn from_another_network_namespace() {
    netns::isolated(|| {
        let server = Arc::new(start(
            &bpfdb::Options::default(),
            Ipv6Addr::UNSPECIFIED.into(),
        ));
        let port = server.address.port();
        let there = Arc::clone(&server);
        netns::connected(move || {
            for address in ["10.77.0.1", "fd77::1", "::ffff:10.77.0.1"] {
                let ip: IpAddr = address.parse().expect("an address");
                let mut client = Client::connect((ip, port).into());
                settle(&there, &mut client);
                let before = local(&there);
                assert_eq!(client.say("SET where there"), "+OK\r\n");
                assert_eq!(client.say("SELECT 0"), "+OK\r\n");
                assert_eq!(client.say("GET where"), "$5\r\nthere\r\n");
                assert!(local(&there) > before, "{address}");
            }
        });
    });
}

fn bound_client(from: SocketAddr, to: SocketAddr) -> Client {
    let none = SockFlag::SOCK_CLOEXEC;
    let fd = nix::sys::socket::socket(AddressFamily::Inet, SockType::Stream, none, None)
        .expect("a socket");
    setsockopt(&fd, sockopt::ReuseAddr, &true).expect("set up");
    nix::sys::socket::bind(fd.as_raw_fd(), &SockaddrStorage::from(from)).expect("bound");
    nix::sys::socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(to)).expect("connected");
    Client::from_stream(fd.into())
}

/// The same four numbers, in two network namespaces: one of the connections is
/// to somebody else's server, who must get the bytes.
#[test]
fn somebody_elses_server_with_the_same_addresses() {
    let server = server();
    let mut ours = local_client(&server);
    ours.say("SET whose ours");
    let from = ours.stream.local_addr().expect("connected");
    let to = server.address;

    netns::isolated(move || {
        let listener = TcpListener::bind(to).expect("the same port");
        let mut theirs = bound_client(from, to);
        let (mut end, _) = listener.accept().expect("connected");
        for _ in 0..40 {
            let bytes = request(&[b"GET", b"whose"]);
            theirs.send(&bytes);
            let mut got = vec![0; bytes.len()];
            end.read_exact(&mut got).expect("the bytes arrive");
            assert_eq!(got, bytes);
            end.write_all(b"$6\r\ntheirs\r\n").expect("sent");
            assert_eq!(theirs.reply(), b"$6\r\ntheirs\r\n");
        }
    });
    let before = local(&server);
    assert_eq!(ours.say("GET whose"), "$4\r\nours\r\n");
    assert_eq!(local(&server) - before, 1);
}
