//! Rate limiters that others have published, with the scripts that their library sends: the same
//! answers and data on bpfdb and on Redis. (Their limiter that keeps a list of times needs lists.)
#![allow(unreachable_pub, reason = "modules of other tests")]

use bpfdb_tests::server as common;

use bpfdb_apps::client::{Address, Client};
use bpfdb_apps::procedures::procedures;
use bpfdb_tests::install::{Source, python, run};
use common::lent::plain;
use common::{Redis, wait_until};

/// Of the calls of the script that counts a window.
const IN_KERNEL: u64 = 50;

#[test]
fn limits_of_python() {
    let source = Source::of(env!("CARGO_MANIFEST_DIR"), "limits", &["requirements.txt"]);
    let folder = source.installed(python);
    let (server, redis) = (plain(), Redis::start());
    let ports = [server.address.port(), redis.address.port()].map(|port| port.to_string());
    let interpreter = folder.join("venv/bin/python");
    let script = source.file("compare.py");
    let compare = || {
        run(
            interpreter.to_str().expect("a path"),
            &[script.to_str().expect("a path"), &ports[0], &ports[1]],
            &folder,
        )
    };
    compare();
    let mut client = Client::connect(&Address::Tcp(server.address)).expect("a connection");
    let mut all = || procedures(&mut client).expect("procedures");
    wait_until("the scripts are compiled", || {
        all().values().all(|one| one.path != "compiling")
    });
    compare();
    let all = all();
    println!("{all:#?}");
    let in_kernel = all.values().map(|one| one.calls).max();
    assert!(in_kernel >= Some(IN_KERNEL), "{all:?}");
}
