//! Queues, locks, caches and sessions as they are, each in a database of its own: on bpfdb and on Redis.
//! What takes a minute to install runs by `make applications`.

use std::fs;
use std::net::SocketAddr;
use std::process;

use bpfdb_tests::install::{Source, go, java, maven, npm, python, run, try_run};
use bpfdb_tests::server as common;
use common::lent::plain;
use common::{Client, Redis};

fn run_python(address: SocketAddr) {
    let source = Source::of(env!("CARGO_MANIFEST_DIR"), "queues", &["requirements.txt"]);
    let folder = source.installed(python);
    let interpreter = folder.join("venv/bin/python");
    let script = source.file("run.py");
    run(
        interpreter.to_str().expect("a path"),
        &[
            script.to_str().expect("a path"),
            &address.port().to_string(),
        ],
        &folder,
    );
}

fn run_node(address: SocketAddr) {
    let files = &["package.json", "package-lock.json"];
    let source = Source::of(env!("CARGO_MANIFEST_DIR"), "queues_node", files);
    let folder = source.installed(npm);
    // Node looks for modules beside the script. Another run of the tests may have its own there.
    let name = format!("run-{}-{}.mjs", process::id(), address.port());
    let script = folder.join(&name);
    fs::copy(source.file("run.mjs"), &script).expect("copied");
    let result = try_run("node", &[&name, &address.port().to_string()], &folder);
    fs::remove_file(&script).expect("removed");
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

fn run_go(address: SocketAddr) {
    let files = &["go.mod", "go.sum", "main.go"];
    let source = Source::of(env!("CARGO_MANIFEST_DIR"), "asynq", files);
    let folder = source.installed(go);
    let program = folder.join("run");
    let program = program.to_str().expect("a path");
    run(program, &[&address.port().to_string()], &folder);
}

fn run_java(address: SocketAddr) {
    let files = &[
        "pom.xml",
        "Main.java",
        "Check.java",
        "OfRedisson.java",
        "OfSpring.java",
    ];
    let source = Source::of(env!("CARGO_MANIFEST_DIR"), "sessions_java", files);
    let folder = source.installed(maven);
    java(&folder, &[&address.port().to_string()]);
}

/// How often the kernel has answered this command.
fn in_kernel(client: &mut Client, command: &str) -> u64 {
    let text = client.say("INFO kernelstats");
    let prefix = format!("kernelstat_{command}:calls=");
    let calls = text.lines().find_map(|line| line.strip_prefix(&prefix));
    let calls = calls.and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// How often the kernel has answered each of these while `work` was done.
fn answered_in_kernel(commands: &[&str], work: impl FnOnce(SocketAddr)) -> Vec<u64> {
    let server = plain();
    server.loader.wait();
    let mut client = server.client();
    let mut all = || -> Vec<u64> {
        let calls = |command: &&str| in_kernel(&mut client, command);
        commands.iter().map(calls).collect()
    };
    let before = all();
    work(server.address);
    let changes = all().into_iter().zip(before);
    changes.map(|(after, before)| after - before).collect()
}

#[test]
fn of_python() {
    let answered = answered_in_kernel(&["hset", "hget", "sadd", "zadd"], run_python);
    assert!(!answered.contains(&0), "{answered:?}");
}

#[test]
fn of_python_on_redis() {
    run_python(Redis::start().address);
}

#[test]
fn of_node() {
    // Most of what it sends comes together with scripts, which are the daemon's: what is left for the kernel
    // is now one, now another.
    let answered = answered_in_kernel(&["hget", "get", "srem", "expire"], run_node);
    assert_ne!(answered.iter().sum::<u64>(), 0, "{answered:?}");
}

#[test]
fn of_node_on_redis() {
    run_node(Redis::start().address);
}

#[test]
#[ignore = "make applications: compiles for a minute"]
fn of_go() {
    run_go(plain().address);
    run_go(Redis::start().address);
}

#[test]
#[ignore = "make applications: installs for a minute, and needs Maven"]
fn of_java() {
    run_java(plain().address);
    run_java(Redis::start().address);
}
