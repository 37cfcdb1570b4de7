//! Programs of others that keep their data in hashes, lists, sets and sorted sets: libraries of Python,
//! and `redis-benchmark`, on bpfdb and on Redis.

use std::process::Command;

use bpfdb_tests::install::{Source, python, run};
use bpfdb_tests::server as common;
use common::lent::plain;
use common::{Client, Redis};

#[test]
fn libraries_of_python() {
    let source = Source::of(
        env!("CARGO_MANIFEST_DIR"),
        "collections",
        &["requirements.txt"],
    );
    let folder = source.installed(python);
    let (server, redis) = (plain(), Redis::start());
    let ports = [server.address.port(), redis.address.port()].map(|port| port.to_string());
    let interpreter = folder.join("venv/bin/python");
    let script = source.file("compare.py");
    run(
        interpreter.to_str().expect("a path"),
        &[script.to_str().expect("a path"), &ports[0], &ports[1]],
        &folder,
    );
}

/// Tests that it makes without `-t`, one of which fills the list of the four that read its start.
const TESTS: usize = 20;
/// Requests of each.
const REQUESTS: usize = 2_000;

/// What its tests leave behind, where it does not depend on chance.
const LEFT: [&str; 6] = [
    "LLEN mylist",
    "LRANGE mylist 0 3",
    "TYPE myhash",
    "EXISTS myset",
    "EXISTS myzset",
    "TYPE mylist",
];

fn benchmark(address: std::net::SocketAddr, random: Option<usize>) -> Vec<String> {
    let mut command = Command::new("redis-benchmark");
    command
        .args(["-p", &address.port().to_string(), "-q", "-c", "20"])
        .args(["-P", "4", "-n", &REQUESTS.to_string()]);
    if let Some(keys) = random {
        command.args(["-r", &keys.to_string()]);
    }
    let output = command.output().expect("redis-benchmark runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}\n{wrong}");
    // It ends at the first error that it gets, and shows it.
    for text in [&told, &wrong] {
        assert!(!text.contains("rror"), "{told}\n{wrong}");
    }
    let rates = told.matches("requests per second").count();
    assert!(rates >= TESTS, "{rates} of {TESTS}:\n{told}");
    let mut client = Client::connect(address);
    let left = match random {
        None => &LEFT[..],
        // Which elements there are is chance; how many the list has is not.
        Some(_) => &LEFT[..1],
    };
    left.iter().map(|look| client.say(look)).collect()
}

#[test]
fn redis_benchmark() {
    for random in [None, Some(1_000)] {
        let (server, redis) = (plain(), Redis::start());
        let ours = benchmark(server.address, random);
        assert_eq!(ours, benchmark(redis.address, random), "-r {random:?}");
    }
}
