//! Unmodified clients, with their default settings.
#![allow(unreachable_pub, reason = "the modules of one test")]

use bpfdb_tests::server as common;
mod exporter;
mod go_redis;
mod node;
mod pipelines;
mod proxies;
mod redis_py;
mod redis_rs;

use std::io::{Seek, Write};
use std::path::Path;
use std::process::Command;

use common::TestServer;

fn run(program: &str, arguments: &[&str]) -> String {
    bpfdb_tests::install::run(program, arguments, Path::new("."))
}

fn port(server: &TestServer) -> String {
    server.address.port().to_string()
}

#[test]
fn redis_cli() {
    let server = TestServer::shared();
    let port = port(&server);
    let cli = |words: &[&str]| run("redis-cli", &[&["-p", &port], words].concat());

    assert_eq!(cli(&["SET", "cli", "1"]), "OK\n");
    assert_eq!(cli(&["GET", "cli"]), "1\n");
    assert_eq!(cli(&["INCR", "cli"]), "2\n");
    assert_eq!(cli(&["MGET", "cli", "none"]), "2\n\n");
    assert!(cli(&["NONSENSE"]).starts_with("ERR unknown command"));
    assert!(cli(&["INFO"]).contains("bpfdb_version"));
    assert_eq!(cli(&["-r", "100", "PING"]), "PONG\n".repeat(100));

    // Mass insertion counts replies and errors.
    let text: String = (0..5000).map(|i| format!("SET mass{i} {i}\r\n")).collect();
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file.rewind().expect("rewound");
    let told = Command::new("redis-cli")
        .args(["-p", &port, "--pipe"])
        .stdin(file)
        .output()
        .expect("redis-cli");
    let told = String::from_utf8_lossy(&told.stdout);
    assert!(told.contains("errors: 0, replies: 5000"), "{told}");
    assert_eq!(cli(&["GET", "mass4999"]), "4999\n");
}

#[test]
fn redis_benchmark() {
    let server = TestServer::shared();
    let port = port(&server);
    for extra in [
        "-P 1 -d 16 -r 1000000",
        "-P 1 -d 1024 -r 1000000",
        "-P 16 -d 16 -r 1000000",
        "-P 16 -d 1024 -r 1000000",
        "-P 16 -d 1024 -r 1000",
        "-P 64 -d 5000 -c 10",
        "--threads 2 -P 4",
    ] {
        let mut arguments = vec![
            "-p",
            &port,
            "-n",
            "4000",
            "--csv",
            "-t",
            "set,get,incr,mset",
        ];
        arguments.extend(extra.split(' '));
        let text = run("redis-benchmark", &arguments);
        for test in ["\"SET\"", "\"GET\"", "\"INCR\"", "\"MSET (10 keys)\""] {
            assert!(text.contains(test), "{extra}: {text}");
        }
        assert!(!text.to_lowercase().contains("error"), "{extra}: {text}");
    }
}
