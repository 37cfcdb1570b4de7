//! One life of a machine that loses power. `scripts/vm-power.sh` has a virtual machine live it,
//! and kills that machine under load; the next life begins with what its disk has.

mod common;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use common::Served;
use common::workers::{Worker, check};

/// Where the log is, on the disk that stays.
const DIRECTORY: &str = "BPFDB_POWER_DIRECTORY";
/// A file with what the life before has said; empty: there was none.
const TOLD: &str = "BPFDB_POWER_TOLD";
/// Is this life for looking only?
const LAST: &str = "BPFDB_POWER_LAST";
/// Of a client that does not wait for the disk, only each such value is told: the console of
/// the machine is slow.
const TOLD_OF_ASYNC: u64 = 16;

static START: OnceLock<Instant> = OnceLock::new();

fn path(name: &str) -> PathBuf {
    env::var_os(name)
        .unwrap_or_else(|| panic!("{name} is not set"))
        .into()
}

/// `ack MILLISECONDS CLIENT VALUE`: a value was acknowledged.
fn tell(id: usize, value: u64) {
    let is_sync = id.is_multiple_of(2);
    if is_sync || value.is_multiple_of(TOLD_OF_ASYNC) {
        let millis = START.get_or_init(Instant::now).elapsed().as_millis();
        println!("ack {millis} {id} {value}");
    }
}

/// Gives the clients what they were told in the life before; and the moment of the last word.
fn remember(told: &str, workers: &mut [Worker]) -> Instant {
    let begun = Instant::now();
    let mut crash = begun;
    for line in told.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &["ack", millis, id, value] = words.as_slice() else {
            panic!("{line}");
        };
        let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        let when = begun + Duration::from_millis(number(millis));
        let (id, value) = (number(id) as usize, number(value));
        workers[id].acknowledged.push((when, value));
        // That of the commit whose reply was under way may be there too.
        workers[id].next = u64::MAX;
        crash = crash.max(when);
    }
    crash
}

#[test]
#[ignore = "make vm-power"]
fn a_life() {
    START.get_or_init(Instant::now);
    let mut workers = Worker::all(tell);
    let told = fs::read_to_string(path(TOLD)).expect("what was told");
    let crash = remember(&told, &mut workers);
    let count: usize = workers.iter().map(|worker| worker.acknowledged.len()).sum();
    if told.is_empty() {
        assert!(!path(DIRECTORY).exists(), "a new disk");
    }
    let server = Served::start_in(&path(DIRECTORY), 0, &[]);
    for worker in workers.iter_mut().filter(|worker| worker.next == 1) {
        worker.next = u64::MAX;
    }
    let found = check(&server, &mut workers, crash, false);
    println!("checked {count} that were acknowledged: {found:?}");
    if env::var_os(LAST).is_some() {
        server.stop();
        return;
    }
    let port = server.port;
    thread::scope(|scope| {
        for worker in &mut workers {
            scope.spawn(move || worker.work(port));
        }
    });
    panic!("the server is gone, and the machine is not");
}
