//! Requests that are wrong, again and again.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use crate::hostile::bystander::{Latencies, alone, while_working};
use crate::hostile::{MIB, Memory, alone_on_this_machine};
use bpfdb_tests::server::process::ServerProcess;
use bpfdb_tests::server::{Client, flood, show};

/// Counts and lengths that no request has, and what is said to them.
const BROKEN: [(&str, &str); 9] = [
    ("*2147483648\r\n", "multibulk"),
    ("*99999999999999999999999\r\n", "multibulk"),
    ("*2\r\n$3\r\nGET\r\n$536870913\r\n", "bulk"),
    ("*2\r\n$3\r\nGET\r\n$99999999999999999999999\r\n", "bulk"),
    ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4294967295\r\n", "bulk"),
    ("*2\r\n$3\r\nGET\r\n$-1\r\n", "bulk"),
    ("*2\r\n$-3\r\nGET\r\n", "bulk"),
    ("*2\r\n$3\r\nGET\r\n$-9223372036854775809\r\n", "bulk"),
    // No elements is no request, and has no reply.
    ("*-1\r\n*0\r\n*-7\r\n*1\r\n$-1\r\n", "bulk"),
];

/// Each on a connection of its own, which is closed behind the error.
fn say_what_is_broken(server: SocketAddr, times: usize) {
    for (request, length) in BROKEN.iter().cycle().take(times) {
        let mut client = Client::connect(server);
        client.send(request.as_bytes());
        let said = client.until_closed();
        let expected = format!("-ERR Protocol error: invalid {length} length\r\n");
        assert_eq!(show(&said), show(expected.as_bytes()), "{request:?}");
    }
}

#[test]
fn lengths_that_no_request_has() {
    broken_lengths(300);
}

#[test]
#[ignore = "long: make soak"]
fn soak_lengths_that_no_request_has() {
    broken_lengths(2500);
}

fn broken_lengths(times: usize) {
    let _alone = alone_on_this_machine();
    let server = ServerProcess::start(1000);
    let before = alone(server.address);
    // What is made once and kept is no growth.
    say_what_is_broken(server.address, times / 10);
    let memory = Memory::of(&server);
    let ((), during) = while_working(server.address, || {
        say_what_is_broken(server.address, times);
    });
    Latencies::compare("beside broken requests", before, during);
    let (daemon, kernel) = memory.grown(&server);
    assert!(daemon < 4 * MIB, "{daemon}");
    assert!(kernel < 256 * MIB, "{kernel}");
}

#[test]
fn endless_lines_of_garbage() {
    garbage(24 << 20);
}

#[test]
#[ignore = "long: make soak"]
fn soak_endless_lines_of_garbage() {
    garbage(200 << 20);
}

/// So many bytes, at least.
fn garbage(bytes: usize) {
    let _alone = alone_on_this_machine();
    let server = ServerProcess::start(64);
    let before = alone(server.address);
    let memory = Memory::of(&server);
    let (sent, during) = while_working(server.address, || {
        let sent = exchange_garbage(server.address, bytes);
        let (daemon, kernel) = memory.grown(&server);
        assert!(daemon < 16 * MIB, "{daemon}");
        assert!(kernel < 256 * MIB, "{kernel}");
        sent
    });
    println!("{} MiB sent", sent as u64 / MIB);
    Latencies::compare("beside garbage", before, during);
}

/// Sends lines that are no commands as fast as they are answered, so many bytes at least: how many.
fn exchange_garbage(server: SocketAddr, bytes: usize) -> usize {
    let lines = b"garbage and nothing but garbage\r\n".repeat(1000);
    let mut stream = TcpStream::connect(server).expect("a connection");
    let mut reader = stream.try_clone().expect("a second descriptor");
    let reading = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(1..) = reader.read(&mut buffer) {}
    });
    let mut sent = 0;
    while sent < bytes {
        sent += flood(&mut stream, &lines, lines.len(), Duration::from_secs(20));
    }
    let _ = stream.shutdown(Shutdown::Both);
    reading.join().expect("it has read");
    sent
}
