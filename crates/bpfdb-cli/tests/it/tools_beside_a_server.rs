//! The tools for a data directory, beside the server that writes it and after it was killed.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb_tests::process::dies_with_us;
use common::{BINARY, Connection, Served, alone, check, fails, recover, run, succeeds, text};
use serde_json::{Value as Json, json};

const BLOCK: usize = bpfdb_log::BLOCK;

/// `bpfdb tail --follow`. Killed on drop, so that a failed test leaves nothing.
struct Tail {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Tail {
    fn start(dir: &str) -> Self {
        let mut command = Command::new(BINARY);
        let command = command
            .args(["tail", "--follow", "--dir", dir])
            .stdout(Stdio::piped());
        let mut child = dies_with_us(command).spawn().expect("bpfdb runs");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    fn next(&mut self) -> Json {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_transaction_is_shown_when_it_is_durable() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Served::start_in(&data, 0, &[]);
    let mut tail = Tail::start(text(&data));
    let mut client = Connection::open(server.port);
    let mut last = 0;
    let mut shows = |requests: &[&[&str]], writes: Json| {
        for request in requests {
            client.ask(request);
        }
        // Nothing else is written: the server must say by itself that this is durable.
        let mut line = tail.next();
        let sort = |writes: &mut Json| {
            let writes = writes.as_array_mut().expect("a list");
            writes.sort_by_key(|write| write["key"].to_string());
        };
        sort(&mut line["writes"]);
        assert_eq!(line["writes"], writes);
        let timestamp = line["timestamp"].as_u64().expect("a number");
        assert!(timestamp >= last, "{timestamp} after {last}");
        last = timestamp;
    };
    shows(&[&["SET", "a", "1"]], json!([{"key": "a", "value": "1"}]));
    shows(
        &[&["BEGIN"], &["SET", "b", "2"], &["DEL", "a"], &["COMMIT"]],
        json!([{"key": "a", "deleted": true}, {"key": "b", "value": "2"}]),
    );
    let large = "large ".repeat(50_000);
    shows(
        &[&["SET", "large", &large, "PXAT", "4102444800000"]],
        json!([{"key": "large", "value": large, "expires": 4_102_444_800_000_u64}]),
    );
    shows(
        &[&["APPEND", "b", "3"]],
        json!([{"key": "b", "value": "23"}]),
    );
    drop(tail);
    server.stop();
}

#[test]
fn the_tools_leave_a_living_server_alone() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let [data, new] = ["data", "new"].map(|name| directory.path().join(name));
    let server = Served::start_in(&data, 0, &["--appendfsync", "always"]);
    assert_eq!(server.ask(&["SET", "a", "before"]), "+OK");
    let found = check(&data);
    assert_eq!(
        (&found["fine"], &found["directory"]["owner_pid"]),
        (&json!(true), &json!(server.child.id()))
    );
    let moment = found["log"]["end"]["timestamp"].to_string();
    assert_eq!(server.ask(&["SET", "a", "by mistake"]), "+OK");

    let refused = run(&["repair", "--yes", "--dir", text(&data)]);
    let told = String::from_utf8(refused.stderr).expect("text");
    assert!(
        told.contains(&format!("process {} owns", server.child.id())),
        "{told}"
    );
    succeeds(&recover(&data, &new, Some(&moment)));
    assert_eq!(server.ask(&["GET", "a"]), "by mistake");
    let other = Served::start_in(&new, 0, &[]);
    assert_eq!(other.ask(&["GET", "a"]), "before");
    other.stop();
    server.stop();
    assert_eq!(check(&data)["log"]["end"]["closed"], true);
}

/// Where the records of the fifth batch are that has any. A writer that is idle in between writes
/// one without, of which the rest of the block means nothing.
fn fifth_record(segment: &[u8]) -> usize {
    let blocks = segment.chunks(BLOCK).enumerate().skip(1);
    let mut batches = blocks.filter(|(_, block)| {
        let payload = block.get(12..16).map_or(&[0; 4][..], |bytes| bytes);
        block.starts_with(b"BPFDBBAT") && payload != [0; 4]
    });
    let (number, block) = batches.nth(4).expect("nine were written");
    let rings = usize::from(block[76]);
    number * BLOCK + 80 + 8 * rings + 8
}

#[test]
fn a_server_starts_from_what_was_repaired() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Served::start_in(&data, 0, &["--appendfsync", "always"]);
    let port = server.port.to_string();
    for value in 1..=9 {
        assert_eq!(server.ask(&["SET", "a", &value.to_string()]), "+OK");
    }
    server.crash();
    let lines = succeeds(&["tail", "--dir", text(&data)]);
    assert!(lines.lines().count() >= 8, "{lines}");
    let segment = data.join("log/0000000000000001.log");
    let mut bytes = fs::read(&segment).expect("read");
    let place = fifth_record(&bytes);
    bytes[place] ^= 1;
    fs::write(&segment, bytes).expect("written");

    let serve = ["serve", "--port", &port, "--dir", text(&data), "--fresh"];
    let refused = run(&serve);
    let told = String::from_utf8(refused.stderr).expect("text");
    assert!(
        !refused.status.success() && told.contains("corrupt"),
        "{told}"
    );
    let found = check(&data);
    let place = found["log"]["truncate_at"]
        .as_str()
        .expect("a place")
        .to_owned();
    succeeds(&[
        "repair",
        "--yes",
        "--dir",
        text(&data),
        "--truncate-at",
        &place,
    ]);
    assert_eq!(check(&data)["fine"], true);
    let lines = succeeds(&["tail", "--dir", text(&data)]);
    let last: Json = serde_json::from_str(lines.lines().last().expect("some")).expect("JSON");
    let server = Served::start_in(&data, 0, &[]);
    let value = server.ask(&["GET", "a"]);
    assert_eq!(last["writes"], json!([{"key": "a", "value": value}]));
    assert!(value.parse::<u64>().expect("a number") < 9);
    assert_eq!(server.ask(&["SET", "a", "10"]), "+OK");
    server.stop();
    let lines = succeeds(&["tail", "--dir", text(&data)]);
    assert!(
        lines
            .trim_end()
            .ends_with(r#""writes":[{"key":"a","value":"10"}]}"#),
        "{lines}"
    );
}

/// Damages the only checkpoint of a directory.
fn damage_checkpoint(data: &Path, offset: usize) {
    let files = fs::read_dir(data.join("checkpoint")).expect("a folder");
    let files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let mut bytes = fs::read(&files[0]).expect("read");
    bytes[offset] ^= 1;
    fs::write(&files[0], bytes).expect("written");
}

/// Nothing can repair a checkpoint, and no tool says that all is well. While the data is in the
/// kernel, it can be written anew.
#[test]
fn a_damaged_checkpoint_is_told_with_the_ways_out() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Served::start_in(&data, 0, &["--appendfsync", "always"]);
    let port = server.port;
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    assert_eq!(server.ask(&["SAVE"]), "+OK");
    server.crash();
    // In its middle, then in its header, too.
    for offset in [BLOCK + 70, 60] {
        damage_checkpoint(&data, offset);
        let told = fails(&["check", "--dir", text(&data)]);
        assert!(told.contains("does not recover from it"), "{told}");
        assert!(!told.contains("starts all the same"), "{told}");
        assert!(!told.contains("recovery is possible"), "{told}");
        let told = fails(&["repair", "--yes", "--dir", text(&data)]);
        assert!(told.contains("the checkpoint is damaged"), "{told}");
    }

    let server = Served::start_in(&data, port, &[]);
    assert_eq!(server.ask(&["GET", "a"]), "1");
    assert_eq!(server.ask(&["SAVE"]), "+OK");
    assert_eq!(check(&data)["fine"], true);
    server.crash();
    damage_checkpoint(&data, BLOCK + 70);
    let told = fails(&[
        "serve",
        "--port",
        &port.to_string(),
        "--dir",
        text(&data),
        "--fresh",
    ]);
    assert!(
        told.contains("corrupt") && told.contains("checkpoint/"),
        "{told}"
    );
}

/// Tears the last batch that has records: what a loss of power leaves of a batch whose last block
/// had not come to the disk.
fn tear(segment: &Path) {
    let mut bytes = fs::read(segment).expect("read");
    let batches = bytes.chunks(BLOCK).enumerate().rev();
    let mut batches = batches.filter(|(_, block)| block.starts_with(b"BPFDBBAT"));
    let is_empty = |block: &[u8]| block[12..16] == [0; 4];
    let (number, block) = batches
        .find(|(_, block)| !is_empty(block))
        .expect("a batch with records");
    let payload = u32::from_le_bytes(block[12..16].try_into().expect("four bytes"));
    assert!(payload > 2 * BLOCK as u32, "it has several blocks");
    let last = number + (payload as usize) / BLOCK;
    bytes[last * BLOCK..].fill(0);
    fs::write(segment, bytes).expect("written");
}

#[test]
fn a_torn_tail_is_cut_off_and_told() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Served::start_in(&data, 0, &["--appendfsync", "always"]);
    let port = server.port.to_string();
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    assert_eq!(server.ask(&["SET", "b", &"b".repeat(5 * BLOCK)]), "+OK");
    server.crash();
    tear(&data.join("log/0000000000000001.log"));

    let found = check(&data);
    let torn = &found["log"]["end"]["torn_bytes"];
    assert!(torn.as_u64().is_some_and(|torn| torn > 0), "{found}");
    assert_eq!(found["fine"], true, "{found}");
    let told = succeeds(&["check", "--dir", text(&data)]);
    assert!(told.contains("torn"), "{told}");

    let mut command = Command::new(BINARY);
    let command = command
        .args(["serve", "--port", &port, "--maxmemory", "64M", "--fresh"])
        .args(["--dir", text(&data)])
        .stdout(Stdio::piped());
    let mut child = dies_with_us(command).spawn().expect("bpfdb runs");
    let greeting = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = greeting.lines().map(|line| line.expect("text"));
    let told = lines.find(|line| line.contains("recovered:"));
    child.kill().expect("killed");
    child.wait().expect("ended");
    let told = told.expect("it says what it recovered");
    let cut = told.split_once("; cut off: ").expect("and what it cut off");
    assert!(
        cut.1
            .ends_with(&format!("{torn} bytes that were never durable")),
        "{told}"
    );

    let server = Served::start_in(&data, 0, &["--fresh"]);
    assert_eq!(server.ask(&["GET", "a"]), "1");
    assert_eq!(server.ask(&["GET", "b"]), "$-1");
    server.stop();
    assert_eq!(check(&data)["log"]["end"]["torn_bytes"], 0);
}

/// A server that has a checkpoint and no longer the log before it.
struct WithCheckpoint {
    directory: tempfile::TempDir,
    server: Served,
}

const KEPT: usize = 300;

impl WithCheckpoint {
    /// The log before it was written by another server, and goes with the checkpoint, which is made
    /// beside writers, or without any.
    fn new(busy: bool) -> Self {
        alone();
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let server = Served::start_in(&data, 0, &[]);
        let mut client = Connection::open(server.port);
        for n in 0..KEPT {
            assert_eq!(client.ask(&["SET", &format!("k{n}"), "old"]), "+OK");
        }
        assert_eq!(client.ask(&["SET", "large", &large()]), "+OK");
        assert_eq!(client.ask(&["DEL", "k0"]), ":1");
        server.stop();
        let server = Served::start_in(&data, 0, &["--appendfsync", "always"]);
        let made = AtomicBool::new(!busy);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = Connection::open(server.port);
                while !made.load(Ordering::Relaxed) {
                    client.ask(&["INCR", "busy"]);
                }
            });
            assert_eq!(server.ask(&["SAVE"]), "+OK");
            made.store(true, Ordering::Relaxed);
        });
        let first = data.join("log/0000000000000001.log");
        assert!(!first.exists(), "it has what no log has");
        Self { directory, server }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Up to where the log is written now, or the checkpoint was made when nothing came after it.
    fn moment(&self) -> u64 {
        let told = check(&self.data());
        let ends = [&told["log"]["end"]["timestamp"], &told["checkpoint"]["end"]];
        let ends = ends.map(|end| end.as_u64().expect("a number"));
        ends.into_iter().max().expect("two")
    }

    /// A server on what the directory had at a moment.
    fn recovered(&self, name: &str, until: Option<&str>) -> Served {
        let (data, new) = (self.data(), self.directory.path().join(name));
        succeeds(&recover(&data, &new, until));
        assert_eq!(check(&new)["fine"], true);
        Served::start_in(&new, 0, &[])
    }
}

fn large() -> String {
    "large ".repeat(50_000)
}

/// What was there before the checkpoint.
fn has_kept(server: &Served) {
    let mut client = Connection::open(server.port);
    assert_eq!(client.ask(&["GET", "k0"]), "$-1");
    for n in 1..KEPT {
        assert_eq!(client.ask(&["GET", &format!("k{n}")]), "old", "k{n}");
    }
    assert!(client.ask(&["GET", "large"]) == large());
}

#[test]
fn a_point_after_a_busy_checkpoint_is_recovered() {
    let old = WithCheckpoint::new(true);
    let busy = old.server.ask(&["GET", "busy"]);
    assert!(busy.parse::<u64>().expect("a number") > 0);
    assert_eq!(old.server.ask(&["SET", "after", "1"]), "+OK");
    let moment = old.moment();
    assert_eq!(old.server.ask(&["SET", "after", "by mistake"]), "+OK");
    assert_eq!(old.server.ask(&["FLUSHALL"]), "+OK");

    let server = old.recovered("then", Some(&moment.to_string()));
    has_kept(&server);
    assert_eq!(server.ask(&["GET", "after"]), "1");
    assert_eq!(server.ask(&["GET", "busy"]), busy);
    server.stop();
    let server = old.recovered("all", None);
    assert_eq!(server.ask(&["DBSIZE"]), ":0");
    server.stop();

    // What was before the checkpoint is not known any more.
    let (data, new) = (old.data(), old.directory.path().join("before"));
    let told = fails(&recover(&data, &new, Some("3")));
    assert!(
        told.contains("the earliest point that can be had is"),
        "{told}"
    );
    assert!(!new.exists());
    old.server.stop();
}

/// The log after the checkpoint has nothing.
#[test]
fn a_point_after_an_idle_checkpoint_is_recovered() {
    let old = WithCheckpoint::new(false);
    let end = old.moment().to_string();
    for (name, until) in [
        ("all", None),
        ("end", Some(&*end)),
        ("future", Some("2100-01-01T00:00:00Z")),
    ] {
        let server = old.recovered(name, until);
        has_kept(&server);
        assert_eq!(server.ask(&["DBSIZE"]), format!(":{KEPT}"), "{name}");
        server.stop();
    }
    old.server.stop();
}
