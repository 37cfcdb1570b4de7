//! Clients on this machine: answered inside their own send(), or by TCP when
//! that is not possible, and a client sees no difference.
#![allow(unreachable_pub, reason = "the modules of one test")]

mod both_ways;
mod chosen;
use bpfdb_tests::server as common;
mod end;
mod parts;
mod splice;
mod transfer;
mod ways;
mod window;

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::fd::AsRawFd;

use bpfdb_server::settings::{LocalClients, Settings};
use common::{Client, Lent, TestServer, cgroup, wait_until};

/// Longer than what the kernel echoes: answered by the daemon.
const SLOW: usize = 600;

fn settings(bind: IpAddr) -> Settings {
    Settings {
        bind,
        local_clients: LocalClients::In(cgroup::own()),
        ..Settings::default()
    }
}

fn server() -> Lent {
    let settings = settings(Ipv4Addr::LOCALHOST.into());
    TestServer::lent_as_told(&bpfdb::Options::default(), settings)
}

fn start(options: &bpfdb::Options, bind: IpAddr) -> TestServer {
    TestServer::start_as_told(options, settings(bind))
}

/// Requests answered inside a send() so far.
fn local(server: &TestServer) -> u64 {
    server
        .engine
        .stats()
        .expect("figures")
        .counters
        .redis()
        .net
        .requests_local
}

/// A client that is answered locally from its next request on: its first ones
/// may come before the server's end of the connection is established.
fn local_client(server: &TestServer) -> Client {
    let mut client = server.client();
    settle(server, &mut client);
    client
}

fn settle(server: &TestServer, client: &mut Client) {
    wait_until("requests are answered locally", || {
        let before = local(server);
        assert_eq!(client.say("PING"), "+PONG\r\n");
        local(server) > before
    });
}

/// What can be read now, without waiting.
fn at_hand(stream: &TcpStream) -> Vec<u8> {
    let mut buffer = [0; 65536];
    // SAFETY: the buffer is as long as given.
    let got = unsafe {
        libc::recv(
            stream.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    buffer[..usize::try_from(got).unwrap_or(0)].to_vec()
}

fn send_with(stream: &TcpStream, bytes: &[u8], flags: i32) {
    // SAFETY: the bytes are as many as given.
    let sent = unsafe {
        libc::send(
            stream.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    assert_eq!(sent, bytes.len() as isize);
}
