//! Proxies on the server's machine that move bytes by splice(2), of which only TCP's are seen.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::install::{Source, try_run};
use bpfdb_tests::process::dies_with_us;
use bpfdb_tests::server::{
    Client, Lent, TestServer, bulk, cgroup, free_port, is_served, request, wait_until,
};

/// Ends with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server() -> Lent {
    let settings = Settings {
        local_clients: LocalClients::In(cgroup::own()),
        ..Settings::default()
    };
    TestServer::lent_as_told(&bpfdb::Options::default(), settings)
}

fn at(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// Requests one by one, in a pipeline, and longer than a buffer.
fn is_transparent(proxy: SocketAddr) {
    for _ in 0..4 {
        let mut client = Client::connect(proxy);
        for i in 0..200 {
            let value = format!("value {i}");
            assert_eq!(client.say(&format!("SET key {i}")), "+OK\r\n");
            assert_eq!(
                client.ask(&[b"ECHO", value.as_bytes()]),
                bulk(value.as_bytes())
            );
        }
        let long = vec![b'l'; 20_000];
        assert_eq!(client.ask(&[b"SET", b"long", &long]), b"+OK\r\n");
        client.send(&request(&[b"GET", b"long"]).repeat(100));
        for _ in 0..100 {
            assert!(client.reply() == bulk(&long));
        }
        assert_eq!(client.say("GET key"), "$3\r\n199\r\n");
    }
}

#[test]
fn of_go() {
    let source = Source::of(
        env!("CARGO_MANIFEST_DIR"),
        "go_proxy",
        &["go.mod", "main.go"],
    );
    let folder = source.installed(|folder| {
        let arguments = [
            "CGO_ENABLED=0",
            "GOTOOLCHAIN=auto",
            "go",
            "build",
            "-o",
            "proxy",
            ".",
        ];
        try_run("env", &arguments, folder).map(drop)
    });
    let server = server();
    let mut command = Command::new(folder.join("proxy"));
    command
        .arg(server.address.to_string())
        .stdout(Stdio::piped());
    let mut proxy = Proxy(dies_with_us(&mut command).spawn().expect("it starts"));
    let mut line = String::new();
    let output = proxy.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    is_transparent(at(line.trim().parse().expect("a port")));
}

#[test]
fn haproxy() {
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("haproxy.cfg");
    let start = || {
        // Another process may take the port before haproxy does.
        let port = free_port();
        let text = format!(
            "global\n maxconn 100\n\
             defaults\n mode tcp\n option splice-request\n option splice-response\n \
             timeout connect 1h\n timeout client 1h\n timeout server 1h\n\
             listen redis\n bind 127.0.0.1:{port}\n server one {}\n",
            server.address
        );
        fs::write(&file, text).expect("written");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&file);
        let child = dies_with_us(&mut command).spawn();
        let proxy = Proxy(child.expect("haproxy is installed by scripts/setup.sh"));
        (proxy, port)
    };
    let (mut proxy, mut port) = start();
    wait_until("it listens", || {
        if proxy.0.try_wait().expect("a child").is_some() {
            (proxy, port) = start();
        }
        is_served(at(port))
    });
    is_transparent(at(port));
}
