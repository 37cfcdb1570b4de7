//! BEGIN READ ONLY beside writers: what it reads stays whole, and what it keeps is given up
//! when it is old and stands in a writer's way, not before.

use bpfdb_tests::server as common;

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{LocalClients, Settings};
use common::{
    AtEnd, Client, Lent, PATIENCE, TestServer, bulk, cgroup, kernel_calls, request, show,
    wait_until,
};

/// Longer than what fits beside a record, shorter than the longest reply of the kernel.
const LEN: usize = 20_000;
const TOO_OLD: &[u8] = b"-ERR the snapshot was too old, and ended for a writer or for memory; \
    run the read-only transaction again, or raise the maximum age of snapshots\r\n";
const VERSIONS_FULL: &[u8] = b"-ERR every version of this key is needed by a running snapshot; \
    end long read-only transactions, then run the transaction again\r\n";

fn start(local: bool, memory: u64) -> Lent {
    let options = bpfdb::Options {
        memory_limit: memory,
        ..bpfdb::Options::default()
    };
    let local_clients = if local {
        LocalClients::In(cgroup::own())
    } else {
        LocalClients::Off
    };
    let settings = Settings {
        local_clients,
        ..Settings::default()
    };
    TestServer::lent_as_told(&options, settings)
}

/// Snapshots that were ended for writers or for memory, since the engine began.
fn revoked(server: &TestServer) -> u64 {
    let counters = server.engine.counters().expect("figures");
    counters.snapshots_revoked
}

// ---- A long value beside a writer --------------------------------------------------

/// Short values are written faster than a client copies a long one: so many in one message
/// that a reader which must begin anew for each write would not come to an end.
const BURST: usize = 4096;

/// Writes some long values, whose bytes are all the same, then many short ones, and so on.
fn write_without_pause(client: &mut Client, over: &AtomicBool, written: &AtomicU64) {
    let short = request(&[b"SET", b"k", b"s"]).repeat(BURST);
    assert!(short.len() <= bpfdb::abi::BPFDB_LOCAL_MESSAGE_MAX as usize);
    for letter in (b'a'..=b'z').cycle() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let long = request(&[b"SET", b"k", &[letter; LEN]]).repeat(3);
        for (requests, count) in [(&long, 3), (&short, BURST)] {
            client.send(requests);
            let mut replies = vec![0; 5 * count];
            client.stream.read_exact(&mut replies).expect("replies");
            let refused = replies.chunks(5).find(|&reply| reply != b"+OK\r\n");
            assert!(refused.is_none(), "{}", show(&replies));
        }
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// Is this the long value, and whole?
fn is_long(reply: &[u8]) -> bool {
    if reply == bulk(b"s") {
        return false;
    }
    let letter = reply[reply.len() - 3];
    assert!(reply == bulk(&[letter; LEN]), "{}", show(reply));
    true
}

/// Snapshots that read the long value several times while it is overwritten. `ask` sends a
/// GET and has its reply. The number of GETs.
fn read_whole_values(server: &TestServer, ask: impl Fn(&mut Client) -> Vec<u8>) -> u64 {
    const SNAPSHOTS: u32 = 40;
    const READS: u64 = 8;
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut reader = server.client();
    reader.say("SET k s");
    let (mut reads, mut seen, begun) = (0, 0, Instant::now());
    thread::scope(|scope| {
        let _at_end = AtEnd::of(&over);
        scope.spawn(|| write_without_pause(&mut server.client(), &over, &written));
        while seen < SNAPSHOTS {
            assert!(
                begun.elapsed() < PATIENCE,
                "{seen} snapshots of a long value"
            );
            assert_eq!(reader.say("BEGIN READ ONLY"), "+OK\r\n");
            let first = ask(&mut reader);
            reads += 1;
            if is_long(&first) {
                seen += 1;
                let end = (reads + READS, written.load(Ordering::Relaxed) + 1);
                while reads < end.0 || written.load(Ordering::Relaxed) < end.1 {
                    let again = ask(&mut reader);
                    assert!(again == first, "{} after {}", show(&again), show(&first));
                    reads += 1;
                }
            }
            assert_eq!(reader.say("COMMIT"), "+OK\r\n");
        }
    });
    reads
}

fn get() -> Vec<u8> {
    request(&[b"GET", b"k"])
}

#[test]
fn the_kernel_reads_whole_values_beside_a_busy_writer() {
    if !common::kernel_answers() {
        return;
    }
    for local in [true, false] {
        let server = start(local, 256 << 20);
        let mut other = server.client();
        let answered = || {
            let counters = server.engine.counters().expect("figures");
            counters.redis().net.requests_local
        };
        let before = answered();
        let reads = read_whole_values(&server, |client| {
            client.send(&get());
            client.reply()
        });
        let in_send = answered() - before;
        assert_eq!(
            in_send > reads,
            local,
            "{in_send} requests answered in send()"
        );
        let calls = kernel_calls(&mut other, "get");
        assert!(
            calls >= reads * 9 / 10,
            "{calls} of {reads} answered in the kernel"
        );
    }
}

#[test]
fn the_daemon_reads_whole_values_beside_a_busy_writer() {
    let server = start(false, 256 << 20);
    let mut other = server.client();
    read_whole_values(&server, |client| {
        // What stands behind a command for the daemon is answered there too.
        client.send(&[request(&[b"LASTSAVE"]), get()].concat());
        assert_eq!(client.reply()[0], b':');
        client.reply()
    });
    assert_eq!(kernel_calls(&mut other, "get"), 0);
}

// ---- Reports beside writers ------------------------------------------------------------

/// Accounts, what each has at first, and how many each of two writers has for itself.
const ACCOUNTS: usize = 100;
const BALANCE: i64 = 1000;
const OWN: usize = ACCOUNTS / 2;

fn account(number: usize) -> String {
    format!("account{number}")
}

/// Moves money between two accounts of this writer's own, until it is over; how often.
fn transfer(client: &mut Client, writer: usize, over: &AtomicBool) -> usize {
    let mut transfers = 0;
    while !over.load(Ordering::Relaxed) {
        let [from, to] =
            [transfers * 7, transfers * 7 + 1].map(|n| account(writer * OWN + n % OWN));
        let block = [
            request(&[b"MULTI"]),
            request(&[b"DECRBY", from.as_bytes(), b"3"]),
            request(&[b"INCRBY", to.as_bytes(), b"3"]),
            request(&[b"EXEC"]),
        ];
        client.send(&block.concat());
        for expected in [&b"+OK"[..], b"+QUEUED", b"+QUEUED", b"*2"] {
            let reply = client.reply();
            assert!(reply.starts_with(expected), "{}", show(&reply));
        }
        transfers += 1;
    }
    transfers
}

/// The sum of all accounts over a new snapshot.
fn report(client: &mut Client) -> i64 {
    let keys: Vec<String> = (0..ACCOUNTS).map(account).collect();
    let gets = keys.iter().map(|key| request(&[b"GET", key.as_bytes()]));
    let gets: Vec<Vec<u8>> = gets.collect();
    assert_eq!(client.say("BEGIN READ ONLY"), "+OK\r\n");
    client.send(&gets.concat());
    let mut sum = 0;
    for _ in 0..ACCOUNTS {
        let reply = String::from_utf8(client.reply()).expect("text");
        let balance = reply.lines().nth(1).expect("a value");
        sum += balance.parse::<i64>().expect("a number");
    }
    assert_eq!(client.say("COMMIT"), "+OK\r\n");
    sum
}

#[test]
fn reports_of_a_client_have_one_sum_and_refuse_no_writer() {
    const REPORTS: u32 = 200;
    let server = start(false, 256 << 20);
    let before = revoked(&server);
    let mut reader = server.client();
    for number in 0..ACCOUNTS {
        let set = format!("SET {} {BALANCE}", account(number));
        assert_eq!(reader.say(&set), "+OK\r\n");
    }
    let over = AtomicBool::new(false);
    let transfers: usize = thread::scope(|scope| {
        let at_end = AtEnd::of(&over);
        let (server, over) = (&server, &over);
        let write = |writer| move || transfer(&mut server.client(), writer, over);
        let writers = [0, 1].map(|writer| scope.spawn(write(writer)));
        for number in 0..REPORTS {
            let sum = report(&mut reader);
            assert_eq!(sum, ACCOUNTS as i64 * BALANCE, "report {number}");
        }
        drop(at_end);
        let ended = writers.map(|writer| writer.join().expect("a writer"));
        ended.into_iter().sum()
    });
    assert!(transfers > 0, "nothing was written");
    assert_eq!(revoked(&server), before);
}

// ---- Memory that one snapshot holds ------------------------------------------------

const MEMORY: u64 = 64 << 20;
/// More than half of the memory: all of them twice do not fit.
const KEYS: usize = 1600;

fn set(client: &mut Client, key: usize, letter: u8) -> Vec<u8> {
    let key = format!("key{key}");
    client.ask(&[b"SET", key.as_bytes(), &[letter; LEN]])
}

fn read(client: &mut Client, key: usize) -> Vec<u8> {
    client.say(&format!("GET key{key}")).into_bytes()
}

/// Writes all keys; the number of the first for which there is no memory.
fn first_refused(writer: &mut Client) -> Option<usize> {
    (0..KEYS).find(|&key| {
        let reply = set(writer, key, b'n');
        let refused = reply.starts_with(b"-OOM ");
        assert!(refused || reply == b"+OK\r\n", "{}", show(&reply));
        refused
    })
}

/// A reader with a snapshot, and a writer that has been refused for the memory that it
/// holds. Snapshots have no maximum age.
fn with_a_refused_writer(server: &TestServer) -> (Client, Client) {
    let (mut reader, mut writer) = (server.client(), server.client());
    assert_eq!(writer.say("CONFIG SET snapshot-max-age 0"), "+OK\r\n");
    for key in 0..KEYS {
        assert_eq!(set(&mut writer, key, b'o'), b"+OK\r\n", "{key}");
    }
    assert_eq!(reader.say("BEGIN READ ONLY"), "+OK\r\n");
    assert_eq!(read(&mut reader, 0), bulk(&[b'o'; LEN]));
    let refused = first_refused(&mut writer).expect("all values twice do not fit");
    assert!(refused > KEYS / 10, "refused at the {refused}th key");
    (reader, writer)
}

#[test]
fn without_a_maximum_age_a_snapshot_outlasts_the_writers() {
    let server = start(false, MEMORY);
    let before = revoked(&server);
    let (mut reader, mut writer) = with_a_refused_writer(&server);
    // However old it gets.
    thread::sleep(Duration::from_millis(1500));
    assert!(first_refused(&mut writer).is_some());
    for key in 0..KEYS {
        assert!(read(&mut reader, key) == bulk(&[b'o'; LEN]), "{key}");
    }
    assert_eq!(reader.say("COMMIT"), "+OK\r\n");
    assert_eq!(revoked(&server), before);
    // It was the snapshot that the writer was refused for.
    wait_until("its memory is given back", || {
        first_refused(&mut writer).is_none()
    });
}

#[test]
fn an_old_snapshot_ends_for_memory() {
    let server = start(false, MEMORY);
    let (mut reader, mut writer) = with_a_refused_writer(&server);
    assert_eq!(writer.say("CONFIG SET snapshot-max-age 1"), "+OK\r\n");
    wait_until("the snapshot is old, and its memory is given back", || {
        first_refused(&mut writer).is_none()
    });
    for key in [0, KEYS - 1] {
        let reply = read(&mut reader, key);
        assert!(reply == TOO_OLD, "{}", show(&reply));
    }
    assert_eq!(reader.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(reader.say("BEGIN READ ONLY"), "+OK\r\n");
    assert!(read(&mut reader, 0) == bulk(&[b'n'; LEN]));
}

// ---- All versions of one key ---------------------------------------------------------

/// As many snapshots as the engine keeps versions, with a write after each: what the last
/// write was replied.
fn fill_versions(server: &TestServer, writer: &mut Client, values: &str) -> (Vec<Client>, String) {
    let mut last = String::new();
    let readers = (0..bpfdb::Options::default().versions)
        .map(|number| {
            assert!(last.is_empty() || last == "+OK\r\n", "{number}: {last}");
            let mut reader = server.client();
            assert_eq!(reader.say("BEGIN READ ONLY"), "+OK\r\n");
            last = writer.say(&format!("SET key {values}{number}"));
            reader
        })
        .collect();
    (readers, last)
}

#[test]
fn idle_snapshots_end_for_a_writer_when_they_are_old() {
    const AGE: Duration = Duration::from_secs(2);
    let server = start(false, 256 << 20);
    let before = revoked(&server);
    let mut writer = server.client();
    assert_eq!(writer.say("CONFIG SET snapshot-max-age 1000"), "+OK\r\n");
    assert_eq!(writer.say("SET key start"), "+OK\r\n");
    let begun = Instant::now();
    let (mut old, last) = fill_versions(&server, &mut writer, "old");
    assert_eq!(last.as_bytes(), VERSIONS_FULL);
    assert_eq!(old[0].say("GET key"), "$5\r\nstart\r\n");

    assert_eq!(writer.say("CONFIG SET snapshot-max-age 2"), "+OK\r\n");
    wait_until("the first snapshot is old enough", || {
        let reply = writer.say("SET key late");
        let refused = reply.as_bytes() == VERSIONS_FULL;
        assert!(refused || reply == "+OK\r\n", "{reply}");
        !refused
    });
    let waited = begun.elapsed();
    // By the engine's clock, which a timer advances.
    assert!(waited >= AGE - Duration::from_millis(500), "{waited:?}");
    assert_eq!(old[0].say("GET key").as_bytes(), TOO_OLD);

    // The others end only when they too are in the way: for younger ones.
    thread::sleep(AGE);
    assert_eq!(old[1].say("GET key"), "$4\r\nold0\r\n");
    let (mut young, _) = fill_versions(&server, &mut writer, "young");
    assert_eq!(young[0].say("GET key"), "$4\r\nlate\r\n");
    assert_eq!(young[1].say("GET key"), "$6\r\nyoung0\r\n");
    for reader in &mut old {
        assert_eq!(reader.say("GET key").as_bytes(), TOO_OLD);
        assert_eq!(reader.say("ROLLBACK"), "+OK\r\n");
    }
    assert_eq!(revoked(&server) - before, old.len() as u64);
}
