//! Who gets which server, and whose reply is whose: each request has a tag that its reply repeats.

use std::thread;
use std::time::Duration;

use bpfdb_tests::random::Random;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::postgres::{self, printed, psql};
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{self, Wire, execute, parse, rows, sync};

const CLIENTS: u64 = 16;
const SERVERS: usize = 4;
const REQUESTS: u32 = 250;

/// One request or transaction, of a kind by chance.
fn step(wire: &mut Wire, tag: &str, random: &mut Random) {
    match random.below(6) {
        0 => {
            wire.query("begin");
            let select = format!("select pg_backend_pid(), '{tag}'");
            let (first, second) = (wire.rows(&select), wire.rows(&select));
            assert_eq!((&first, first[0][1].as_str()), (&second, tag));
            let end = if random.below(2) == 0 {
                "commit"
            } else {
                "rollback"
            };
            wire.query(end);
        }
        1 => {
            wire.send(&[parse("", &format!("select '{tag}'")), execute(""), sync()].concat());
            assert_eq!(rows(&wire.until(b'Z')), [[tag]]);
        }
        2 => {
            let count = 2 + random.below(4);
            let text = |i| format!("select '{tag}-{i}'");
            let all: Vec<u8> = (0..count).flat_map(|i| wire::query(&text(i))).collect();
            wire.send(&all);
            for i in 0..count {
                assert_eq!(rows(&wire.until(b'Z')), [[format!("{tag}-{i}")]]);
            }
        }
        3 => {
            let length = random.below(20_000);
            let text = format!("select '{tag}' || repeat('x', {length})");
            let value = wire.value(&text);
            assert!(value.starts_with(tag) && value.len() == tag.len() + length);
        }
        4 => {
            let failed = wire.query(&format!("select '{tag}' from nothing"));
            assert_eq!(wire::error(&failed, b'C'), "42P01");
        }
        _ => assert_eq!(wire.value(&format!("select '{tag}'")), tag),
    }
}

fn tags(way: Way, requests: u32) -> TestProxy {
    let proxy = TestProxy::start(way, SERVERS);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let proxy = &proxy;
            scope.spawn(move || {
                let mut random = Random::new(client + 1);
                let mut wire = proxy.client();
                for request in 0..requests {
                    step(&mut wire, &format!("{client}-{request}"), &mut random);
                    if random.below(50) == 0 {
                        wire = proxy.client();
                    }
                }
            });
        }
    });
    proxy
}

#[test]
fn every_reply_is_its_clients() {
    for way in WAYS {
        tags(way, REQUESTS).brought(1);
    }
}

#[test]
#[ignore = "a long loop"]
fn soak_every_reply_is_its_clients() {
    for way in WAYS {
        tags(way, 100 * REQUESTS);
    }
}

/// A client alone stays in the kernel.
#[test]
fn simple_queries_do_not_pass_through_the_process() {
    let proxy = TestProxy::start(Way::Kernel, 2);
    let mut wire = proxy.client();
    for number in 0..100 {
        assert_eq!(wire.value(&format!("select {number}")), number.to_string());
    }
    drop(wire);
    // A client goes back to the kernel a moment after the process has served it.
    proxy.brought(50);
}

#[test]
fn a_server_is_used_by_many() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut wires: Vec<Wire> = (0..4).map(|_| proxy.client()).collect();
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.extend(
                wires
                    .iter_mut()
                    .map(|wire| wire.value("select pg_backend_pid()")),
            );
        }
        processes.dedup();
        assert_eq!(processes.len(), 1, "{way:?}");
    }
}

#[test]
fn psql_works() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut psql = psql(proxy.port, postgres::USER, &[]);
        assert_eq!(
            printed(&mut psql, "select 'x', 1 union select 'y', 2 order by 1"),
            "x|1\ny|2"
        );
    }
}

/// A client that gets the processor with its reply, before the process has it again, is given to the kernel all the same.
#[test]
fn a_client_that_is_quicker_than_the_process_goes_to_the_kernel() {
    // The affinity is of a thread, and its children have it: so this is done by threads of a process of its own.
    bpfdb_tests::process::alone_in_a_process(
        "pooling::a_client_that_is_quicker_than_the_process_goes_to_the_kernel",
        || {
            postgres::shared();
            let mut one = CpuSet::new();
            one.set(0).expect("a processor");
            sched_setaffinity(Pid::from_raw(0), &one).expect("its own processor");
            // Its thread, too, is on this processor.
            let proxy = TestProxy::start(Way::Kernel, 2);
            let mut wire = proxy.client();
            let first = libc::sched_param { sched_priority: 1 };
            // SAFETY: the structure lives until it returns.
            let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            for number in 0..100 {
                assert_eq!(wire.value(&format!("select {number}")), number.to_string());
            }
            drop(wire);
            proxy.brought(90);
        },
    );
}

/// What a server says without being asked does not overtake what its client has not read.
#[test]
fn a_notification_does_not_overtake_a_reply() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let (mut hears, mut tells) = (proxy.client(), proxy.client());
        hears.query("listen news");
        for number in 0..20 {
            // The listener's last reply came from the process, and is not read.
            hears.send(&wire::query("set work_mem = '7MB'"));
            hears.socket.peek(&mut [0]).expect("its beginning");
            thread::sleep(Duration::from_millis(20));
            tells.query(&format!("notify news, '{number}'"));
            thread::sleep(Duration::from_millis(20));
            let told = hears.until(b'A');
            assert_eq!(wire::kinds(&told), "CZA", "{way:?}");
        }
    }
}

/// Clients of the kernel, at the same time.
const PLACES: usize = 2048;

/// A client that has waited in the kernel leaves; the one that has its place is of another pool.
#[test]
fn a_place_that_is_used_again_is_of_its_pool() {
    postgres::with_other();
    let proxy = TestProxy::start(Way::Kernel, 1);
    let other = || Wire::connect(proxy.port, postgres::USER, &[("database", postgres::OTHER)]);
    let name = "select current_database()";
    let (mut one, mut holds) = (proxy.client(), other());
    assert_eq!(
        (one.value(name), holds.value(name)),
        ("postgres".into(), postgres::OTHER.into())
    );
    one.query("begin");
    holds.query("begin");
    // The kernel serves a client from a moment after its greeting on.
    let moment = Duration::from_millis(100);
    let mut waits = proxy.client();
    thread::sleep(moment);
    waits.send(&wire::query(name));
    // For so long it waits in the kernel (WAIT_THERE), and then in the process.
    thread::sleep(Duration::from_millis(1500));
    drop(waits);
    thread::sleep(Duration::from_millis(300));
    // The place that has been free longest is used first. One of those that come now has its place.
    const AROUND: usize = 8;
    for _ in 0..PLACES - 2 * AROUND {
        drop(other());
    }
    let mut next: Vec<Wire> = (0..3 * AROUND).map(|_| other()).collect();
    thread::sleep(moment);
    for wire in &mut next {
        wire.send(&wire::query(name));
    }
    thread::sleep(Duration::from_millis(200));
    one.query("commit");
    thread::sleep(Duration::from_millis(200));
    holds.query("commit");
    for wire in &mut next {
        assert_eq!(rows(&wire.until(b'Z')), [[postgres::OTHER]]);
    }
}
