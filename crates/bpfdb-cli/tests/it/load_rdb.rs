//! A server that begins with a file of redis-server.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::process::dies_with_us;

use common::{BINARY, Connection, PATIENCE, Served, alone};

/// In a network of the test's own.
const REDIS_PORT: u16 = 6380;
const KEYS: usize = 5000;
const FAR: &str = "4000000000000";

struct Redis(Child);

impl Redis {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &REDIS_PORT.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--dbfilename", "dump.rdb", "--dir"])
            .arg(folder)
            .stdout(Stdio::null());
        let child = dies_with_us(&mut command).spawn().expect("redis-server");
        let begun = Instant::now();
        while Connection::try_open(REDIS_PORT).is_none() {
            assert!(begun.elapsed() < PATIENCE, "redis-server does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }

    /// What it saves after these commands.
    fn save(folder: &Path, commands: &[&[&str]]) -> PathBuf {
        let redis = Self::start(folder);
        let mut connection = Connection::open(REDIS_PORT);
        for command in commands {
            let reply = connection.ask(command);
            assert!(!reply.starts_with('-'), "{command:?}: {reply}");
        }
        assert_eq!(connection.ask(&["SAVE"]), "+OK");
        drop(redis);
        folder.join("dump.rdb")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Many keys, one that expires, one that is over soon, and a large value.
fn file_of_redis(folder: &Path) -> PathBuf {
    let keys: Vec<(String, String)> = (0..KEYS)
        .map(|number| (format!("key:{number}"), number.to_string()))
        .collect();
    let mut fill = vec!["MSET"];
    fill.extend(keys.iter().flat_map(|(key, value)| [&**key, &**value]));
    let large = "large".repeat(40_000);
    Redis::save(
        folder,
        &[
            &fill,
            &["SET", "large", &large],
            &["SET", "expires", "far", "PXAT", FAR],
            &["SET", "over", "soon", "PX", "50"],
        ],
    )
}

fn look(server: &Served) {
    let mut connection = Connection::open(server.port);
    assert_eq!(connection.ask(&["DBSIZE"]), format!(":{}", KEYS + 2));
    for number in 0..KEYS {
        let value = connection.ask(&["GET", &format!("key:{number}")]);
        assert_eq!(value, number.to_string());
    }
    assert_eq!(connection.ask(&["GET", "large"]), "large".repeat(40_000));
    assert_eq!(
        connection.ask(&["PEXPIRETIME", "expires"]),
        format!(":{FAR}")
    );
    assert_eq!(connection.ask(&["EXISTS", "over"]), ":0");
}

/// The error of a server that does not start. One that starts all the same is ended.
fn refused(data: &Path, file: &Path) -> String {
    let output = Command::new("timeout")
        .args(["--kill-after=10", "300", BINARY])
        .args(["serve", "--port", "0", "--maxmemory", "64M", "--dir"])
        .arg(data)
        .arg("--load-rdb")
        .arg(file)
        .output()
        .expect("bpfdb");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn what_redis_has_saved_is_there_and_durable() {
    alone();
    let folder = tempfile::tempdir().expect("a directory");
    let file = file_of_redis(folder.path());
    thread::sleep(Duration::from_millis(60));
    let data = folder.path().join("data");
    let name = file.to_str().expect("text");
    let mut server = Served::start_in(&data, 0, &["--load-rdb", name]);
    // As by a loss of power, as soon as it listens.
    server.kill();
    let server = Served::start_in(&data, server.port, &["--fresh"]);
    look(&server);
    server.ask(&["SET", "key:0", "newer"]);
    server.stop();
    let error = refused(&data, &file);
    assert!(error.contains("the database has keys"), "{error}");
    let server = Served::start_in(&data, 0, &[]);
    assert_eq!(server.ask(&["GET", "key:0"]), "newer");
}

#[test]
fn nothing_is_begun_with_half_of_a_file() {
    alone();
    let folder = tempfile::tempdir().expect("a directory");
    // A string, then a value of a module, which has a number for it; without a checksum.
    let mut bytes = b"REDIS0009\xfe\x00\x00\x01a\x011".to_vec();
    bytes.extend(b"\x07\x01m\x81\0\0\0\0\0\0\0\0\0");
    bytes.extend(b"\xff\0\0\0\0\0\0\0\0");
    let file = folder.path().join("module.rdb");
    std::fs::write(&file, bytes).expect("written");
    let data = folder.path().join("data");
    let error = refused(&data, &file);
    assert!(error.contains("types that bpfdb does not have"), "{error}");
    let file = Redis::save(folder.path(), &[&["SET", "a", "1"], &["SET", "b", "2"]]);
    let mut bytes = std::fs::read(&file).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    refused(&data, &file);
    let server = Served::start_in(&data, 0, &[]);
    assert_eq!(server.ask(&["DBSIZE"]), ":0");
}
