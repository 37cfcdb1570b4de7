//! The disk does not answer for some time, and many write: they are held up, then refused, and
//! nothing of what was acknowledged is lost.

use bpfdb_tests::server as common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Status};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::namespace;
use bpfdb_tests::settings::is_emulated;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use common::{AtEnd, Client, PATIENCE, TestServer, cgroup, request, show, wait_until};

const NO_ROOM: &[u8] = b"-ERR the log has no room";
/// How long a write waits for room at least: 500 pauses of a millisecond (attempts.h), but for
/// what a timer may be early.
const BOUND: Duration = Duration::from_millis(450);
/// What the engine waits for the disk before it is read-only: the product's default.
const EXPOSURE: Duration = Duration::from_secs(1);
/// What the disk does not answer for.
const HELD: Duration = Duration::from_millis(2500);

/// Between two reads of a client, and two writes that find no room.
const MOMENT: Duration = Duration::from_millis(1);

/// Bytes of a value that fills the log.
const LEN: usize = 10_000;

/// Lets the disk answer again at the end, also if that is a panic.
struct Release<'a>(&'a SimulatedDisk);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

fn start(disk: &SimulatedDisk, settings: Settings) -> TestServer {
    let settings = Settings {
        local_clients: cgroup::chosen(),
        ..settings
    };
    TestServer::start_logged_as_told(disk, settings, EXPOSURE)
}

fn info(client: &mut Client, section: &str, field: &str) -> u64 {
    let page = client.say(&format!("INFO {section}"));
    let line = page.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|line| line.strip_prefix(':'));
    let value = value.unwrap_or_else(|| panic!("no {field} in {page}"));
    value.parse().expect("a number")
}

fn refusals(client: &mut Client) -> u64 {
    info(client, "bpfdb", "bpfdb_errors_log_full")
}

/// A counter of /metrics.
fn metric(address: SocketAddr, name: &str) -> u64 {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a response");
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {page}")).trim();
    value.parse().expect("a number")
}

fn begin_write(client: &mut Client, number: usize) {
    let key = format!("fill:{number}");
    client.send(&request(&[b"SET", key.as_bytes(), &[b'v'; LEN]]));
}

/// Writes until the log has no room: the number of the write that waits for it. Its reply has not
/// come, and the engine has refused it before.
fn fill(client: &mut Client, other: &mut Client) -> usize {
    for number in 0.. {
        let before = refusals(other);
        begin_write(client, number);
        loop {
            if let Some(reply) = client.replies_at_hand().first() {
                assert_eq!(show(reply), show(b"+OK\r\n"));
                break;
            }
            // Not only in the way of a client that leaves at once.
            if refusals(other) >= before + 10 {
                return number;
            }
        }
    }
    unreachable!("rings are finite");
}

/// The same until a write is refused: the reply, and the time that it took.
fn fill_until_refused(client: &mut Client) -> (Vec<u8>, Duration) {
    for number in 0.. {
        let begun = Instant::now();
        begin_write(client, number);
        let reply = client.reply();
        if reply != b"+OK\r\n" {
            return (reply, begun.elapsed());
        }
    }
    unreachable!("rings are finite");
}

#[test]
fn a_write_is_held_up_and_then_refused_and_that_is_counted() {
    let disk = SimulatedDisk::new(1);
    let server = start(
        &disk,
        Settings {
            metrics_address: Some(([127, 0, 0, 1], 0).into()),
            ..Settings::default()
        },
    );
    let mut client = server.client();
    let address = client.say("CONFIG GET metrics-address");
    let address = address
        .lines()
        .last()
        .expect("a value")
        .parse()
        .expect("an address");
    let counter = "bpfdb_errors_total{error=\"log_full\"}";
    assert_eq!((refusals(&mut client), metric(address, counter)), (0, 0));
    let errors = info(&mut client, "stats", "total_error_replies");

    let release = Release(&disk);
    disk.hold(true);
    let (refused, took) = fill_until_refused(&mut client);
    assert!(refused.starts_with(NO_ROOM), "{}", show(&refused));
    assert!(took >= BOUND, "after {took:?}");
    let counted = refusals(&mut client);
    assert!(counted > 0);
    assert_eq!(metric(address, counter), counted);
    assert_eq!(
        info(&mut client, "stats", "total_error_replies"),
        errors + 1
    );
    drop(release);
    wait_until("there is room", || client.say("SET a 1") == "+OK\r\n");
}

#[test]
fn a_write_succeeds_if_room_comes_in_time() {
    let disk = SimulatedDisk::new(2);
    let server = start(&disk, Settings::default());
    let mut client = server.client();
    let release = Release(&disk);
    disk.hold(true);
    let last = fill(&mut client, &mut server.client());
    drop(release);
    assert_eq!(show(&client.reply()), show(b"+OK\r\n"));
    assert_eq!(
        client.say(&format!("STRLEN fill:{last}")),
        format!(":{LEN}\r\n")
    );
    assert_eq!(client.say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    drop(client);
    server.stop();
    let server = start(&disk.lose_power(), Settings::default());
    let keys = format!(":{}\r\n", last + 1);
    assert_eq!(server.client().say("DBSIZE"), keys, "no hole");
}

// ---- Many clients ------------------------------------------------------------------

/// What clients were replied.
#[derive(Default)]
struct Told {
    /// Keys with their values.
    acknowledged: BTreeMap<String, Vec<u8>>,
    refused: Vec<String>,
}

/// The state of the test, for all its threads.
#[derive(Default)]
struct Load {
    told: Mutex<Told>,
    stop: AtomicBool,
    /// Writes that were acknowledged, and refused, so far.
    written: AtomicU64,
    refused: AtomicU64,
    read: AtomicU64,
}

impl Load {
    fn note(&self, keys: &[String], value: &[u8], acknowledged: bool) {
        let mut told = self.told.lock().expect("no panic");
        if acknowledged {
            let pairs = keys.iter().map(|key| (key.clone(), value.to_vec()));
            told.acknowledged.extend(pairs);
            self.written.fetch_add(1, Ordering::Relaxed);
        } else {
            told.refused.extend_from_slice(keys);
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

fn value_of(key: &str) -> Vec<u8> {
    key.bytes().cycle().take(2000 + key.len() % 7).collect()
}

/// SETs one after the other; none is tried again.
fn write(load: &Load, mut client: Client, name: &str) {
    for number in 0.. {
        let key = format!("{name}:{number}");
        let value = value_of(&key);
        let reply = client.ask(&[b"SET", key.as_bytes(), &value]);
        let acknowledged = reply == b"+OK\r\n";
        assert!(
            acknowledged || reply.starts_with(NO_ROOM),
            "{}",
            show(&reply)
        );
        load.note(&[key], &value, acknowledged);
        if !load.goes_on() {
            return;
        }
    }
}

/// Blocks of two keys with the same value: both are there, or none.
fn write_blocks(load: &Load, mut client: Client) {
    for number in 0.. {
        let keys = ["left", "right"].map(|side| format!("block:{number}:{side}"));
        let value = value_of("block");
        let mut bytes = request(&[b"MULTI"]);
        for key in &keys {
            bytes.extend(request(&[b"SET", key.as_bytes(), &value]));
        }
        bytes.extend(request(&[b"EXEC"]));
        client.send(&bytes);
        let replies: [Vec<u8>; 4] = std::array::from_fn(|_| client.reply());
        let acknowledged = replies[3] == b"*2\r\n+OK\r\n+OK\r\n";
        assert!(
            acknowledged || replies[3].starts_with(b"-"),
            "{}",
            show(&replies[3])
        );
        load.note(&keys, &value, acknowledged);
        if !load.goes_on() {
            return;
        }
    }
}

/// As a program that embeds the engine does.
fn write_by_library(load: &Load, engine: &Engine) {
    let mut session = engine.session().expect("a session");
    for number in 0.. {
        let key = format!("library:{number}");
        let value = value_of(&key);
        let outcome = session.set(key.as_bytes(), &value);
        assert!(
            matches!(outcome, Ok(()) | Err(Status::LogFull | Status::LogClosed)),
            "{outcome:?}"
        );
        load.note(&[key], &value, outcome.is_ok());
        if !load.goes_on() {
            return;
        }
        // It is refused at once, and others need the processor.
        if outcome.is_err() {
            thread::sleep(MOMENT);
        }
    }
}

fn read(load: &Load, mut client: Client) {
    while load.goes_on() {
        assert_eq!(client.say("GET old"), "$5\r\nvalue\r\n");
        load.read.fetch_add(1, Ordering::Relaxed);
        thread::sleep(MOMENT);
    }
}

/// Checks the figures while the disk is held and after, and ends the load.
fn watch(load: &Load, disk: &SimulatedDisk) {
    let _end = AtEnd::of(&load.stop);
    let release = Release(disk);
    wait_until("they write", || load.written.load(Ordering::Relaxed) > 100);
    disk.hold(true);
    let begun = Instant::now();
    wait_until("writes are refused", || {
        load.refused.load(Ordering::Relaxed) > 0
    });
    assert!(begun.elapsed() >= BOUND, "after {:?}", begun.elapsed());
    thread::sleep(HELD.saturating_sub(begun.elapsed()));
    let (read, written) = (&load.read, &load.written);
    let before = (
        read.load(Ordering::Relaxed),
        written.load(Ordering::Relaxed),
    );
    wait_until("reads go on", || {
        read.load(Ordering::Relaxed) > before.0 + 100
    });
    assert_eq!(
        written.load(Ordering::Relaxed),
        before.1,
        "no room, no write"
    );
    drop(release);
    wait_until("writes go on", || {
        written.load(Ordering::Relaxed) > before.1 + 100
    });
}

/// Everything that was acknowledged, and nothing that was refused.
fn compare(told: &Told, engine: &Engine) {
    let mut session = engine.session().expect("a session");
    for (key, value) in &told.acknowledged {
        let found = session.get(key.as_bytes()).expect("read");
        assert!(found.as_ref() == Some(value), "{key} was acknowledged");
    }
    for key in &told.refused {
        assert_eq!(session.get(key.as_bytes()), Ok(None), "{key} was refused");
    }
    let records = engine.stats().expect("figures").records;
    assert_eq!(records, told.acknowledged.len() as u64 + 1, "with `old`");
}

/// As a TCP client, but for what TCP alone has.
fn unix_client(path: &std::path::Path) -> Client {
    let stream = UnixStream::connect(path).expect("a connection");
    let stream = TcpStream::from(OwnedFd::from(stream));
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    Client::from_stream(stream)
}

fn many_clients(local_clients: LocalClients) {
    let path = namespace::files().folder.join("held.sock");
    let disk = SimulatedDisk::new(3);
    let settings = Settings {
        local_clients,
        unix_socket: Some(path.clone()),
        ..Settings::default()
    };
    let server = TestServer::start_logged_as_told(&disk, settings, EXPOSURE);
    assert_eq!(server.client().say("SET old value"), "+OK\r\n");
    let load = Load::default();
    thread::scope(|scope| {
        let load = &load;
        // Also if one of them panics, so that no thread waits for ever.
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            scope.spawn(move || {
                let _end = AtEnd::of(&load.stop);
                work();
            });
        };
        for name in ["a", "b", "c"] {
            let client = server.client();
            spawn(Box::new(move || write(load, client, name)));
        }
        let (unix, blocks) = (unix_client(&path), server.client());
        let mut sync = server.client();
        assert_eq!(sync.say("CLIENT DURABILITY SYNC"), "+OK\r\n");
        let engine = server.engine.clone();
        spawn(Box::new(move || write(load, unix, "unix")));
        spawn(Box::new(move || write(load, sync, "sync")));
        spawn(Box::new(move || write_blocks(load, blocks)));
        spawn(Box::new(move || write_by_library(load, &engine)));
        for _ in 0..2 {
            let client = server.client();
            spawn(Box::new(move || read(load, client)));
        }
        watch(load, &disk);
    });
    let told = load.told.into_inner().expect("no panic");
    compare(&told, &server.engine);
    assert_eq!(server.client().say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    // What was not flushed is gone; then another server recovers it.
    let crashed = disk.lose_power();
    server.stop();
    let server = start(&crashed, Settings::default());
    compare(&told, &server.engine);
}

#[test]
fn many_clients_by_tcp_are_held_up_and_lose_nothing() {
    many_clients(LocalClients::Off);
}

#[test]
fn many_local_clients_are_held_up_and_lose_nothing() {
    many_clients(LocalClients::In(cgroup::own()));
}

fn stay_on_one_processor() {
    let allowed = sched_getaffinity(Pid::from_raw(0)).expect("asked");
    let mut all = 0..CpuSet::count();
    let first = all.find(|&processor| allowed.is_set(processor) == Ok(true));
    let mut only = CpuSet::new();
    only.set(first.expect("one")).expect("a number");
    sched_setaffinity(Pid::from_raw(0), &only).expect("allowed");
}

/// FLUSHALL deletes key by key, and each of its steps waits for room by itself: together they may wait
/// for longer than one write does.
#[test]
fn flushall_waits_as_often_as_it_must() {
    /// A deletion takes 64 bytes of a ring of 1 MiB: these fill it several times.
    const KEYS: usize = 100_000;
    /// Of these one write waits for no more than one and a half.
    const PAUSE: Duration = Duration::from_millis(300);
    // There is a ring for each processor: the server's threads inherit this one.
    stay_on_one_processor();
    let disk = SimulatedDisk::new(5);
    let server = start(&disk, Settings::default());
    let (mut client, mut other) = (server.client(), server.client());
    let names: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    for some in names.chunks(50) {
        let words = some.iter().flat_map(|name| [name.as_bytes(), b"v"]);
        let words: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(words).collect();
        assert_eq!(client.ask(&words), b"+OK\r\n");
    }
    let release = Release(&disk);
    disk.hold(true);
    client.send(&request(&[b"FLUSHALL"]));
    for _ in 0..3 {
        let before = refusals(&mut other);
        wait_until("it waits for room", || refusals(&mut other) >= before + 10);
        thread::sleep(PAUSE);
        let durable = info(&mut other, "persistence", "log_durable_timestamp");
        disk.hold(false);
        wait_until("some of it is durable", || {
            info(&mut other, "persistence", "log_durable_timestamp") > durable
        });
        disk.hold(true);
        assert!(client.replies_at_hand().is_empty(), "it goes on");
    }
    drop(release);
    assert_eq!(show(&client.reply()), show(b"+OK\r\n"));
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
}

/// Left open, the transaction would take in what the client sends next.
#[test]
fn a_commit_that_finds_no_room_is_rolled_back() {
    let disk = SimulatedDisk::new(7);
    let server = start(&disk, Settings::default());
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert_eq!(client.say("SET open 1"), "+OK\r\n");
    let release = Release(&disk);
    disk.hold(true);
    // Until the engine takes no write, whatever room there is.
    assert_eq!(other.say("SET other value"), "+OK\r\n");
    thread::sleep(HELD);
    let begun = Instant::now();
    assert_eq!(
        client.say("COMMIT"),
        "-ERR the log has no room until more of it is on the disk; \
         the transaction was rolled back, run it again\r\n"
    );
    assert!(begun.elapsed() >= BOUND, "after {:?}", begun.elapsed());
    assert!(client.say("COMMIT").starts_with("-ERR no transaction"));
    assert_eq!(client.say("GET open"), "$-1\r\n");
    drop(release);
    wait_until("there is room", || client.say("SET after 1") == "+OK\r\n");
    assert_eq!(other.say("MGET open after"), "*2\r\n$-1\r\n$1\r\n1\r\n");
}

/// A block is executed again from its beginning, but not for as long as it takes to try that five
/// hundred times.
#[test]
fn a_long_block_gives_up_soon() {
    const COMMANDS: usize = 20_000;
    let disk = SimulatedDisk::new(6);
    let server = start(&disk, Settings::default());
    let (mut client, mut block) = (server.client(), server.client());
    let mut other = server.client();
    assert_eq!(block.say("MULTI"), "+OK\r\n");
    block.send(&request(&[b"GET", b"key"]).repeat(COMMANDS));
    for _ in 0..COMMANDS {
        assert_eq!(block.reply(), b"+QUEUED\r\n");
    }
    assert_eq!(block.say("SET key value"), "+QUEUED\r\n");
    let _release = Release(&disk);
    disk.hold(true);
    // Until the engine takes no write, whatever room there is.
    assert_eq!(client.say("SET other value"), "+OK\r\n");
    thread::sleep(HELD);
    let before = refusals(&mut other);
    let begun = Instant::now();
    let reply = block.say("EXEC");
    let took = begun.elapsed();
    assert_eq!(
        reply,
        "-EXECABORT Transaction rolled back: the log has no room until more of it is on the disk; \
         run the operation again in a few milliseconds\r\n"
    );
    let tries = refusals(&mut other) - before;
    assert!((2..400).contains(&tries), "{tries} in {took:?}");
    let most = if is_emulated() { 60 } else { 5 };
    assert!(took < Duration::from_secs(most), "after {took:?}");
    assert_eq!(block.say("GET key"), "$-1\r\n");
}

/// Pages of collections that a block writes anew are logged before it commits. An attempt that began while those of
/// the last one fill the log would find no room either, however often there is one.
#[test]
fn a_block_is_tried_again_when_its_own_pages_are_written() {
    /// With these a copy takes a third of a ring.
    const ELEMENTS: usize = 12_000;
    const DRAINS: u64 = bpfdb::abi::BPFDB_DAEMON_DRAIN_TRIES as u64;
    stay_on_one_processor();
    let disk = SimulatedDisk::new(8);
    let server = start(&disk, Settings::default());
    let (mut client, mut other) = (server.client(), server.client());
    for first in (0..ELEMENTS).step_by(1000) {
        let mut words = vec![b"ZADD".to_vec(), b"big".to_vec()];
        for n in first..first + 1000 {
            words.extend([n.to_string().into(), format!("member:{n:08}").into()]);
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        assert_eq!(client.ask(&words), b":1000\r\n");
    }
    assert_eq!(client.say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    let before = refusals(&mut other);
    let release = Release(&disk);
    disk.hold(true);
    let all = format!(":{ELEMENTS}\r\n");
    assert_eq!(client.say("ZUNIONSTORE copy:0 1 big"), all);
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    for key in 1..3 {
        let queued = client.say(&format!("ZUNIONSTORE copy:{key} 1 big"));
        assert_eq!(queued, "+QUEUED\r\n");
    }
    client.send(&request(&[b"EXEC"]));
    wait_until("it finds no room", || refusals(&mut other) > before);
    thread::sleep(Duration::from_millis(100));
    drop(release);
    let expected = format!("*2\r\n{}", all.repeat(2));
    assert_eq!(show(&client.reply()), show(expected.as_bytes()));
    let attempts = refusals(&mut other) - before;
    assert!(attempts <= DRAINS, "{attempts}");
}
