//! A client of low priority that loses the processor in the middle of its own
//! send(), where its requests are executed. On a kernel with preemption that may be
//! anywhere but in a latched section: no other client may notice.

use bpfdb_tests::server as common;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{LocalClients, Settings};
use common::{AtEnd, Client, TestServer, cgroup, request, show, wait_until};

/// Of the test itself.
const RUN: Duration = Duration::from_secs(15);
/// How long a preempted client waits until it runs again.
const OFF: Duration = Duration::from_millis(200);
/// How long it runs before, at most.
const ON: Duration = Duration::from_millis(1);
/// Requests in one send().
const PIPELINE: usize = 32;
/// Connections that may be passed to the daemon because a latch was held for too
/// long, as it may be also if a virtual machine's processor stands still.
const PASSED: u64 = 4;
const HOT: [&[u8]; 2] = [b"hot", b"a key that is longer than sixteen bytes"];

fn start() -> TestServer {
    TestServer::start_as_told(
        &bpfdb::Options::default(),
        Settings {
            bind: Ipv4Addr::LOCALHOST.into(),
            local_clients: LocalClients::In(cgroup::own()),
            ..Settings::default()
        },
    )
}

fn local(server: &TestServer) -> u64 {
    server
        .engine
        .counters()
        .expect("figures")
        .redis()
        .net
        .requests_local
}

/// A client whose requests are executed in its own send() from now on.
fn local_client(server: &TestServer) -> Client {
    let mut client = server.client();
    wait_until("requests are answered locally", || {
        let before = local(server);
        assert_eq!(client.say("PING"), "+PONG\r\n");
        local(server) > before
    });
    client
}

/// This thread runs on one processor only.
fn stay_on(processor: usize) {
    // SAFETY: a set of processors is plain memory, and as long as given.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(status, 0, "processor {processor}");
}

/// This thread gives way to all others.
fn give_way() {
    // SAFETY: a parameter without a priority, as the policy demands.
    unsafe {
        let none: libc::sched_param = std::mem::zeroed();
        assert_eq!(
            libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none),
            0
        );
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
    }
}

/// Takes the processor from a client that gives way, again and again.
fn take_turns(end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        thread::sleep(ON);
        let start = Instant::now();
        while start.elapsed() < OFF && !end.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

/// Of one key each, and no transactions: a client that is preempted in the middle of INCR holds
/// the lock of its key, which is no latch, and others get CONFLICT.
fn requests() -> Vec<Vec<u8>> {
    HOT.iter()
        .flat_map(|&key| {
            let set = request(&[b"SET", key, b"1"]);
            [
                set.clone(),
                request(&[b"DEL", key]),
                set,
                request(&[b"GET", key]),
            ]
        })
        .collect()
}

/// What a client has met.
#[derive(Debug, Default)]
struct Met {
    replies: usize,
    errors: Vec<String>,
    longest: Duration,
}

impl Met {
    fn note(&mut self, reply: &[u8]) {
        self.replies += 1;
        if reply[0] == b'-' {
            self.errors.push(show(reply));
        }
    }

    fn took(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
    }
}

fn in_pipelines(mut client: Client, end: &AtomicBool) -> Met {
    let (mut met, requests) = (Met::default(), requests());
    let pipeline = requests.concat().repeat(PIPELINE / requests.len());
    while !end.load(Ordering::Relaxed) {
        client.send(&pipeline);
        for _ in 0..PIPELINE {
            met.note(&client.reply());
        }
    }
    met
}

fn one_by_one(mut client: Client, end: &AtomicBool) -> Met {
    let (mut met, requests) = (Met::default(), requests());
    for request in requests.iter().cycle() {
        if end.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        client.send(request);
        let reply = client.reply();
        met.took(start.elapsed());
        met.note(&reply);
    }
    met
}

/// Two processors: one for those that have time, one for the client that has none.
#[test]
#[ignore = "for a kernel with preemption: make vm-preempt"]
fn who_is_preempted_holds_up_nobody() {
    let server = start();
    let clients: Vec<Client> = (0..3).map(|_| local_client(&server)).collect();
    let before = server.engine.counters().expect("figures");
    let end = AtomicBool::new(false);
    let [low, a, b] = <[Client; 3]>::try_from(clients).ok().expect("three");
    let end = &end;
    let met = thread::scope(|scope| {
        let _end = AtEnd::of(end);
        let low = scope.spawn(move || {
            stay_on(1);
            give_way();
            in_pipelines(low, end)
        });
        scope.spawn(move || {
            stay_on(1);
            take_turns(end);
        });
        let others = [a, b].map(|client| {
            scope.spawn(move || {
                stay_on(0);
                one_by_one(client, end)
            })
        });
        thread::sleep(RUN);
        end.store(true, Ordering::Relaxed);
        let others = others.map(|thread| thread.join().expect("no panic"));
        let low = low.join().expect("no panic");
        let [a, b] = others;
        [low, a, b]
    });
    let counters = server.engine.counters().expect("figures");
    let passed = counters.redis().net.connections_passed - before.redis().net.connections_passed;
    for met in &met {
        let (replies, errors) = (met.replies, met.errors.len());
        println!(
            "{replies} replies, {errors} Errors, longest {:?}",
            met.longest
        );
    }
    println!(
        "in their own send(): {}; attempts that were repeated: {}; passed: {passed}",
        counters.redis().net.requests_local - before.redis().net.requests_local,
        counters.autocommit_retries
    );
    for met in met {
        assert!(met.replies > 0, "nothing was tried");
        assert_eq!(met.errors.first(), None, "{} Errors", met.errors.len());
        assert!(met.longest < OFF, "{:?}", met.longest);
    }
    assert!(passed < PASSED, "{passed} were left to the daemon");
}
