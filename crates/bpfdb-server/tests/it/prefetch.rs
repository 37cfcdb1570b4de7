//! Cold values that the kernel has read before the daemon asks for them: every reply is what it would be
//! without.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb_log::Directory;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::{Secret, Settings};
use bpfdb_tests::server::{AtEnd, Client, Lent, TestServer, request, wait_until};

use super::groups::figure;

/// Values of many lengths, up to more than one read takes.
fn value(number: usize) -> Vec<u8> {
    let len = 100 + number * 7919 % 14_000;
    let mut word = number as u64 * 0x9E37_79B9 + 1;
    let bytes = (0..len).map(|_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 56) as u8
    });
    bytes.collect()
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn bulk(value: &[u8]) -> Vec<u8> {
    let mut reply = format!("${}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(value);
    reply.extend_from_slice(b"\r\n");
    reply
}

/// One whose files are the test's, which may damage them.
fn tiered(directory: &Path) -> TestServer {
    tiered_with(directory, prefetching())
}

fn prefetching() -> Settings {
    Settings {
        tier_prefetch: true,
        ..Settings::default()
    }
}

fn tiered_with(directory: &Path, settings: Settings) -> TestServer {
    let disk = Directory::own(directory).expect("a directory");
    TestServer::start_tiered(disk, settings)
}

fn lent(settings: Settings) -> Lent {
    TestServer::lent_tiered_in_files(settings)
}

/// How much a figure has grown since the test has its server.
fn grown(server: &Lent, client: &mut Client, name: &str) -> u64 {
    figure(client, name) - server.cold_before(name)
}

/// Sets so many keys, and waits until all of their values are in files.
fn fill(client: &mut Client, keys: usize) {
    for number in 0..keys {
        let set = client.ask(&[b"SET", &key(number), &value(number)]);
        assert_eq!(set, b"+OK\r\n");
    }
    until_cold(client, keys);
}

fn until_cold(client: &mut Client, keys: usize) {
    wait_until("values are in files", || {
        figure(client, "tier_values") == keys as u64
    });
}

/// GET of so many keys in a pipeline: every reply is right.
fn read_all(client: &mut Client, keys: usize) {
    let all = (0..keys).map(|number| request(&[b"GET", &key(number)]));
    client.send(&all.collect::<Vec<_>>().concat());
    for number in 0..keys {
        assert_eq!(client.reply(), bulk(&value(number)), "key {number}");
    }
}

/// MGET of so many keys, and its reply.
fn mget(keys: usize) -> (Vec<u8>, Vec<u8>) {
    let keys: Vec<Vec<u8>> = (0..keys).map(key).collect();
    let words: Vec<&[u8]> = [&b"MGET"[..]]
        .into_iter()
        .chain(keys.iter().map(Vec::as_slice))
        .collect();
    let mut expected = format!("*{}\r\n", keys.len()).into_bytes();
    (0..keys.len()).for_each(|number| expected.extend(bulk(&value(number))));
    (request(&words), expected)
}

/// Reads that the kernel has begun.
fn started(client: &mut Client) -> u64 {
    figure(client, "tier_prefetches")
}

#[test]
fn pipelines_and_transactions_find_values_read() {
    let server = lent(prefetching());
    let mut client = server.client();
    client.receive_until_known();
    const KEYS: usize = 64;
    fill(&mut client, KEYS);

    read_all(&mut client, KEYS);
    let pipeline = grown(&server, &mut client, "tier_prefetches");
    assert!(pipeline > 1, "hardly any of {KEYS} reads began before");
    until_cold(&mut client, KEYS);
    let (all, expected) = mget(KEYS);
    client.send(&all);
    assert_eq!(client.reply(), expected);
    until_cold(&mut client, KEYS);
    let block = [&b"MULTI"[..]].map(|word| request(&[word]));
    let reads = (0..KEYS).map(|number| request(&[b"GET", &key(number)]));
    let block = block.into_iter().chain(reads).chain([request(&[b"EXEC"])]);
    client.send(&block.collect::<Vec<_>>().concat());
    assert_eq!(client.reply(), b"+OK\r\n");
    for _ in 0..KEYS {
        assert_eq!(client.reply(), b"+QUEUED\r\n");
    }
    assert_eq!(client.reply(), expected);
    let together = grown(&server, &mut client, "tier_prefetches");
    assert!(
        together > pipeline + 2,
        "{together} after {pipeline}: hardly any of these reads began before"
    );
}

/// It gains nothing if its read begins before, while no other is under way.
#[test]
fn a_value_that_is_asked_for_alone_is_read_by_the_daemon() {
    let server = lent(prefetching());
    let mut client = server.client();
    client.receive_until_known();
    const KEYS: usize = 32;
    // What is read twice comes back to memory, so the last two are asked for in the end only.
    fill(&mut client, KEYS + 2);
    for number in 0..KEYS {
        assert_eq!(client.ask(&[b"GET", &key(number)]), bulk(&value(number)));
    }
    until_cold(&mut client, KEYS + 2);
    // Nor with others that are in memory, or are not there; nor twice.
    assert_eq!(client.say("SET short s"), "+OK\r\n");
    let first = bulk(&value(1));
    let alone = client.ask(&[b"MGET", b"none", b"short", &key(1), b"none", &key(1)]);
    let expected = [&b"*5\r\n$-1\r\n$1\r\ns\r\n"[..], &first, b"$-1\r\n", &first];
    assert_eq!(alone, expected.concat());
    assert_eq!(grown(&server, &mut client, "tier_prefetches"), 0);
    until_cold(&mut client, KEYS + 2);
    let both = client.ask(&[b"MGET", &key(KEYS), b"short", &key(KEYS + 1)]);
    let (first, second) = (bulk(&value(KEYS)), bulk(&value(KEYS + 1)));
    let expected = [&b"*3\r\n"[..], &first, b"$1\r\ns\r\n", &second];
    assert_eq!(both, expected.concat());
    assert_eq!(grown(&server, &mut client, "tier_prefetches"), 2);
}

/// One at a time by each of many clients.
#[test]
fn a_value_that_is_asked_for_while_others_are_read_is_read_before() {
    let server = lent(prefetching());
    const CLIENTS: usize = 8;
    const KEYS: usize = 64;
    let mut client = server.client();
    fill(&mut client, KEYS);
    wait_until("reads of many clients begin before", || {
        until_cold(&mut client, KEYS);
        thread::scope(|scope| {
            for first in 0..CLIENTS {
                let mut reader = server.client();
                scope.spawn(move || {
                    for number in (first..KEYS).step_by(CLIENTS) {
                        let reply = reader.ask(&[b"GET", &key(number)]);
                        assert_eq!(reply, bulk(&value(number)), "key {number}");
                    }
                });
            }
        });
        grown(&server, &mut client, "tier_prefetches") > 0
    });
}

/// A program wakes io_uring's thread: nothing else does while the daemon asks for none of these values.
#[test]
fn reads_that_begin_while_all_is_asleep_are_made() {
    let server = lent(prefetching());
    let mut client = server.client();
    const KEYS: usize = 4;
    fill(&mut client, KEYS);
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    let mut other = server.client();
    for round in 0..3 {
        // Ticks of the kernel's clock: its thread sleeps then.
        thread::sleep(Duration::from_millis(100));
        let all = (0..KEYS).map(|number| request(&[b"GET", &key(number)]));
        client.send(&all.collect::<Vec<_>>().concat());
        for _ in 0..KEYS {
            assert_eq!(client.reply(), b"+QUEUED\r\n");
        }
        let begun = (round + 1) * KEYS as u64;
        assert_eq!(grown(&server, &mut other, "tier_prefetches"), begun);
        wait_until("what is read and not asked for makes room", || {
            grown(&server, &mut other, "tier_prefetches_unused") == begun
        });
    }
    assert_eq!(client.say("DISCARD"), "+OK\r\n");
}

/// The address, length and file of a read that a program begins are right.
#[test]
fn what_programs_have_read_is_used() {
    let server = lent(prefetching());
    let mut client = server.client();
    const KEYS: usize = 64;
    fill(&mut client, KEYS);
    let (all, expected) = mget(KEYS);
    wait_until("values are used that programs have read", || {
        until_cold(&mut client, KEYS);
        client.send(&all);
        assert_eq!(client.reply(), expected);
        grown(&server, &mut client, "tier_prefetches_used") > 10
    });
    assert_eq!(grown(&server, &mut client, "tier_prefetches_failed"), 0);
}

#[test]
fn nothing_is_read_for_clients_that_may_not_ask() {
    let settings = Settings {
        require_pass: Secret("secret".into()),
        ..prefetching()
    };
    let server = lent(settings);
    let mut client = server.client();
    assert_eq!(client.say("AUTH secret"), "+OK\r\n");
    // More than nine are no request of a client that has not authenticated.
    const KEYS: usize = 9;
    fill(&mut client, KEYS);
    let (all, expected) = mget(KEYS);
    let mut stranger = server.client();
    let refused = |stranger: &mut Client, client: &mut Client, why: &str| {
        until_cold(client, KEYS);
        let before = started(client);
        for _ in 0..20 {
            stranger.send(&all);
            let reply = String::from_utf8(stranger.reply()).expect("text");
            assert!(reply.starts_with(why), "{reply}");
        }
        assert_eq!(started(client), before, "{why}");
    };
    refused(&mut stranger, &mut client, "-NOAUTH");
    assert_eq!(stranger.say("AUTH secret"), "+OK\r\n");
    let before = started(&mut client);
    wait_until(
        "values are read for a client that has authenticated",
        || {
            until_cold(&mut client, KEYS);
            stranger.send(&all);
            assert_eq!(stranger.reply(), expected);
            started(&mut client) > before
        },
    );
    assert_eq!(stranger.say("RESET"), "+RESET\r\n");
    refused(&mut stranger, &mut client, "-NOAUTH");
    assert_eq!(stranger.say("AUTH secret"), "+OK\r\n");
    assert!(stranger.say("SUBSCRIBE channel").starts_with("*3\r\n"));
    refused(&mut stranger, &mut client, "-ERR Can't execute");
}

#[test]
fn what_follows_a_command_that_the_kernel_does_not_know_is_read() {
    let server = lent(prefetching());
    let mut client = server.client();
    const KEYS: usize = 32;
    fill(&mut client, KEYS);
    let before = grown(&server, &mut client, "tier_prefetches");
    let reads = (0..KEYS).map(|number| request(&[b"GET", &key(number)]));
    let all = [request(&[b"INCRBYFLOAT", b"n", b"1"])];
    client.send(&all.into_iter().chain(reads).collect::<Vec<_>>().concat());
    assert_eq!(client.reply(), b"$1\r\n1\r\n");
    for number in 0..KEYS {
        assert_eq!(client.reply(), bulk(&value(number)), "key {number}");
    }
    assert!(grown(&server, &mut client, "tier_prefetches") > before + 1);
}

/// In a transaction, so that the daemon has the connection.
#[test]
fn what_is_about_keys_alone_has_no_value_read() {
    let server = lent(prefetching());
    let mut client = server.client();
    const KEYS: usize = 32;
    fill(&mut client, KEYS);
    let mut other = server.client();
    assert_eq!(other.say("SELECT 3"), "+OK\r\n");
    for name in ["s", "t"] {
        let set = format!("SET {name} {}", "x".repeat(400));
        assert_eq!(other.say(&set), "+OK\r\n");
    }
    until_cold(&mut client, KEYS + 2);
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    let before = grown(&server, &mut other, "tier_prefetches");
    for command in [&b"TTL"[..], b"EXISTS", b"TYPE", b"PERSIST"] {
        for number in 0..KEYS {
            let reply = client.ask(&[command, &key(number)]);
            assert_eq!(reply, b"+QUEUED\r\n");
        }
    }
    assert_eq!(grown(&server, &mut other, "tier_prefetches"), before);
    assert_eq!(client.say("DISCARD"), "+OK\r\n");
    // In the database that was selected in the transaction before.
    client.send(&[request(&[b"SELECT", b"3"]), request(&[b"MULTI"])].concat());
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.reply(), b"+OK\r\n");
    client.send(&[request(&[b"GET", b"s"]), request(&[b"GET", b"t"])].concat());
    assert_eq!(client.reply(), b"+QUEUED\r\n");
    assert_eq!(client.reply(), b"+QUEUED\r\n");
    assert_eq!(grown(&server, &mut other, "tier_prefetches"), before + 2);
    assert_eq!(client.say("DISCARD"), "+OK\r\n");
}

#[test]
fn values_of_other_types_and_databases_are_found() {
    let server = lent(prefetching());
    let mut client = server.client();
    assert_eq!(client.say("SELECT 3"), "+OK\r\n");
    let long = "x".repeat(400);
    assert_eq!(client.say(&format!("HSET h f {long}")), ":1\r\n");
    assert_eq!(client.say(&format!("RPUSH l {long} b")), ":2\r\n");
    assert_eq!(client.say(&format!("SET s {long} EX 1000")), "+OK\r\n");
    until_cold(&mut client, 3);
    let before = grown(&server, &mut client, "tier_prefetches");
    let all: [&[&[u8]]; 3] = [
        &[b"HGET", b"h", b"f"],
        &[b"LINDEX", b"l", b"1"],
        &[b"GETRANGE", b"s", b"398", b"500"],
    ];
    client.send(&all.map(request).concat());
    assert_eq!(client.reply(), bulk(long.as_bytes()));
    assert_eq!(client.reply(), b"$1\r\nb\r\n");
    assert_eq!(client.reply(), b"$2\r\nxx\r\n");
    assert_eq!(grown(&server, &mut client, "tier_prefetches"), before + 3);
    assert!(client.say("GET h").starts_with("-WRONGTYPE"));
}

#[test]
fn more_reads_than_there_are_slots_for_are_all_answered() {
    let server = lent(prefetching());
    let mut client = server.client();
    const KEYS: usize = 1500;
    fill(&mut client, KEYS);
    for _ in 0..3 {
        read_all(&mut client, KEYS);
    }
}

#[test]
fn clients_that_vanish_leave_no_slot_taken() {
    let server = lent(prefetching());
    let mut client = server.client();
    const KEYS: usize = 600;
    fill(&mut client, KEYS);
    for _ in 0..10 {
        let mut gone = server.client();
        let all = (0..KEYS).map(|number| request(&[b"GET", &key(number)]));
        gone.send(&all.collect::<Vec<_>>().concat());
    }
    // Each read has one end, and its slot is free then.
    wait_until("all reads have ended", || {
        until_cold(&mut client, KEYS);
        for number in 0..20 {
            assert_eq!(client.ask(&[b"GET", &key(number)]), bulk(&value(number)));
        }
        let ends = ["used", "late", "unused", "failed"];
        let ended = ends.map(|end| figure(&mut client, &format!("tier_prefetches_{end}")));
        let (ended, begun) = (ended.iter().sum::<u64>(), started(&mut client));
        assert!(ended <= begun, "{ended} of {begun}");
        ended == begun
    });
}

#[test]
fn a_flipped_bit_is_an_error_of_its_key_and_never_nil() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = tiered(directory.path());
    let mut client = server.client();
    client.receive_until_known();
    const KEYS: usize = 16;
    fill(&mut client, KEYS);
    const DAMAGED: usize = 5;
    assert!(
        flip(directory.path(), &value(DAMAGED)),
        "the value is in a file"
    );
    let all = (0..KEYS).map(|number| request(&[b"GET", &key(number)]));
    let all = all.collect::<Vec<_>>().concat();
    for round in 0..20 {
        client.send(&all);
        for number in 0..KEYS {
            let reply = client.reply();
            if number == DAMAGED {
                let reply = String::from_utf8_lossy(&reply);
                assert!(reply.starts_with("-TIER_CORRUPT"), "{reply}");
            } else {
                assert_eq!(reply, bulk(&value(number)), "round {round}, key {number}");
            }
        }
    }
    assert!(figure(&mut client, "tier_corrupt") >= 20);
    // What is written over is right again.
    let set = client.ask(&[b"SET", &key(DAMAGED), b"new"]);
    assert_eq!(set, b"+OK\r\n");
    assert_eq!(client.ask(&[b"GET", &key(DAMAGED)]), b"$3\r\nnew\r\n");
}

/// Flips a bit of this value in the file that has it.
fn flip(directory: &Path, value: &[u8]) -> bool {
    let files = fs::read_dir(directory.join("tier")).expect("a folder");
    let paths = files.map(|file| file.expect("a file").path());
    paths.into_iter().any(|path| {
        let bytes = fs::read(&path).expect("read");
        let mut windows = bytes.windows(value.len());
        let Some(at) = windows.position(|window| window == value) else {
            return false;
        };
        let at = at + value.len() / 2;
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        file.write_all_at(&[bytes[at] ^ 4], at as u64)
            .expect("written");
        true
    })
}

/// One client writes larger and larger numbers, others never see one become smaller, nor less than what was
/// acknowledged before they asked.
#[test]
fn what_is_written_meanwhile_wins() {
    let server = lent(prefetching());
    const KEYS: usize = 8;
    const WRITES: u64 = 400;
    let text = |version: u64| format!("{version:0>700}").into_bytes();
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let mut client = server.client();
    for number in 0..KEYS {
        assert_eq!(client.ask(&[b"SET", &key(number), &text(0)]), b"+OK\r\n");
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut reader = server.client();
                reader.receive_until_known();
                while !over.load(Ordering::Relaxed) {
                    for (number, acknowledged) in acknowledged.iter().enumerate() {
                        let least = acknowledged.load(Ordering::Acquire);
                        let reply = reader.ask(&[b"GET", &key(number)]);
                        let found = String::from_utf8(reply).expect("text");
                        let found = found.strip_prefix("$700\r\n").expect("a value");
                        let found: u64 = found.trim_end().parse().expect("a number");
                        assert!(found >= least, "key {number}: {found} after {least}");
                    }
                }
            });
        }
        let _end = AtEnd::of(&over);
        for version in 1..=WRITES {
            for (number, acknowledged) in acknowledged.iter().enumerate() {
                let set = client.ask(&[b"SET", &key(number), &text(version)]);
                assert_eq!(set, b"+OK\r\n");
                acknowledged.store(version, Ordering::Release);
            }
        }
    });
}

#[test]
fn it_can_be_switched_off_and_on() {
    let server = lent(prefetching());
    let mut client = server.client();
    client.receive_until_known();
    const KEYS: usize = 32;
    fill(&mut client, KEYS);
    assert_eq!(client.say("CONFIG SET tier-prefetch no"), "+OK\r\n");
    let before = grown(&server, &mut client, "tier_prefetches");
    read_all(&mut client, KEYS);
    assert_eq!(grown(&server, &mut client, "tier_prefetches"), before);
    assert_eq!(client.say("CONFIG SET tier-prefetch yes"), "+OK\r\n");
    // What comes before the daemon has given the connection back is the daemon's.
    wait_until("reads begin before", || {
        until_cold(&mut client, KEYS);
        read_all(&mut client, KEYS);
        grown(&server, &mut client, "tier_prefetches") > before
    });
}

/// Programs, ring and memory are there when they are wanted for the first time.
#[test]
fn it_can_be_switched_on_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        tier_prefetch: false,
        ..Settings::default()
    };
    let server = tiered_with(directory.path(), settings);
    let loader = server.prefetch_loader.clone().expect("a tier");
    let mut client = server.client();
    const KEYS: usize = 32;
    fill(&mut client, KEYS);
    let (all, expected) = mget(KEYS);
    client.send(&all);
    assert_eq!(client.reply(), expected);
    assert_eq!(started(&mut client), 0);
    assert!(!loader.is_asked());
    assert_eq!(client.say("CONFIG SET tier-prefetch yes"), "+OK\r\n");
    loader.wait();
    wait_until("reads begin in the kernel", || {
        until_cold(&mut client, KEYS);
        client.send(&all);
        assert_eq!(client.reply(), expected);
        started(&mut client) > 0
    });
}

/// A disk whose files the kernel cannot read.
#[test]
fn without_files_of_the_system_the_daemon_reads() {
    let server = TestServer::start_tiered(SimulatedDisk::new(1), prefetching());
    let mut client = server.client();
    client.receive_until_known();
    const KEYS: usize = 32;
    fill(&mut client, KEYS);
    read_all(&mut client, KEYS);
    assert_eq!(figure(&mut client, "tier_prefetches_used"), 0);
}
