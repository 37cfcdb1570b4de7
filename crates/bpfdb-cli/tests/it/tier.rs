//! A server with more data than memory: what is read is right, after a kill and after a restart, too.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::random::Random;
use common::{
    Connection, PATIENCE, Served, alone, check, fails, has_no_room, request, wait_until, with_log,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const VALUE: usize = 1000;
/// Requests of one message.
const AT_ONCE: u64 = 64;
const TIER: [&str; 9] = [
    "--tier",
    "--tier-prefetch",
    "--tier-kernel-gets",
    "--tier-memory",
    "16M",
    "--maxmemory",
    "64M",
    "--checkpoint-log-size",
    "64M",
];

fn key(number: u64) -> String {
    format!("key:{number}")
}

/// Of 1,000 characters.
fn value(number: u64, version: u64) -> String {
    let mut word = number * 31 + version;
    let mut text = String::with_capacity(VALUE + 16);
    while text.len() < VALUE {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text += &format!("{word:016x}");
    }
    text.truncate(VALUE);
    text
}

fn set_all(connection: &mut Connection, keys: u64, version: u64) {
    for first in (0..keys).step_by(AT_ONCE as usize) {
        let numbers = first..(first + AT_ONCE).min(keys);
        let texts = numbers.clone();
        let texts = texts.map(|n| request(&["SET", &key(n), &value(n, version)]));
        connection
            .try_send_text(&texts.collect::<String>())
            .expect("sent");
        let mut refused = Vec::new();
        for number in numbers {
            let reply = connection.try_reply().expect("a reply");
            if has_no_room(&reply) {
                refused.push(number);
            } else {
                assert_eq!(reply, "+OK", "key {number}");
            }
        }
        for number in refused {
            let set = ["SET", &key(number), &value(number, version)];
            assert_eq!(connection.ask_until_logged(&set), "+OK", "key {number}");
        }
    }
}

fn assert_all(connection: &mut Connection, keys: u64, version: u64) {
    for first in (0..keys).step_by(AT_ONCE as usize) {
        let numbers = first..(first + AT_ONCE).min(keys);
        let texts = numbers.clone().map(|n| request(&["GET", &key(n)]));
        connection
            .try_send_text(&texts.collect::<String>())
            .expect("sent");
        for number in numbers {
            let reply = connection.try_reply().expect("a reply");
            assert!(reply == value(number, version), "key {number}: {reply:.80}");
        }
    }
}

fn runs_of(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory.join("tier")).expect("a folder");
    let files = files.map(|file| file.expect("a file").path());
    files
        .filter(|path| path.to_string_lossy().contains("run-"))
        .collect()
}

#[test]
fn four_times_the_memory_is_there_after_a_kill_and_after_recovery() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    const KEYS: u64 = 64_000;
    let mut server = Served::start_in(&data, 0, &TIER);
    let mut connection = Connection::open(server.port);
    set_all(&mut connection, KEYS, 1);
    wait_until("values go", || {
        server.figure("tier", "tier_value_bytes") > 32 << 20
    });
    assert_all(&mut connection, KEYS, 1);
    // What is in the kernel goes on, with the files that it names; also if the kernel is reading some of them, for commands that
    // are not executed yet.
    let port = server.port;
    let reads = (0..4 * AT_ONCE).map(|n| request(&["GET", &key(n)]));
    let block = request(&["MULTI"]) + &reads.collect::<String>();
    connection.try_send_text(&block).expect("sent");
    server.kill();
    let mut server = Served::start_in(&data, port, &TIER);
    let mut connection = Connection::open(server.port);
    assert!(server.figure("tier", "tier_values") > 0);
    assert_all(&mut connection, KEYS, 1);
    assert_eq!(connection.ask(&["STRLEN", &key(5)]), format!(":{VALUE}"));
    assert_eq!(
        connection.ask(&["APPEND", &key(5), "!"]),
        format!(":{}", VALUE + 1)
    );
    assert_eq!(connection.ask(&["GET", &key(5)]), value(5, 1) + "!");
    assert_eq!(connection.ask(&["SET", &key(5), &value(5, 1)]), "+OK");
    assert_eq!(server.figure("tier", "tier_corrupt"), 0);
    assert_eq!(server.figure("tier", "tier_unavailable"), 0);
    // Another checkpoint may be on its way.
    wait_until("a checkpoint", || connection.ask(&["SAVE"]) == "+OK");
    assert_eq!(check(&data)["fine"], true);
    drop(connection);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(server.child.wait().expect("wait").success());
    // The engine is a new one.
    let server = Served::start_in(&data, port, &TIER);
    let mut connection = Connection::open(server.port);
    assert_eq!(connection.ask(&["DBSIZE"]), format!(":{KEYS}"));
    assert_all(&mut connection, KEYS, 1);
    drop(connection);
    server.stop();
}

/// What a client knows of the keys: the version whose SET was acknowledged, and one that was sent after it.
struct Known {
    acknowledged: Vec<u64>,
    sent: Vec<u64>,
}

impl Known {
    /// Writes keys by chance until the server is gone.
    fn write_until_killed(&mut self, connection: &mut Connection, random: &mut Random) {
        loop {
            let keys = self.sent.len();
            let numbers: Vec<u64> = (0..AT_ONCE).map(|_| random.below(keys) as u64).collect();
            let mut text = String::new();
            let versions: Vec<u64> = numbers
                .iter()
                .map(|&number| {
                    self.sent[number as usize] += 1;
                    let version = self.sent[number as usize];
                    text += &request(&["SET", &key(number), &value(number, version)]);
                    version
                })
                .collect();
            if connection.try_send_text(&text).is_none() {
                return;
            }
            for (number, version) in numbers.into_iter().zip(versions) {
                let Some(reply) = connection.try_reply() else {
                    return;
                };
                // Nothing was written then, and a later version will be.
                if has_no_room(&reply) {
                    continue;
                }
                assert_eq!(reply, "+OK", "key {number}");
                self.acknowledged[number as usize] = version;
            }
        }
    }

    /// Every key has the version that was acknowledged, or a later one that was sent.
    fn assert_there(&mut self, connection: &mut Connection) {
        for first in (0..self.sent.len()).step_by(AT_ONCE as usize) {
            let numbers = first..(first + AT_ONCE as usize).min(self.sent.len());
            let texts = numbers
                .clone()
                .map(|n| request(&["GET", &key(n as u64)]))
                .collect::<String>();
            connection.try_send_text(&texts).expect("sent");
            for number in numbers {
                let reply = connection.try_reply().expect("a reply");
                let mut versions = self.acknowledged[number]..=self.sent[number];
                let found = versions.find(|&version| reply == value(number as u64, version));
                let found = found.unwrap_or_else(|| panic!("key {number}: {reply:.80}"));
                (self.acknowledged[number], self.sent[number]) = (found, found);
            }
        }
    }
}

/// While values go to files, come back, are written over, and files are rewritten and removed.
#[test]
fn a_kill_at_any_moment_loses_no_value() {
    kill_again_and_again(1, 3);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_kill_at_any_moment_loses_no_value() {
    kill_again_and_again(u64::from(std::process::id()), 60);
}

fn kill_again_and_again(seed: u64, kills: u32) {
    println!("seed {seed}");
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    const KEYS: usize = 24_000;
    let mut random = Random::new(seed);
    let mut server = Served::start_in(&data, 0, &TIER);
    let port = server.port;
    let mut connection = Connection::open(port);
    set_all(&mut connection, KEYS as u64, 1);
    let mut known = Known {
        acknowledged: vec![1; KEYS],
        sent: vec![1; KEYS],
    };
    for _ in 0..kills {
        let process = Pid::from_raw(server.child.id() as i32);
        let after = Duration::from_millis(200 + random.below(2500) as u64);
        let killer = thread::spawn(move || {
            thread::sleep(after);
            kill(process, Signal::SIGKILL)
        });
        known.write_until_killed(&mut connection, &mut random);
        killer.join().expect("no panic").expect("killed");
        server.kill();
        server = Served::start_in(&data, port, &TIER);
        connection = Connection::open(port);
        assert!(server.figure("tier", "tier_values") > 0);
        known.assert_there(&mut connection);
        assert_eq!(server.figure("tier", "tier_corrupt"), 0);
        assert_eq!(server.figure("tier", "tier_unavailable"), 0);
    }
    drop(connection);
    server.stop();
}

/// A start, and as many values as go to files, take longer than these: each goes on with what the one before
/// it has left.
#[test]
fn values_in_files_are_waited_for_damaged_and_removed() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Served::start_in(&data, 0, &TIER);
    set_all(&mut Connection::open(server.port), SOME, 1);
    values_go(&server);
    a_copy_of_the_kernel_without_the_files_is_refused(&server);
    let server = clients_that_wait_for_values_see_the_end_of_a_server_that_is_killed(server, &data);
    let server = a_damaged_file_is_an_error_of_its_keys_and_a_new_engine_is_right(server, &data);
    a_file_that_was_removed_is_an_error_of_its_keys(server, &data);
}

/// More keys than memory has room for.
const SOME: u64 = 30_000;

fn values_go(server: &Served) {
    wait_until("values go", || server.figure("tier", "tier_values") > 1000);
}

fn a_copy_of_the_kernel_without_the_files_is_refused(server: &Served) {
    let message = fails(&["dump", "--port", &server.port.to_string()]);
    assert!(
        message.contains("values of the server are in files"),
        "{message}"
    );
}

/// Whatever is under way for them in the kernel ends with the server: each reply is right, and then comes the end.
/// The next server has all values.
fn clients_that_wait_for_values_see_the_end_of_a_server_that_is_killed(
    mut server: Served,
    data: &Path,
) -> Served {
    const READERS: u64 = 12;
    let port = server.port;
    let process = Pid::from_raw(server.child.id() as i32);
    let killed = thread::scope(|scope| {
        for first in 0..READERS {
            scope.spawn(move || {
                let mut reader = Connection::open(port);
                for number in (first..).step_by(READERS as usize) {
                    let key = key(number % SOME);
                    let Some(reply) = reader.try_ask(&["GET", &key]) else {
                        return;
                    };
                    assert!(reply == value(number % SOME, 1), "{key}: {reply:.80}");
                }
            });
        }
        wait_until("the kernel answers", || {
            server.figure("tier", "tier_parked_answered") > 500
        });
        kill(process, Signal::SIGKILL).expect("killed");
        Instant::now()
    });
    assert!(killed.elapsed() < PATIENCE, "a client has waited in vain");
    server.kill();
    server = Served::start_in(data, port, &TIER);
    assert_all(&mut Connection::open(port), SOME, 1);
    assert_eq!(server.figure("tier", "tier_corrupt"), 0);
    server
}

/// The new engine, of a server that begins with the log alone.
fn a_damaged_file_is_an_error_of_its_keys_and_a_new_engine_is_right(
    server: Served,
    data: &Path,
) -> Served {
    values_go(&server);
    // Of every value a byte.
    for run in runs_of(data) {
        let mut bytes = fs::read(&run).expect("read");
        for at in (5000..bytes.len()).step_by(500) {
            bytes[at] ^= 1;
        }
        fs::write(&run, bytes).expect("written");
    }
    assert_some_fail(&mut Connection::open(server.port), SOME, "-TIER_CORRUPT");
    let report = check(data);
    assert_eq!(report["fine"], false);
    assert_ne!(report["tier"]["faults"], serde_json::json!([]));
    let port = server.port;
    server.crash();
    // The log has all of them.
    let fresh = [&TIER[..], &["--fresh"]].concat();
    let server = Served::start_in(data, port, &fresh);
    assert_all(&mut Connection::open(port), SOME, 1);
    server
}

fn a_file_that_was_removed_is_an_error_of_its_keys(mut server: Served, data: &Path) {
    values_go(&server);
    let port = server.port;
    server.kill();
    for run in runs_of(data) {
        fs::remove_file(run).expect("removed");
    }
    let server = Served::start_in(data, port, &TIER);
    let mut connection = Connection::open(port);
    assert_some_fail(&mut connection, SOME, "-TIER_UNAVAILABLE");
    // What is written is right again.
    set_all(&mut connection, SOME, 2);
    assert_all(&mut connection, SOME, 2);
    drop(connection);
    server.crash();
}

/// A GET of some of the keys has this error; of all others it has their first values. After 50 errors no more
/// is asked for.
fn assert_some_fail(connection: &mut Connection, keys: u64, error: &str) {
    let mut failed = 0;
    for number in 0..keys {
        let reply = connection.ask(&["GET", &key(number)]);
        match reply.starts_with(error) {
            true => failed += 1,
            false => assert!(reply == value(number, 1), "key {number}: {reply:.80}"),
        }
        if failed > 50 {
            break;
        }
    }
    assert!(failed > 0);
}

/// The files are another engine's, which still exists.
#[test]
fn a_wrong_directory_keeps_its_files_and_gets_no_values() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let [data, other] = ["data", "other"].map(|name| directory.path().join(name));
    const KEYS: u64 = 30_000;
    let mut server = Served::start_in(&data, 0, &TIER);
    let port = server.port;
    let mut connection = Connection::open(port);
    set_all(&mut connection, KEYS, 1);
    wait_until("values go", || server.figure("tier", "tier_values") > 1000);
    drop(connection);
    server.kill();
    let mut second = Served::start_in(&other, 0, &TIER);
    let mut connection = Connection::open(second.port);
    set_all(&mut connection, KEYS, 2);
    wait_until("values go", || second.figure("tier", "tier_values") > 1000);
    let second_port = second.port;
    drop(connection);
    second.kill();
    let files = |path: &Path| {
        let mut files = runs_of(path);
        files.sort();
        files
    };
    let before = files(&data);
    let port_text = second_port.to_string();
    for setting in [&TIER[..], &["--maxmemory", "64M"]] {
        let begin = ["serve", "--port", &port_text];
        let wrong = [&begin[..], &with_log(&data), setting].concat();
        let message = fails(&wrong);
        assert!(
            message.contains("cannot use the data directory"),
            "{message}"
        );
        assert_eq!(files(&data), before, "{setting:?}");
    }
    for (path, port, version) in [(&data, port, 1), (&other, second_port, 2)] {
        let server = Served::start_in(path, port, &TIER);
        let mut connection = Connection::open(port);
        assert_all(&mut connection, KEYS, version);
        assert_eq!(server.figure("tier", "tier_unavailable"), 0);
        drop(connection);
        server.stop();
    }
}
