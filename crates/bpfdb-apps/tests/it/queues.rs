//! Queues, locks and caches of Python, whose workers wait in blocking commands and whose databases are
//! several: on bpfdb and on Redis.

use std::net::SocketAddr;

use bpfdb_tests::install::{Source, python, run};
use bpfdb_tests::server as common;
use common::Redis;
use common::lent::plain;

fn run_all(address: SocketAddr) {
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

#[test]
fn of_python() {
    run_all(plain().address);
}

#[test]
fn of_python_on_redis() {
    run_all(Redis::start().address);
}
