//! The metrics endpoint.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bpfdb_server::settings::Settings;

use crate::operation::start;
use bpfdb_tests::server::{Client, PATIENCE, is_refused};

pub(crate) fn http(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    text
}

pub(crate) fn metrics_address(client: &mut Client) -> SocketAddr {
    let reply = client.say("CONFIG GET metrics-address");
    let text = reply.lines().last().expect("a value");
    text.parse().unwrap_or_else(|_| panic!("{reply}"))
}

#[test]
fn metrics_are_served() {
    let server = start(Settings {
        metrics_address: Some(([127, 0, 0, 1], 0).into()),
        ..Settings::default()
    });
    let mut client = server.client();
    client.say("SET a 1");
    // What is said twice is for user space.
    client.say("SET a 1 KEEPTTL KEEPTTL");
    client.say("NONSENSE");
    let address = metrics_address(&mut client);
    let page = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
    for line in [
        "bpfdb_records 1",
        "bpfdb_connections 1",
        "bpfdb_error_replies_total 1",
        "bpfdb_command_duration_seconds_count{command=\"set\"} 1",
        "bpfdb_errors_total{error=\"conflict\"} 0",
        "bpfdb_command_duration_seconds_bucket{le=\"+Inf\",command=\"set\"} 1",
    ] {
        assert!(page.lines().any(|other| other == line), "{line} in {page}");
    }
    for name in [
        "bpfdb_requests_total{path=\"kernel\"}",
        "bpfdb_operations_total{operation=\"set\"}",
    ] {
        assert!(page.contains(name), "{name} in {page}");
    }
    for (path, code) in [
        ("/health", "200"),
        ("/ready", "200"),
        ("/", "404"),
        ("/metrics?x=1", "200"),
    ] {
        let text = http(address, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        assert!(
            text.starts_with(&format!("HTTP/1.1 {code} ")),
            "{path}: {text}"
        );
    }
    assert!(http(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    let head = http(address, "HEAD /health HTTP/1.1\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert!(http(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(10_000));
    assert!(http(address, &long).starts_with("HTTP/1.1 400"));
    // Those that say nothing do not keep others waiting.
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(address).expect("a connection"))
        .collect();
    let start = Instant::now();
    assert!(http(address, "GET /health HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert!(start.elapsed() < Duration::from_millis(1500));
    drop(silent);
    server.stop();
    assert!(is_refused(address));
}

/// Who has asked nothing yet keeps a thread waiting, up to two seconds; not when the server
/// stops.
#[test]
fn nobody_is_served_after_the_end() {
    let server = start(Settings {
        metrics_address: Some(([127, 0, 0, 1], 0).into()),
        ..Settings::default()
    });
    let address = metrics_address(&mut server.client());
    let mut silent: Vec<TcpStream> = (0..5)
        .map(|_| TcpStream::connect(address).expect("a connection"))
        .collect();
    // In order: the silent ones are being served.
    http(address, "GET /health HTTP/1.1\r\n\r\n");
    server.stop();
    for stream in &mut silent {
        stream.set_nonblocking(true).expect("set");
        let end = stream.read(&mut [0; 100]);
        let closed = match &end {
            Ok(got) => *got == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(closed, "{end:?}");
    }
}
