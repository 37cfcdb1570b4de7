//! GETs of cold values that the kernel answers when their read has completed: every reply is what it would be
//! without, and for the one who asked.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::{PipeWriter, Write as _, pipe};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb_log::Directory;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use bpfdb_tests::server::{AtEnd, Client, Lent, TestServer, request, wait_until};

use super::groups::figure;

/// A time after which no test is still running.
const NEVER: Duration = Duration::from_secs(600);

/// Values of many lengths, up to more than a seat takes.
fn value(number: usize) -> Vec<u8> {
    let len = 100 + number * 7919 % 4_200;
    let mut word = number as u64 * 0x9E37_79B9 + 1;
    let bytes = (0..len).map(|_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 56) as u8
    });
    bytes.collect()
}

/// Keys of all lengths that end in different words.
fn key(number: usize) -> Vec<u8> {
    format!("key:{number}{}", "x".repeat(number % 40)).into_bytes()
}

fn bulk(value: &[u8]) -> Vec<u8> {
    let mut reply = format!("${}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(value);
    reply.extend_from_slice(b"\r\n");
    reply
}

fn parking() -> Settings {
    Settings {
        tier_kernel_gets: true,
        ..Settings::default()
    }
}

/// One whose files are the test's, which may damage them.
fn tiered(directory: &Path) -> TestServer {
    let disk = Directory::own(directory).expect("a directory");
    TestServer::start_tiered(disk, parking())
}

fn lent() -> Lent {
    TestServer::lent_tiered_in_files(parking())
}

fn set_all(client: &mut Client, keys: usize) {
    for number in 0..keys {
        let set = client.ask(&[b"SET", &key(number), &value(number)]);
        assert_eq!(set, b"+OK\r\n");
    }
}

/// Sets so many keys, and waits until all of their values are in files.
fn fill(client: &mut Client, keys: usize) {
    set_all(client, keys);
    until_cold(client, keys);
}

fn until_cold(client: &mut Client, keys: usize) {
    wait_until("values are in files", || {
        figure(client, "tier_values") == keys as u64
    });
}

fn get(client: &mut Client, number: usize) {
    let reply = client.ask(&[b"GET", &key(number)]);
    assert_eq!(reply, bulk(&value(number)), "key {number}");
}

fn answered(client: &mut Client) -> u64 {
    figure(client, "tier_parked_answered")
}

/// How much a figure has grown since the test has its server.
fn grown(server: &Lent, client: &mut Client, name: &str) -> u64 {
    figure(client, name) - server.cold_before(name)
}

/// A client that has a seat: the daemon has told it the value of this key, which nobody else has asked for.
fn seated(server: &TestServer, number: usize) -> Client {
    let mut client = server.client();
    get(&mut client, number);
    client
}

#[test]
fn values_of_all_lengths_are_answered_in_the_kernel() {
    // Of its own: what others have read at the same places of earlier files looks as if it were read twice.
    let directory = tempfile::tempdir().expect("a directory");
    let server = tiered(directory.path());
    let mut client = server.client();
    const KEYS: usize = 400;
    fill(&mut client, KEYS);
    for number in 0..KEYS {
        get(&mut client, number);
    }
    // What comes before the daemon has given the connection back is the daemon's: on a busy machine most of them are.
    assert!(answered(&mut client) > 0);
    assert_eq!(figure(&mut client, "tier_parked_left"), 0);
    // Nobody has asked for any of them twice.
    assert_eq!(figure(&mut client, "tier_promotions"), 0);
    assert!(figure(&mut client, "tier_fetches") >= KEYS as u64);
}

/// In the client's own send(), where it is answered while its values are in memory.
#[test]
fn a_client_of_this_machine_goes_back_and_forth() {
    let server = lent();
    let mut client = server.client();
    client.receive_until_known();
    const KEYS: usize = 200;
    fill(&mut client, KEYS);
    let before = figure(&mut client, "keyspace_hits");
    for number in 0..KEYS {
        assert_eq!(
            client.ask(&[b"SET", b"hot", number.to_string().as_bytes()]),
            b"+OK\r\n"
        );
        get(&mut client, number);
        let hot = number.to_string();
        assert_eq!(client.ask(&[b"GET", b"hot"]), bulk(hot.as_bytes()));
    }
    assert!(grown(&server, &mut client, "tier_parked_answered") > 0);
    // Each GET counts; so do the looks of a program that has left it to another one.
    let (hits, keys) = (figure(&mut client, "keyspace_hits") - before, KEYS as u64);
    assert!(hits >= 2 * keys && hits <= 4 * keys, "{hits}");
}

#[test]
fn what_is_read_twice_comes_back_to_memory() {
    let server = lent();
    let mut client = server.client();
    const KEYS: usize = 20;
    fill(&mut client, KEYS);
    for _ in 0..2 {
        for number in 0..KEYS {
            get(&mut client, number);
            // What comes before the daemon has given the connection back is the daemon's.
            thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(grown(&server, &mut client, "tier_parked_answered") > 0);
    wait_until("values come back", || {
        grown(&server, &mut client, "tier_promotions") > 0
    });
}

/// Each in its own database, and of other types.
#[test]
fn the_key_is_that_of_the_clients_database() {
    let server = lent();
    let mut client = server.client();
    let text = |database: usize, n: usize| format!("{database}:{n}:{}", "x".repeat(300));
    for database in 0..3 {
        assert_eq!(client.say(&format!("SELECT {database}")), "+OK\r\n");
        for n in 0..20 {
            let set = format!("SET k{n} {}", text(database, n));
            assert_eq!(client.say(&set), "+OK\r\n");
        }
        let long = "y".repeat(400);
        assert_eq!(client.say(&format!("HSET h f {long}")), ":1\r\n");
    }
    until_cold(&mut client, 63);
    for database in (0..3).rev() {
        assert_eq!(client.say(&format!("SELECT {database}")), "+OK\r\n");
        for n in 0..20 {
            let reply = client.ask(&[b"GET", format!("k{n}").as_bytes()]);
            assert_eq!(reply, bulk(text(database, n).as_bytes()), "{database}, {n}");
            // What comes before the daemon has given the connection back is the daemon's.
            thread::sleep(Duration::from_millis(5));
        }
        assert!(client.say("GET h").starts_with("-WRONGTYPE"));
    }
    assert!(grown(&server, &mut client, "tier_parked_answered") > 0);
}

/// Every client has keys of its own, and each value says whose it is.
#[test]
fn many_clients_get_their_own_replies() {
    let server = lent();
    const CLIENTS: usize = 24;
    const KEYS: usize = 60;
    let text = |who: usize, n: usize| format!("{who:04}:{n:04}:{}", "v".repeat(200 + n * 50));
    let name = |who: usize, n: usize| format!("k{who}:{n}");
    let mut client = server.client();
    for who in 0..CLIENTS {
        for n in 0..KEYS {
            let set = format!("SET {} {}", name(who, n), text(who, n));
            assert_eq!(client.say(&set), "+OK\r\n");
        }
    }
    until_cold(&mut client, CLIENTS * KEYS);
    thread::scope(|scope| {
        for who in 0..CLIENTS {
            let mut reader = server.client();
            scope.spawn(move || {
                if who % 2 == 0 {
                    reader.receive_until_known();
                }
                for n in 0..KEYS {
                    let reply = reader.ask(&[b"GET", name(who, n).as_bytes()]);
                    assert_eq!(reply, bulk(text(who, n).as_bytes()), "{who}, {n}");
                }
            });
        }
    });
    assert!(grown(&server, &mut client, "tier_parked_answered") > 0);
}

/// What follows the request at once, in segments of its own, is answered behind it.
#[test]
fn replies_come_in_their_order() {
    let server = lent();
    let mut client = server.client();
    const KEYS: usize = 300;
    fill(&mut client, KEYS);
    get(&mut client, 0);
    for number in 1..KEYS {
        client.send(&request(&[b"GET", &key(number)]));
        if number % 3 == 0 {
            thread::sleep(Duration::from_micros(number as u64 % 50 * 4));
        }
        client.send(&request(&[b"ECHO", &key(number)]));
        client.send(&request(&[b"GET", b"none"]));
        client.send(&request(&[b"SET", &key(number), b"new"]));
        client.send(&request(&[b"GET", &key(number)]));
        assert_eq!(client.reply(), bulk(&value(number)), "key {number}");
        assert_eq!(client.reply(), bulk(&key(number)));
        assert_eq!(client.reply(), b"$-1\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(client.reply(), b"$3\r\nnew\r\n");
    }
    assert!(grown(&server, &mut client, "tier_parked") > 0);
}

/// A client that says that it sends nothing more gets the reply.
#[test]
fn a_client_that_ends_its_stream_is_answered() {
    let server = lent();
    let mut client = server.client();
    const KEYS: usize = 60;
    fill(&mut client, 2 * KEYS);
    for number in 0..KEYS {
        let mut other = seated(&server, KEYS + number);
        other.send(&request(&[b"GET", &key(number)]));
        other.stream.shutdown(Shutdown::Write).expect("ended");
        assert_eq!(other.reply(), bulk(&value(number)), "key {number}");
        assert!(other.is_closed());
    }
}

#[test]
fn clients_that_vanish_leave_no_seat_taken() {
    let server = lent();
    let mut client = server.client();
    const KEYS: usize = 300;
    fill(&mut client, 2 * KEYS);
    for number in 0..KEYS {
        let mut gone = seated(&server, KEYS + number);
        gone.send(&request(&[b"GET", &key(number)]));
    }
    wait_until("all seats are free", || {
        figure(&mut client, "tier_seats") == 0
    });
    for number in 0..KEYS {
        get(&mut client, number);
    }
}

#[test]
fn a_flipped_bit_is_an_error_of_its_key_and_never_nil() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = tiered(directory.path());
    let mut client = server.client();
    const KEYS: usize = 40;
    fill(&mut client, KEYS);
    const DAMAGED: usize = 5;
    let (path, at) = find(directory.path(), &value(DAMAGED)).expect("the value is in a file");
    let at = at + value(DAMAGED).len() as u64 / 2;
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 4], at).expect("written");
    for number in 0..KEYS {
        let reply = client.ask(&[b"GET", &key(number)]);
        if number == DAMAGED {
            let reply = String::from_utf8_lossy(&reply);
            assert!(reply.starts_with("-TIER_CORRUPT"), "{reply}");
        } else {
            assert_eq!(reply, bulk(&value(number)), "key {number}");
        }
    }
    // Nor is what was read in the kernel: it leaves it to the daemon. (What comes before the daemon has given the
    // connection back is the daemon's anyhow.)
    let mut other = server.client();
    wait_until("the kernel has read the damaged value", || {
        thread::sleep(Duration::from_millis(20));
        let reply = client.ask(&[b"GET", &key(DAMAGED)]);
        assert!(reply.starts_with(b"-TIER_CORRUPT"));
        figure(&mut other, "tier_parked_left") > 0
    });
    assert!(answered(&mut other) > 0);
}

/// The file that has this value, and where.
fn find(directory: &Path, value: &[u8]) -> Option<(std::path::PathBuf, u64)> {
    let files = fs::read_dir(directory.join("tier")).expect("a folder");
    let paths = files.map(|file| file.expect("a file").path());
    paths.into_iter().find_map(|path| {
        let bytes = fs::read(&path).expect("read");
        let at = bytes
            .windows(value.len())
            .position(|window| window == value)?;
        Some((path, at as u64))
    })
}

/// A server whose programs read a pipe in the place of its files: what they read is held until something is written there.
struct Held {
    server: TestServer,
    pipe: PipeWriter,
    _directory: tempfile::TempDir,
    /// Of the value of each key, as files have it.
    entries: Vec<Vec<u8>>,
    /// The next key for a client that is to have a seat.
    unused: Cell<usize>,
}

const HELD_KEYS: usize = 12;

impl Held {
    fn start(patience: Duration) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let server = tiered(directory.path());
        fill(&mut server.client(), 2 * HELD_KEYS);
        let entries = (0..HELD_KEYS).map(|number| {
            let (path, at) = find(directory.path(), &value(number)).expect("in a file");
            let head = 48 + key(number).len() as u64;
            let file = fs::File::open(path).expect("opened");
            let mut entry = vec![0; head as usize + value(number).len()];
            file.read_exact_at(&mut entry, at - head).expect("read");
            entry
        });
        let entries = entries.collect();
        let (reader, writer) = pipe().expect("a pipe");
        let tier = server.tier.as_ref().expect("cold values");
        assert!(tier.park_reads_of(reader.as_fd(), patience));
        Self {
            server,
            pipe: writer,
            _directory: directory,
            entries,
            unused: Cell::new(HELD_KEYS),
        }
    }

    /// A client whose GET of this key is parked, and its read under way.
    fn parked(&self, number: usize) -> Client {
        let mut other = self.server.client();
        let before = figure(&mut other, "tier_parked");
        let unused = self.unused.get();
        self.unused.set(unused + 1);
        let mut client = seated(&self.server, unused);
        // What comes before the daemon has given the connection back is the daemon's.
        thread::sleep(Duration::from_millis(50));
        client.send(&request(&[b"GET", &key(number)]));
        wait_until("the request is parked", || {
            figure(&mut other, "tier_parked") == before + 1
        });
        client
    }

    /// The read of this key ends.
    fn release(&mut self, number: usize) {
        self.pipe.write_all(&self.entries[number]).expect("written");
    }

    /// Nothing is under way any more, and the clients of the test are gone.
    fn assert_free(&self) {
        let mut other = self.server.client();
        wait_until("all seats are free", || {
            figure(&mut other, "tier_seats") == 0
        });
    }
}

#[test]
fn a_request_waits_for_its_read() {
    let mut held = Held::start(NEVER);
    let mut client = held.parked(1);
    thread::sleep(Duration::from_millis(100));
    held.release(1);
    assert_eq!(client.reply(), bulk(&value(1)));
    let mut other = held.server.client();
    assert_eq!(answered(&mut other), 1);
    drop(client);
    held.assert_free();
}

/// A command, its reply, and that to GET behind it.
type Write<'a> = (&'a [&'a [u8]], &'a [u8], Vec<u8>);

/// What is found is compared with the key as it is then.
#[test]
fn what_is_written_during_the_read_wins() {
    let mut held = Held::start(NEVER);
    let mut writer = held.server.client();
    let new = "n".repeat(300);
    let writes: [Write<'_>; 4] = [
        (
            &[b"SET", &key(1), new.as_bytes()],
            b"+OK\r\n",
            bulk(new.as_bytes()),
        ),
        (&[b"DEL", &key(2)], b":1\r\n", b"$-1\r\n".to_vec()),
        (&[b"PEXPIRE", &key(3), b"1"], b":1\r\n", b"$-1\r\n".to_vec()),
        // The same value once more, which is another version.
        (&[b"SET", &key(4), &value(4)], b"+OK\r\n", bulk(&value(4))),
    ];
    for (number, (write, written, read)) in (1..).zip(&writes) {
        let mut client = held.parked(number);
        assert_eq!(&writer.ask(write), written);
        thread::sleep(Duration::from_millis(20));
        held.release(number);
        assert_eq!(&client.reply(), read, "key {number}");
    }
    assert_eq!(answered(&mut writer), 0);
    assert_eq!(figure(&mut writer, "tier_parked_left"), 4);
    held.assert_free();
}

/// A read that takes too long: the daemon reads the file.
#[test]
fn after_a_while_the_daemon_answers() {
    let mut held = Held::start(Duration::from_millis(50));
    let mut client = held.parked(1);
    assert_eq!(client.reply(), bulk(&value(1)));
    // It is served as before meanwhile.
    assert_eq!(client.say("SET x 1"), "+OK\r\n");
    assert_eq!(client.ask(&[b"GET", &key(2)]), bulk(&value(2)));
    held.release(1);
    let mut other = held.server.client();
    assert_eq!(answered(&mut other), 0);
    assert!(figure(&mut other, "tier_parked_taken") >= 1);
    drop(client);
    held.assert_free();
}

/// A further request takes it to the daemon, which answers both.
#[test]
fn a_further_request_does_not_wait_for_the_read() {
    let mut held = Held::start(NEVER);
    let mut client = held.parked(1);
    client.send(&request(&[b"SET", &key(1), b"later"]));
    assert_eq!(client.reply(), bulk(&value(1)));
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.ask(&[b"GET", &key(1)]), b"$5\r\nlater\r\n");
    held.release(1);
    drop(client);
    held.assert_free();
}

/// Other bytes than the entry's, or fewer.
#[test]
fn what_is_read_is_compared() {
    let mut held = Held::start(NEVER);
    let damaged = |number: usize, byte: usize| {
        let mut entry = held.entries[number].clone();
        entry[byte] ^= 1;
        (number, entry)
    };
    let reads = [
        (1, held.entries[2].clone()),
        (3, held.entries[3][..60].to_vec()),
        damaged(4, 0),
        damaged(5, 4),
        damaged(6, 24),
        damaged(7, 50),
        damaged(8, 70),
    ];
    for (number, read) in reads {
        let mut client = held.parked(number);
        held.pipe.write_all(&read).expect("written");
        assert_eq!(client.reply(), bulk(&value(number)), "key {number}");
    }
    assert_eq!(answered(&mut held.server.client()), 0);
    held.assert_free();
}

/// They end in one that is open, closed by its client, or closed by the server.
#[test]
fn a_connection_may_end_during_the_read() {
    let mut held = Held::start(Duration::from_millis(50));
    drop(held.parked(1));
    let mut other = held.server.client();
    let connected = |other: &mut Client| figure(other, "connected_clients");
    wait_until("its connection is gone", || connected(&mut other) == 1);
    assert_eq!(figure(&mut other, "tier_seats"), 1);
    let mut client = held.parked(2);
    assert_eq!(other.say("CLIENT KILL TYPE normal SKIPME yes"), ":1\r\n");
    assert!(client.is_closed());
    assert_eq!(figure(&mut other, "tier_seats"), 2);
    // The seats are others', when the reads have ended.
    held.release(1);
    held.release(2);
    held.assert_free();
    let mut client = held.parked(3);
    held.release(3);
    assert_eq!(client.reply(), bulk(&value(3)));
}

/// One client writes larger and larger numbers, others never see one become smaller, nor less than what was
/// acknowledged before they asked.
#[test]
fn readers_see_no_value_after_a_later_one() {
    let server = lent();
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
fn transactions_and_pauses_are_the_daemons() {
    let server = lent();
    let mut client = server.client();
    const KEYS: usize = 40;
    fill(&mut client, KEYS);
    get(&mut client, 0);
    let before = figure(&mut client, "tier_parked");
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    for number in 1..10 {
        get(&mut client, number);
    }
    assert_eq!(client.say("COMMIT"), "+OK\r\n");
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    assert_eq!(client.ask(&[b"GET", &key(10)]), b"+QUEUED\r\n");
    let exec = client.ask(&[b"EXEC"]);
    assert_eq!(exec, [&b"*1\r\n"[..], &bulk(&value(10))].concat());
    assert_eq!(figure(&mut client, "tier_parked"), before);
}

#[test]
fn it_can_be_switched_off_and_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Directory::own(directory.path()).expect("a directory");
    let server = TestServer::start_tiered(disk, Settings::default());
    let loader = server.park_loader.clone().expect("a tier");
    let mut client = server.client();
    const KEYS: usize = 90;
    fill(&mut client, KEYS);
    let mut numbers = 0..KEYS;
    let mut some = |client: &mut Client| {
        for number in numbers.by_ref().take(30) {
            get(client, number);
            // What comes before the daemon has given the connection back is the daemon's.
            thread::sleep(Duration::from_millis(20));
        }
        figure(client, "tier_parked")
    };
    assert_eq!(some(&mut client), 0);
    assert!(!loader.is_asked());
    assert_eq!(client.say("CONFIG SET tier-kernel-gets yes"), "+OK\r\n");
    loader.wait();
    let parked = some(&mut client);
    assert!(parked > 0);
    assert_eq!(client.say("CONFIG SET tier-kernel-gets no"), "+OK\r\n");
    assert_eq!(some(&mut client), parked);
}

/// A disk whose files the kernel cannot read.
#[test]
fn without_files_of_the_system_the_daemon_answers() {
    let server = TestServer::start_tiered(SimulatedDisk::new(1), parking());
    let mut client = server.client();
    const KEYS: usize = 32;
    fill(&mut client, KEYS);
    for number in 0..KEYS {
        get(&mut client, number);
    }
    assert_eq!(answered(&mut client), 0);
}
