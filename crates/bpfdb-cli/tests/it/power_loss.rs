//! One life of a machine that loses power. `scripts/vm-power.sh` has a virtual machine live it,
//! and kills that machine under load; the next life begins with what its disk has.

use crate::common;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use common::Served;
use common::clients::{Client, Crash, Found, Life, check};

/// Where the log is, on the disk that stays.
const DIRECTORY: &str = "BPFDB_POWER_DIRECTORY";
/// A file with what the life before has said; empty: there was none.
const TOLD: &str = "BPFDB_POWER_TOLD";
/// Is this life for looking only?
const LAST: &str = "BPFDB_POWER_LAST";
/// Of a client that does not wait for the disk, only each such value is printed: the console of
/// the machine is slow.
const TOLD_OF_ASYNC: u64 = 16;

static START: OnceLock<Instant> = OnceLock::new();

fn path(name: &str) -> PathBuf {
    env::var_os(name)
        .unwrap_or_else(|| panic!("{name} is not set"))
        .into()
}

/// `ack MILLISECONDS CLIENT STEP yes|no`: a step was acknowledged, as durable or not.
fn tell(id: usize, step: u64, durable: bool) {
    if durable || step.is_multiple_of(TOLD_OF_ASYNC) {
        let millis = START.get_or_init(Instant::now).elapsed().as_millis();
        let durable = if durable { "yes" } else { "no" };
        println!("ack {millis} {id} {step} {durable}");
    }
}

/// Those of whose steps the console shows enough: the next life does not know which requests of a
/// pipeline were refused.
fn clients() -> Vec<Client> {
    let mut clients = Client::all(tell);
    for client in &mut clients {
        // Steps whose replies were under way may be there too.
        client.history.forget_tried();
    }
    clients
}

/// Gives the clients what they were replied in the life before; and the moment of the last word.
fn remember(told: &str, clients: &mut [Client]) -> Instant {
    let begun = Instant::now();
    let mut crash = begun;
    for line in told.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &["ack", millis, id, step, durable] = words.as_slice() else {
            panic!("{line}");
        };
        let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        let when = begun + Duration::from_millis(number(millis));
        let client = &mut clients[number(id) as usize];
        client
            .history
            .acknowledged(when, number(step), durable == "yes");
        crash = crash.max(when);
    }
    crash
}

#[test]
#[ignore = "make vm-power"]
fn a_life() {
    START.get_or_init(Instant::now);
    let mut clients = clients();
    let told = fs::read_to_string(path(TOLD)).expect("what was told");
    let when = remember(&told, &mut clients);
    let counts = clients
        .iter()
        .map(|client| client.history.acknowledgements());
    let count: usize = counts.sum();
    if told.is_empty() {
        assert!(!path(DIRECTORY).exists(), "a new disk");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let unix = socket.to_str().expect("text");
    let server = Served::start_in(&path(DIRECTORY), 0, &["--unixsocket", unix]);
    let found = Found::Files;
    let lost = check(&server, &mut clients, Crash { when, found });
    println!("checked {count} that were acknowledged: {lost:?}");
    if env::var_os(LAST).is_some() {
        server.stop();
        return;
    }
    let life = Life {
        port: server.port,
        socket: &socket,
        beside: None,
        always: false,
        over: &AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for client in clients.iter_mut().filter(|client| !client.forgets()) {
            scope.spawn(move || client.work(life));
        }
    });
    panic!("the server is gone, and the machine is not");
}
