//! One thread serves all connections that the kernel does not: it never sleeps, and never
//! waits for memory or a grace period. Who must wait is put aside.

use bpfdb_tests::server as common;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::Settings;
use bpfdb_tests::settings::is_emulated;
use common::{AtEnd, Client, Lent, TestServer, bulk, request, wait_until, words};

/// Replies that another client has at least while a long command is executed in time slices.
/// Without slices it has one or two; how many more depends on the machine.
const SLICES: usize = 5;

/// Answered in user space.
const QUICK: &str = "LASTSAVE";

fn options(memory: u64) -> bpfdb::Options {
    bpfdb::Options {
        memory_limit: memory,
        ..bpfdb::Options::default()
    }
}

fn start(memory: u64) -> Lent {
    TestServer::lent(&options(memory), Settings::default())
}

/// How long a quick command takes, of which a tenth is quicker. A busy machine delays some of them, and
/// a loop that sleeps or that others occupy delays each.
fn latency(client: &mut Client) -> Duration {
    let times = latencies(client);
    times[times.len() / 10]
}

/// In order.
fn latencies(client: &mut Client) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..100)
        .map(|_| {
            let begun = Instant::now();
            assert!(client.say(QUICK).starts_with(':'));
            begun.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// Looks until the machine leaves this process alone for as long as a look takes: the last latency.
fn undisturbed_latency(client: &mut Client, bound: Duration) -> Duration {
    const LOOKS: usize = 100;
    let mut latencies = (0..LOOKS).map(|_| latency(client));
    let found = latencies.find(|&latency| latency < bound);
    found.unwrap_or_else(|| latency(client))
}

/// Replies to quick commands until another client has the reply it waits for, and that.
fn served_beside(client: &mut Client, other: &mut Client) -> (usize, Vec<u8>) {
    let begun = Instant::now();
    for served in 0.. {
        if let Some(reply) = other.replies_at_hand().pop() {
            return (served, reply);
        }
        assert!(begun.elapsed() < common::PATIENCE);
        client.say(QUICK);
    }
    unreachable!("without end")
}

/// Each of them is tried for a millisecond, and all together keep no client waiting.
#[test]
fn conflicts_of_many_delay_nobody_else() {
    const CLIENTS: usize = 32;
    let server = start(256 << 20);
    let mut holder = server.engine.session().expect("a session");
    holder.begin().expect("begins");
    holder.set(b"held", b"1").expect("locked");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _at_end = AtEnd::of(&over);
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                client.say(QUICK);
                while !over.load(Ordering::Relaxed) {
                    let reply = client.say("INCRBYFLOAT held 1");
                    assert!(reply.starts_with("-CONFLICT "), "{reply}");
                }
            });
        }
        let mut client = server.client();
        thread::sleep(Duration::from_millis(100));
        let bound = Duration::from_millis(5);
        let latency = undisturbed_latency(&mut client, bound);
        assert!(latency < bound, "{latency:?}");
        over.store(true, Ordering::Relaxed);
    });
    holder.rollback().expect("rolled back");
    let mut client = server.client();
    assert_eq!(client.say("INCRBYFLOAT held 1"), "$1\r\n1\r\n");
}

#[track_caller]
fn is_below(time: Duration, bound: Duration) {
    assert!(time < bound || is_emulated(), "{time:?}");
}

/// Has one client send this again and again, eight at a time, and says what that makes of
/// the latency of another one. `refusal`: what it hears.
fn beside_refusals(
    server: &TestServer,
    command: &[u8],
    refusal: &str,
    bound: Duration,
) -> Duration {
    let over = AtomicBool::new(false);
    let refusals = AtomicUsize::new(0);
    thread::scope(|scope| {
        let _at_end = AtEnd::of(&over);
        scope.spawn(|| {
            let mut client = server.client();
            client.say(QUICK);
            client.send(&command.repeat(8));
            while !over.load(Ordering::Relaxed) {
                let reply = client.reply();
                assert!(
                    reply.starts_with(refusal.as_bytes()),
                    "{}",
                    common::show(&reply)
                );
                refusals.fetch_add(1, Ordering::Relaxed);
                client.send(command);
            }
        });
        let mut client = server.client();
        wait_until("the first is refused", || {
            refusals.load(Ordering::Relaxed) > 0
        });
        let before = refusals.load(Ordering::Relaxed);
        let latency = undisturbed_latency(&mut client, bound);
        let meanwhile = refusals.load(Ordering::Relaxed) - before;
        assert!(meanwhile > 0, "nobody was refused meanwhile");
        latency
    })
}

/// It is tried five times with 0.2 ms in between, in which the loop serves others.
#[test]
fn one_client_that_meets_conflicts_all_the_time_delays_nobody() {
    let server = start(256 << 20);
    let mut holder = server.engine.session().expect("a session");
    holder.begin().expect("begins");
    holder.set(b"held", b"1").expect("locked");
    let bound = Duration::from_micros(600);
    let command = words("INCRBYFLOAT held 1");
    let latency = beside_refusals(&server, &command, "-CONFLICT ", bound);
    is_below(latency, bound);
}

/// Memory is looked for, for grace periods long, and then there is none.
#[test]
fn one_client_that_waits_for_memory_all_the_time_delays_nobody() {
    const PIECE: usize = 1 << 20;
    let server = start(64 << 20);
    let mut client = server.client();
    let value = vec![b'v'; PIECE];
    let full = (0..64).find(|number| {
        let key = format!("key{number}");
        client
            .ask(&[b"SET", key.as_bytes(), &value])
            .starts_with(b"-OOM ")
    });
    assert!(full.is_some_and(|number| number > 32), "{full:?}");
    let command = words(&format!("SETRANGE another {} x", 2 * PIECE));
    let bound = Duration::from_micros(600);
    let latency = beside_refusals(&server, &command, "-OOM ", bound);
    is_below(latency, bound);
}

/// One that waits keeps its place: what its client sent behind it comes after it, and is
/// neither lost nor doubled.
#[test]
fn requests_behind_one_that_is_tried_again_wait_for_it() {
    let server = start(256 << 20);
    let mut holder = server.engine.session().expect("a session");
    let mut client = server.client();
    client.say(QUICK);
    for round in 1..200_u32 {
        holder.begin().expect("begins");
        holder.get_for_update(b"held").expect("locked");
        client.send(&words("INCRBYFLOAT held 1"));
        client.send(&words("SET behind 1"));
        client.send(&words("GET held"));
        thread::sleep(Duration::from_micros(u64::from(round) * 5));
        holder.rollback().expect("rolled back");
        let first = client.reply();
        assert_eq!(client.reply(), b"+OK\r\n");
        let held = client.reply();
        if first[0] == b'$' {
            assert_eq!(first, held);
        } else {
            assert!(first.starts_with(b"-CONFLICT "), "{}", common::show(&first));
        }
    }
    let calls = common::of_command(&mut client, "incrbyfloat", "calls");
    assert_eq!(calls, 199, "each counts once");
}

/// The client goes, or is killed, while its request waits for another try.
#[test]
fn who_waits_may_go() {
    let server = start(256 << 20);
    let mut holder = server.engine.session().expect("a session");
    holder.begin().expect("begins");
    holder.set(b"held", b"1").expect("locked");
    let mut other = server.client();
    for round in 0..50 {
        let mut client = server.client();
        let id = client.say("CLIENT ID").trim()[1..].to_owned();
        client.send(&words("INCRBYFLOAT held 1"));
        if round % 2 == 0 {
            other.say(&format!("CLIENT KILL ID {id}"));
        }
        drop(client);
    }
    // Those whose clients went in an orderly way may come to it yet.
    holder.commit().expect("committed");
    wait_until("they are gone", || {
        other.say("CLIENT LIST").matches("id=").count() == 1
    });
}

/// No write that meets a conflict is made in the middle of a pause.
#[test]
fn a_pause_stops_what_is_tried_again() {
    let server = start(256 << 20);
    let mut holder = server.engine.session().expect("a session");
    let (mut a, mut b) = (server.client(), server.client());
    a.say(QUICK);
    for _ in 0..50 {
        holder.begin().expect("begins");
        holder.get_for_update(b"held").expect("locked");
        a.send(&words("INCRBYFLOAT held 1"));
        b.say("CLIENT PAUSE 100000 WRITE");
        holder.rollback().expect("rolled back");
        let before = b.say("GET held");
        thread::sleep(Duration::from_millis(5));
        assert_eq!(b.say("GET held"), before);
        b.say("CLIENT UNPAUSE");
        a.reply();
    }
}

/// INFO clears away what has expired for about a millisecond, and no single step of that
/// takes long.
#[test]
fn info_is_quick_while_many_keys_expire() {
    const KEYS: usize = 400_000;
    /// A busy machine delays some of them.
    const TIMES: usize = 30;
    // Its clock is stopped, so it is no other test's.
    let server = TestServer::start(&options(512 << 20));
    let mut client = server.client();
    // While the clock stands still nothing else clears away.
    let now = server.engine.now_ms();
    server.engine.stop_clock(now);
    for start in (0..KEYS).step_by(1000) {
        let set = |number| words(&format!("SET key{number} v PX 1000"));
        client.send(&(start..start + 1000).flat_map(set).collect::<Vec<_>>());
        let mut replies = [0; 5000];
        client.stream.read_exact(&mut replies).expect("replies");
    }
    server.engine.stop_clock(now + 2000);
    client.say(QUICK);
    let cleared = || server.engine.counters().expect("figures").records_expired;
    // On a slow machine the kernel may clear all away between two of them.
    let times = (0..TIMES).filter_map(|_| {
        let (before, begun) = (cleared(), Instant::now());
        assert!(client.say("INFO stats").contains("expired_keys:"));
        let time = begun.elapsed();
        let by_it = (cleared() - before) as usize;
        assert!(by_it < KEYS / 4, "{by_it} at once");
        (by_it > 0).then_some(time)
    });
    let Some(least) = times.min() else {
        assert!(is_emulated(), "there was nothing to do");
        return;
    };
    // It may wait for the processor as any other does.
    let noise = latencies(&mut client).pop().expect("a hundred");
    is_below(least, Duration::from_millis(5) + noise);
}

/// 100,000 keys.
fn fill(client: &mut Client) {
    for start in (0..100_000).step_by(250) {
        let keys: Vec<Vec<u8>> = (start..start + 250)
            .flat_map(|i| [format!("key{i}").into_bytes(), b"v".to_vec()])
            .collect();
        let mut request: Vec<&[u8]> = vec![b"mset"];
        request.extend(keys.iter().map(Vec::as_slice));
        assert_eq!(client.ask(&request), b"+OK\r\n");
    }
}

/// What takes long is left for others within MULTI, and within a script there, as it is by itself.
#[test]
fn others_are_served_during_long_commands_of_transactions() {
    const SCRIPT: &[u8] = b"return #redis.call('KEYS', 'none*')";
    let server = start(512 << 20);
    let (mut a, mut b) = (server.client(), server.client());
    fill(&mut a);
    let (x, y) = ([b'x'; 5000], [b'y'; 5000]);
    assert_eq!(a.ask(&[b"MSET", b"x", &x, b"y", &y]), b"+OK\r\n");
    b.say(QUICK);
    let long: [(&[&[u8]], &str); 3] = [
        (&[b"KEYS", b"none*"], "*1\r\n*0\r\n"),
        (&[b"EVAL_RO", SCRIPT, b"0"], "*1\r\n:0\r\n"),
        (&[b"LCS", b"x", b"y", b"LEN"], "*1\r\n:0\r\n"),
    ];
    for (words, expected) in long {
        assert_eq!(a.say("MULTI"), "+OK\r\n");
        assert_eq!(a.ask(words), b"+QUEUED\r\n");
        a.send(&request(&[b"EXEC"]));
        let (served, reply) = served_beside(&mut b, &mut a);
        assert_eq!(reply, expected.as_bytes(), "{}", common::show(&reply));
        assert!(
            served >= SLICES,
            "{served} replies beside {}",
            common::show(words[0])
        );
    }
}

/// It merges pages of the index and waits for grace periods, for others to do.
#[test]
fn others_are_served_during_memory_purge() {
    let server = start(512 << 20);
    let (mut a, mut b) = (server.client(), server.client());
    fill(&mut a);
    assert_eq!(a.say("FLUSHALL"), "+OK\r\n");
    b.say(QUICK);
    let pages = server.engine.stats().expect("figures").index_pages;
    a.send(&words("MEMORY PURGE"));
    let (served, reply) = served_beside(&mut b, &mut a);
    assert_eq!(reply, b"+OK\r\n");
    let left = server.engine.stats().expect("figures").index_pages;
    assert!(left < pages / 2, "{left} of {pages} pages of the index");
    assert!(served >= SLICES, "{served} replies meanwhile");
    // Nobody is kept waiting inside EXEC either.
    assert_eq!(a.say("MULTI"), "+OK\r\n");
    a.say("MEMORY PURGE");
    assert!(a.say("EXEC").starts_with("*1\r\n+OK"));
}

/// A large value needs the pages that others have emptied, or that are not there yet.
#[test]
fn others_are_served_while_room_is_made_for_a_large_value() {
    const LEN: usize = 150 << 20;
    let server = start(256 << 20);
    let (mut a, mut b) = (server.client(), server.client());
    let small = [b's'; 1000];
    for start in (0..140_000).step_by(250) {
        let keys: Vec<Vec<u8>> = (start..start + 250)
            .map(|i| format!("key{i}").into_bytes())
            .collect();
        let mut request: Vec<&[u8]> = vec![b"mset"];
        request.extend(keys.iter().flat_map(|key| [&key[..], &small]));
        assert_eq!(a.ask(&request), b"+OK\r\n");
    }
    assert_eq!(a.say("FLUSHALL"), "+OK\r\n");
    b.say(QUICK);
    let value = vec![b'l'; LEN];
    assert_eq!(a.ask(&[b"SET", b"large", &value]), b"+OK\r\n");
    assert_eq!(a.say("STRLEN large"), format!(":{LEN}\r\n"));
    // Twice is more than there is.
    let refused = a.ask(&[b"SET", b"other", &value]);
    assert!(refused.starts_with(b"-OOM "), "{}", common::show(&refused));
    assert_eq!(a.say("DEL large"), ":1\r\n");

    // Inside a transaction of the client's, and with others behind it.
    assert_eq!(a.say("BEGIN"), "+OK\r\n");
    let pair: [&[u8]; 5] = [
        b"MSETNX",
        b"x",
        &value[..1 << 20],
        b"y",
        &value[..120 << 20],
    ];
    assert_eq!(a.ask(&pair), b":1\r\n");
    assert_eq!(a.say("COMMIT"), "+OK\r\n");
    assert_eq!(a.say("STRLEN y"), format!(":{}\r\n", 120 << 20));
    a.send(&[request(&[b"DEL", b"x", b"y"]), request(&[b"GET", b"key1"])].concat());
    assert_eq!(
        (a.reply(), a.reply()),
        (b":2\r\n".to_vec(), b"$-1\r\n".to_vec())
    );
    assert_eq!(a.ask(&[b"SET", b"key1", b"v"]), b"+OK\r\n");
    assert_eq!(a.ask(&[b"GET", b"key1"]), bulk(b"v"));
}

/// What would stop the loop, and modules with threads of their own.
#[test]
fn nothing_in_the_server_waits() {
    const WAITS: [&str; 9] = [
        "thread::sleep",
        "::park",
        "park_timeout",
        "yield_now",
        "Condvar",
        ".join()",
        "engine.grow",
        "engine.sweep()",
        "wait_for_readers",
    ];
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked_at = 0;
    let mut folders = vec![sources.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("an entry").path();
            // The last one is waited for before the server listens, by tests, and at its end.
            let has_thread = [
                "eviction",
                "stats/metrics",
                "scripting/procedures/compiler.rs",
                "tables",
                "kernel/apart.rs",
            ];
            if has_thread.iter().any(|place| path == sources.join(place)) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            let mut found = WAITS.iter().filter(|&&wait| text.contains(wait));
            // SWAPDB waits for programs of the kernel to end: some ten milliseconds, and only where it
            // exchanges something.
            let swaps = path == sources.join("instance/mod.rs");
            // A server that goes on with another one's programs waits before it listens.
            let goes_on = path == sources.join("kernel/procedures.rs");
            let may_wait = swaps || goes_on;
            assert!(!may_wait || text.matches("wait_for_readers").count() == 1);
            let first = found.find(|&&wait| !(may_wait && wait == "wait_for_readers"));
            assert_eq!(first, None, "{}", path.display());
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "{looked_at} files");
    let server = fs::read_to_string(sources.join("server/starting.rs")).expect("text");
    assert!(server.contains("never_wait()"));
}
