//! Clients that are answered inside send(), and clients that are not.

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

#[test]
fn switched_off() {
    let server = TestServer::lent_as_told(
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
/// to another server, which must get the bytes.
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
