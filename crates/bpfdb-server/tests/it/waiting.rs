//! Requests that wait: for the end of CLIENT PAUSE, or for a long command that is
//! executed in slices.

use bpfdb_tests::server as common;

use std::io::Read;
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::settings::is_emulated;
use common::{AtEnd, Client, Lent, TestServer, request, wait_until};

/// What would have come by then.
const MOMENT: Duration = Duration::from_millis(100);

/// What somebody else waits for his turn while a long command is executed in slices.
const TURN: Duration = Duration::from_millis(20);

/// An emulated machine takes as many times as long, at least.
fn slowness() -> u32 {
    if is_emulated() { 5 } else { 1 }
}

fn start() -> Lent {
    TestServer::shared()
}

fn in_kernel(server: &TestServer) -> u64 {
    server
        .engine
        .counters()
        .expect("figures")
        .redis()
        .requests_by_kernel()
}

// ---- CLIENT PAUSE ------------------------------------------------------------------

#[test]
fn writes_wait_and_reads_do_not() {
    if !common::kernel_answers() {
        return;
    }
    let server = start();
    let [mut a, mut b, mut c] = std::array::from_fn(|_| server.client());
    a.say("SET a 1");
    assert_eq!(b.say("GET a"), "$1\r\n1\r\n");
    c.say("BEGIN");
    assert_eq!(c.say("SET c 1"), "+OK\r\n");
    assert_eq!(a.say("CLIENT PAUSE 100000 WRITE"), "+OK\r\n");

    // The kernel had this connection.
    b.send(
        &[
            request(&[b"get", b"a"]),
            request(&[b"set", b"a", b"2"]),
            request(&[b"get", b"a"]),
        ]
        .concat(),
    );
    assert_eq!(b.reply(), b"$1\r\n1\r\n");
    c.send(&request(&[b"commit"]));
    let mut d = server.client();
    assert_eq!(d.say("MULTI"), "+OK\r\n");
    assert_eq!(d.say("INCR d"), "+QUEUED\r\n");
    d.send(&request(&[b"exec"]));
    thread::sleep(MOMENT);
    for client in [&mut b, &mut c, &mut d] {
        assert!(client.replies_at_hand().is_empty(), "they wait");
    }
    let mut e = server.client();
    assert_eq!(e.say("MGET a c d"), "*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n");
    // What is refused need not wait.
    assert!(e.say("SET a").starts_with("-ERR wrong number"));
    // One that waits may go.
    e.send(&request(&[b"set", b"e", b"1"]));
    drop(e);

    assert_eq!(a.say("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(b.reply(), b"+OK\r\n");
    assert_eq!(b.reply(), b"$1\r\n2\r\n");
    assert_eq!(c.reply(), b"+OK\r\n");
    assert_eq!(d.reply(), b"*1\r\n:1\r\n");
    assert_eq!(a.say("GET c"), "$1\r\n1\r\n");

    // The kernel answers again, when the daemon has given the connection back.
    wait_until("the kernel answers", || {
        let before = in_kernel(&server);
        b.say("GET a");
        in_kernel(&server) > before
    });
    let before = in_kernel(&server);
    for _ in 0..20 {
        b.say("GET a");
    }
    assert!(in_kernel(&server) >= before + 20);
}

#[test]
fn all_wait_until_the_time_is_over() {
    const LENGTH: Duration = Duration::from_millis(300);
    let server = start();
    let (mut a, mut b) = (server.client(), server.client());
    assert_eq!(b.say("PING"), "+PONG\r\n");
    let begun = Instant::now();
    let command = format!("CLIENT PAUSE {}", LENGTH.as_millis());
    assert_eq!(a.say(&command), "+OK\r\n");
    assert_eq!(b.say("PING"), "+PONG\r\n");
    let waited = begun.elapsed();
    assert!(waited >= LENGTH - Duration::from_millis(5), "{waited:?}");
    assert!(waited < LENGTH * 10, "{waited:?}");
    // The longer of two counts; and somebody can end it.
    a.say("CLIENT PAUSE 100000");
    a.send(&request(&[b"client", b"unpause"]));
    assert_eq!(a.reply(), b"+OK\r\n");
    assert_eq!(b.say("PING"), "+PONG\r\n");

    assert_eq!(b.say("SET a 1"), "+OK\r\n");
}

/// While others write as fast as they can, nothing changes once they are paused.
#[test]
fn a_pause_holds_whoever_answers() {
    const CLIENTS: usize = 3;
    let server = start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _at_end = AtEnd::of(&over);
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                let pipeline = request(&[b"incr", b"counter"]).repeat(16);
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    client.send(&pipeline);
                    for _ in 0..16 {
                        let reply = String::from_utf8(client.reply()).expect("text");
                        let number = reply.trim().strip_prefix(':').and_then(|n| n.parse().ok());
                        let number: u64 = number.expect("a number");
                        assert!(number > last);
                        last = number;
                    }
                }
            });
        }
        let mut client = server.client();
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(20));
            client.say("CLIENT PAUSE 100000 WRITE");
            // One that was being executed in the kernel.
            thread::sleep(Duration::from_millis(50));
            let counter = client.say("GET counter");
            thread::sleep(Duration::from_millis(50));
            assert_eq!(client.say("GET counter"), counter);
            client.say("CLIENT UNPAUSE");
            wait_until("it goes on", || client.say("GET counter") != counter);
        }
        over.store(true, Ordering::Relaxed);
    });
}

// ---- Long commands -------------------------------------------------------------------

const KEYS: usize = 50_000;
/// Of the value that is compared with itself.
const LONG: usize = 4000;

fn key(i: usize) -> Vec<u8> {
    format!("key{i:07}").into_bytes()
}

fn fill(client: &mut Client) {
    for start in (0..KEYS).step_by(500) {
        let keys: Vec<Vec<u8>> = (start..start + 500).map(key).collect();
        let mut words: Vec<&[u8]> = vec![b"mset"];
        words.extend(keys.iter().flat_map(|key| [&key[..], b"v"]));
        assert_eq!(client.ask(&words), b"+OK\r\n");
    }
    let long = [b'a'; LONG];
    assert_eq!(client.ask(&[b"set", b"long", &long]), b"+OK\r\n");
}

fn all_keys(name: &[u8]) -> Vec<u8> {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let mut words = vec![name];
    words.extend(keys.iter().map(Vec::as_slice));
    request(&words)
}

/// Long requests, and replies of which the length is known.
fn long_commands() -> Vec<(&'static str, Vec<u8>, usize)> {
    let header = format!("*{KEYS}\r\n").len();
    vec![
        ("KEYS", request(&[b"keys", b"key*"]), header + KEYS * 17),
        (
            "LCS",
            request(&[b"lcs", b"long", b"long", b"len"]),
            ":4000\r\n".len(),
        ),
        ("MGET", all_keys(b"mget"), header + KEYS * 7),
        ("EXISTS", all_keys(b"exists"), format!(":{KEYS}\r\n").len()),
        ("FLUSHALL", request(&[b"flushall"]), "+OK\r\n".len()),
    ]
}

/// Somebody whose requests the daemon answers too is served meanwhile.
#[test]
fn long_commands_let_others_have_their_turn() {
    let server = start();
    let mut client = server.client();
    fill(&mut client);
    // What a busy machine makes anybody wait.
    let mut quiet: Vec<Duration> = (0..100)
        .map(|_| {
            let begun = Instant::now();
            client.say("BITPOS absent 1");
            begun.elapsed()
        })
        .collect();
    quiet.sort();
    let turn = TURN * slowness() + 4 * quiet[quiet.len() / 2];
    let over = AtomicBool::new(false);
    let latencies = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let _at_end = AtEnd::of(&over);
        scope.spawn(|| {
            let mut bystander = server.client();
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                bystander.say("BITPOS absent 1");
                latencies.lock().expect("no panic").push(begun.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
        });
        for (name, bytes, len) in long_commands() {
            thread::sleep(Duration::from_millis(20));
            latencies.lock().expect("no panic").clear();
            let begun = Instant::now();
            let mut sender = client.stream.try_clone().expect("a second handle");
            scope.spawn(move || std::io::Write::write_all(&mut sender, &bytes).expect("sent"));
            let mut reply = vec![0; len];
            client.stream.read_exact(&mut reply).expect("a reply");
            let took = begun.elapsed();
            let mut others = std::mem::take(&mut *latencies.lock().expect("no panic"));
            others.sort();
            let longest = others.last().copied().unwrap_or(took);
            let usual = others.get(others.len() / 2).copied().unwrap_or(took);
            println!(
                "{name}: {took:?}; others: {usual:?}, at most {longest:?}, {}",
                others.len()
            );
            assert!(
                reply.ends_with(b"\r\n") && b"*:+".contains(&reply[0]),
                "{name}"
            );
            // The machine may be busy with something else: the usual is what counts.
            assert!(usual < turn, "{name}: {usual:?}, {turn:?}");
            assert!(
                longest < took.max(MOMENT),
                "{name}: {longest:?} of {took:?}"
            );
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
}

#[test]
fn what_is_behind_a_long_command_waits_for_it() {
    let server = start();
    let mut client = server.client();
    fill(&mut client);
    let pipeline = [
        request(&[b"lcs", b"long", b"long", b"len"]),
        request(&[b"set", b"a", b"1"]),
        request(&[b"lcs", b"long", b"long", b"idx", b"idx"]),
        request(&[b"keys", b"key000001?"]),
        request(&[b"lcs", b"long", b"long", b"len"]),
        request(&[b"get", b"a"]),
        request(&[b"nonsense"]),
    ];
    client.send(&pipeline.concat());
    assert_eq!(client.reply(), b":4000\r\n");
    assert_eq!(client.reply(), b"+OK\r\n");
    assert!(client.reply().starts_with(b"*4\r\n$7\r\nmatches\r\n"));
    assert!(client.reply().starts_with(b"*10\r\n"));
    assert_eq!(client.reply(), b":4000\r\n");
    assert_eq!(client.reply(), b"$1\r\n1\r\n");
    assert!(client.reply().starts_with(b"-ERR unknown command"));

    // In one go inside EXEC, though another one is on its way; without a reply; and one that fails.
    let mut other = server.client();
    other.send(&request(&[b"lcs", b"long", b"long", b"len"]));
    client.say("MULTI");
    client.say("LCS long long LEN");
    client.say("KEYS key000001?");
    assert!(client.say("EXEC").starts_with("*2\r\n:4000\r\n*10\r\n"));
    assert_eq!(other.reply(), b":4000\r\n");
    client.send(&request(&[b"client", b"reply", b"skip"]));
    client.send(&request(&[b"keys", b"*"]));
    assert_eq!(client.say("GET a"), "$1\r\n1\r\n");
    client.say("BEGIN");
    assert_eq!(client.say("FLUSHALL"), "+OK\r\n");
    assert_eq!(client.say("GET a"), "$-1\r\n");
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(client.say("DBSIZE"), format!(":{}\r\n", KEYS + 2));
}

/// Clients leave in the middle: nothing stays behind.
#[test]
fn connections_may_end_during_a_long_command() {
    let server = start();
    let mut client = server.client();
    fill(&mut client);
    let sessions = || server.engine.stats().expect("figures").sessions;
    let before = sessions();
    for bytes in [
        all_keys(b"mget"),
        request(&[b"keys", b"*"]),
        request(&[b"lcs", b"long", b"long"]),
    ] {
        for _ in 0..3 {
            let mut other = server.client();
            other.send(&bytes);
            drop(other);
        }
    }
    // This one only says that it will send nothing more.
    let mut other = server.client();
    other.send(&request(&[b"lcs", b"long", b"long", b"len"]));
    other.stream.shutdown(Shutdown::Write).expect("half closed");
    assert_eq!(other.until_closed(), b":4000\r\n");
    wait_until("all sessions are closed", || sessions() == before);
    let snapshots = || server.engine.stats().expect("figures").snapshots;
    assert_eq!(snapshots(), 0);
    assert_eq!(client.say("GET long").len(), LONG + "$4000\r\n\r\n".len());
}
