//! `bpfdb check`, `repair`, `tail` and `recover`, as a user runs them.

use crate::common;

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bpfdb_log::checkpoint::{CheckpointWriter, Header};
use bpfdb_log::record::{Entry, Part, Records, Value, encode_commit, encode_part};
use bpfdb_log::{
    BLOCK, Batch, Directory, LogError, LogWriter, Options, Recovery, Start, ValueType,
};
use bpfdb_tests::process::dies_with_us;
use common::{BINARY, PATIENCE, fails, recover, run, succeeds, text, wait_until};
use serde_json::Value as Json;

/// 2026-11-23T12:00:00Z, in nanoseconds.
const NOON: u64 = 1_795_435_200_000_000_000;
const SECOND: u64 = 1_000_000_000;

struct Data {
    folder: tempfile::TempDir,
}

impl Data {
    fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("bpfdb-cli-test-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .expect("a folder");
        Self { folder }
    }

    /// Five transactions a second apart, over two segments.
    fn with_five() -> Self {
        let data = Self::new();
        let mut writer = data.open();
        for epoch in 1..=5 {
            write(
                &mut writer,
                epoch,
                &set(epoch, b"key", &[b'a' + epoch as u8; 2000]),
            );
        }
        writer.close().expect("closed");
        data
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn text(&self) -> String {
        self.dir().display().to_string()
    }

    /// A child that another test has just forked has the files of this one, also the locked
    /// one, until it becomes another program.
    fn own(&self) -> Directory {
        for _ in 0..1000 {
            match Directory::own(&self.dir()) {
                Err(LogError::Owned { .. }) => thread::sleep(Duration::from_millis(5)),
                owned => return owned.expect("owned"),
            }
        }
        panic!("somebody else owns {}", self.text());
    }

    fn open(&self) -> LogWriter<Directory> {
        let disk = self.own();
        let end = Recovery::new(disk.clone(), 0)
            .and_then(Recovery::finish)
            .expect("read");
        let options = Options {
            segment_size: 5 * BLOCK as u64,
            batch_size: 2 * BLOCK as u64,
            spares: 2,
        };
        LogWriter::open(disk, &end, Start::NewRun, NOON, options).expect("opened")
    }

    fn flip(&self, file: &str, offset: usize) {
        let path = self.dir().join(file);
        let mut bytes = fs::read(&path).expect("read");
        bytes[offset] ^= 16;
        fs::write(&path, bytes).expect("written");
    }

    /// All files with their contents.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.dir()];
        while let Some(folder) = folders.pop() {
            for file in fs::read_dir(folder).expect("a folder") {
                let path = file.expect("a file").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push((path.clone(), fs::read(path).expect("read"))),
                }
            }
        }
        files.sort();
        files
    }
}

fn set(timestamp: u64, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let value = Value::Inline(value);
    encode_commit(
        timestamp,
        &[Entry {
            key,
            value,
            expires: None,
        }],
        &mut record,
    );
    record
}

fn write(writer: &mut LogWriter<Directory>, epoch: u64, records: &[u8]) {
    let batch = Batch {
        epoch,
        positions: &[],
        wall: NOON + epoch * SECOND,
        records,
        record_count: Records::new(records).count() as u32,
    };
    writer.append(batch).expect("durable");
}

fn check_json(dir: &str) -> (bool, Json) {
    let output = run(&["check", "--json", "--dir", dir]);
    let json = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.success(), json)
}

fn lines(text: &str) -> Vec<Json> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn times(text: &str) -> Vec<u64> {
    lines(text)
        .iter()
        .map(|line| line["timestamp"].as_u64().expect("a number"))
        .collect()
}

#[test]
fn check_says_what_is_there() {
    let data = Data::with_five();
    let before = data.files();
    let (fine, json) = check_json(&data.text());
    assert!(fine && json["fine"] == true, "{json}");
    assert_eq!(json["directory"]["owner_pid"], Json::Null);
    let log = &json["log"];
    assert_eq!(
        (&log["run"], &log["format_version"]),
        (&1.into(), &3.into())
    );
    assert_eq!(log["end"]["timestamp"], 5);
    assert_eq!(log["end"]["closed"], true);
    assert_eq!(log["durable"]["timestamp"], 5);
    assert_eq!(log["segments"][0]["commits"], 4);
    assert_eq!(log["segments"][1]["first_batch"], 5);
    assert_eq!(
        log["runs"][0]["first_wall"],
        "2026-11-23T12:00:01.000000000Z"
    );
    let text = succeeds(&["check", "--dir", &data.text()]);
    for part in [
        "owner       no process",
        "closed properly",
        "log/0000000000000002.log:8192",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(data.files(), before);
}

#[test]
fn check_names_the_owner_and_lets_it_work() {
    let data = Data::with_five();
    let mut writer = data.open();
    write(&mut writer, 9, &set(9, b"key", b""));
    let (fine, json) = check_json(&data.text());
    assert!(fine, "{json}");
    assert_eq!(json["directory"]["owner_pid"], std::process::id());
    assert_eq!(json["log"]["end"]["closed"], false);
    // It is there, but a reader cannot know that it was flushed.
    assert_eq!(json["log"]["end"]["timestamp"], 9);
    assert_eq!(json["log"]["durable"]["timestamp"], 5);
    write(&mut writer, 10, &set(10, b"key", b""));
}

#[test]
fn check_fails_where_there_is_nothing() {
    let data = Data::new();
    assert!(fails(&["check", "--dir", &data.text()]).contains("is no directory"));
    fs::create_dir(data.dir()).expect("made");
    fs::set_permissions(data.dir(), Permissions::from_mode(0o755)).expect("changed");
    let text = fails(&["check", "--dir", &data.text()]);
    assert!(
        text.contains("EXPOSED") && text.contains("no control file"),
        "{text}"
    );
}

/// What the control file said follows from the segments, but for what is said then.
#[test]
fn a_control_file_is_made_anew() {
    let data = Data::with_five();
    let control = data.dir().join("control");
    fs::write(&control, [7; 8192]).expect("damaged");
    let text = fails(&["check", "--dir", &data.text()]);
    assert!(text.contains("no valid slot"), "{text}");
    assert!(fails(&["repair", "--dir", &data.text()]).contains("nothing was changed"));
    assert_eq!(fs::read(&control).expect("there"), [7; 8192]);
    let text = succeeds(&["repair", "--dir", &data.text(), "--yes"]);
    for told in ["segments 1 to 2", "at its very beginning", "Lost:"] {
        assert!(text.contains(told), "{text}");
    }
    let text = succeeds(&["check", "--dir", &data.text()]);
    assert!(text.contains("5 transactions"), "{text}");
    let kept = fs::read_dir(data.dir()).expect("there").flatten();
    let kept: Vec<_> = kept
        .filter(|file| file.file_name().to_string_lossy().starts_with("cut-"))
        .collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        fs::read(kept[0].path().join("control")).expect("kept"),
        [7; 8192]
    );
    // And if it is gone.
    fs::remove_file(&control).expect("removed");
    succeeds(&["repair", "--dir", &data.text(), "--yes"]);
    assert!(succeeds(&["repair", "--dir", &data.text()]).contains("the log is whole"));
}

/// As docs/data-directory.md tells it: check, repair, check, start.
#[test]
fn damage_is_found_and_repaired() {
    let data = Data::with_five();
    data.flip("log/0000000000000001.log", 3 * BLOCK + 100);
    let place = "log/0000000000000001.log:12288";
    let text = fails(&["check", "--dir", &data.text()]);
    assert!(text.contains("CORRUPT"), "{text}");
    let command = format!("bpfdb repair --dir {} --truncate-at {place}", data.text());
    assert!(text.contains(&command), "{text}");
    let (_, json) = check_json(&data.text());
    assert_eq!(json["log"]["truncate_at"], place);
    assert_eq!(json["log"]["fault"]["offset"], 12288);

    // Nobody said yes.
    let damaged = data.files();
    let arguments = ["repair", "--dir", &data.text(), "--truncate-at", place];
    let text = fails(&arguments);
    for part in [
        "with timestamp 2 (batch 2)",
        "lost: 2 transactions in 2 batches that can be read",
        "lost: 1 batches that cannot be read, with 1 records",
        "their epochs: 3 to 5",
        "written: 2026-11-23T12:00:03.000000000Z to 2026-11-23T12:00:05.000000000Z",
        "Some of it was durable",
        "nothing was changed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let without_owner = |files: Vec<(PathBuf, Vec<u8>)>| {
        let files = files
            .into_iter()
            .filter(|(path, _)| !path.ends_with("owner"));
        files.collect::<Vec<_>>()
    };
    assert_eq!(without_owner(data.files()), without_owner(damaged.clone()));

    let text = succeeds(&[&arguments[..], &["--yes"]].concat());
    assert!(text.contains("a server can start"), "{text}");
    assert!(check_json(&data.text()).0);
    assert_eq!(times(&succeeds(&["tail", "--dir", &data.text()])), [1, 2]);
    let kept: Vec<_> = fs::read_dir(data.dir())
        .expect("a folder")
        .map(|file| file.expect("a file").path())
        .filter(|path| path.to_string_lossy().contains("/cut-20"))
        .collect();
    let [kept] = &kept[..] else {
        panic!("{kept:?}")
    };
    let note: Json =
        serde_json::from_slice(&fs::read(kept.join("cut.json")).expect("read")).expect("JSON");
    assert_eq!(
        (&note["cut_at"], &note["lost"]["commits"]),
        (&place.into(), &2.into())
    );
    for file in ["0000000000000001.log", "0000000000000002.log"] {
        let old = damaged
            .iter()
            .find(|(path, _)| path.ends_with(file))
            .expect("it was there");
        assert!(fs::read(kept.join(file)).expect("read") == old.1, "{file}");
    }

    // The clock goes on behind what was lost.
    let mut writer = data.open();
    write(&mut writer, 6, &set(6, b"key", b""));
    writer.close().expect("closed");
    assert_eq!(
        times(&succeeds(&["tail", "--dir", &data.text()])),
        [1, 2, 6]
    );
}

#[test]
fn repair_finds_the_place_itself_and_can_discard() {
    let data = Data::with_five();
    let text = succeeds(&["repair", "--dir", &data.text()]);
    assert!(text.contains("the log is whole"), "{text}");
    data.flip("log/0000000000000002.log", 10);
    succeeds(&["repair", "--dir", &data.text(), "--yes", "--discard"]);
    assert_eq!(
        times(&succeeds(&["tail", "--dir", &data.text()])),
        [1, 2, 3, 4]
    );
    assert!(
        !data
            .files()
            .iter()
            .any(|(path, _)| path.to_string_lossy().contains("cut-"))
    );
}

#[test]
fn repair_refuses_what_it_must_not_touch() {
    let data = Data::with_five();
    let repair = |place| {
        fails(&[
            "repair",
            "--yes",
            "--dir",
            &data.text(),
            "--truncate-at",
            place,
        ])
    };
    let place = "log/0000000000000001.log:8192";
    let writer = data.open();
    let before = data.files();
    let text = repair(place);
    let owner = format!("process {} owns", std::process::id());
    assert!(text.contains(&owner), "{text}");
    assert_eq!(data.files(), before);
    drop(writer);
    for place in [
        "log/0000000000000001.log:0",
        "log/0000000000000009.log:4096",
    ] {
        assert!(repair(place).contains("cannot cut the log"));
    }
    // No directory is made of a wrong name.
    let wrong = data.folder.path().join("wrong").display().to_string();
    assert!(fails(&["repair", "--dir", &wrong]).contains("no data directory"));
    assert!(!Path::new(&wrong).exists());
}

#[test]
fn tail_shows_everything_as_it_is() {
    let data = Data::new();
    let mut writer = data.open();
    let large: Vec<u8> = (0..1_500_000_u32).map(|n| (n / 3) as u8).collect();
    let text = "large \u{e9} text ".repeat(5000);
    let mut records = Vec::new();
    for (id, bytes) in [(1, &large[..]), (2, text.as_bytes())] {
        for (n, bytes) in bytes.chunks(3001).enumerate() {
            encode_part(
                &Part {
                    id,
                    offset: n as u64 * 3001,
                    bytes,
                },
                &mut records,
            );
        }
    }
    let entry = |key, value, expires| Entry {
        key,
        value,
        expires,
    };
    let entries = [
        entry(
            b"text",
            Value::Inline("\u{e9} \"quoted\"\n\0".as_bytes()),
            Some(1234),
        ),
        entry(b"\xff\x00", Value::Inline(b"\xfe\xfd"), None),
        entry(b"gone", Value::Deleted, None),
        entry(
            b"large",
            Value::Large {
                kind: ValueType::STRING,
                id: 1,
                len: large.len() as u64,
            },
            None,
        ),
        entry(
            b"page",
            Value::Large {
                kind: ValueType::TEST,
                id: 2,
                len: text.len() as u64,
            },
            Some(5),
        ),
        entry(b"empty", Value::Inline(b""), None),
    ];
    encode_commit(7, &entries, &mut records);
    write(&mut writer, 7, &records);
    writer.close().expect("closed");

    let output = succeeds(&["tail", "--dir", &data.text()]);
    let [line] = &lines(&output)[..] else {
        panic!("{}", output.len())
    };
    assert_eq!(line["timestamp"], 7);
    assert_eq!(line["wall"], "2026-11-23T12:00:07.000000000Z");
    let writes = line["writes"].as_array().expect("a list");
    assert_eq!(
        writes[0],
        serde_json::json!({"key": "text", "value": "\u{e9} \"quoted\"\n\0", "expires": 1234})
    );
    assert_eq!(
        writes[1],
        serde_json::json!({"key_base64": "/wA=", "value_base64": "/v0="})
    );
    assert_eq!(
        writes[2],
        serde_json::json!({"key": "gone", "deleted": true})
    );
    let found = STANDARD.decode(writes[3]["value_base64"].as_str().expect("text"));
    assert!(found.expect("base64") == large);
    assert!(writes[4]["value"] == text && writes[4]["expires"] == 5);
    assert_eq!(writes[4]["type"], ValueType::TEST.code());
    assert!(writes[3].get("type").is_none());
    assert_eq!(writes[5], serde_json::json!({"key": "empty", "value": ""}));
}

#[test]
fn tail_shows_a_range() {
    let data = Data::with_five();
    let tail = |range: &[&str]| {
        times(&succeeds(
            &[&["tail", "--dir", &data.text()][..], range].concat(),
        ))
    };
    assert_eq!(tail(&[]), [1, 2, 3, 4, 5]);
    assert_eq!(tail(&["--from", "3"]), [3, 4, 5]);
    assert_eq!(tail(&["--from", "2", "--until", "3"]), [2, 3]);
    assert_eq!(tail(&["--from", "2026-11-23T12:00:04Z"]), [4, 5]);
    assert_eq!(tail(&["--until", "2026-11-23T13:00:02.5+01:00"]), [1, 2]);
    // Behind its end, --follow does not wait.
    assert_eq!(tail(&["--follow", "--until", "3"]), [1, 2, 3]);
}

#[test]
fn tail_says_what_is_not_in_the_log() {
    let data = Data::with_five();
    let mut writer = data.open();
    for epoch in 6..20 {
        write(&mut writer, epoch, &set(epoch, b"key", &[0; 3000]));
    }
    writer
        .release_before(writer.segment() - 1)
        .expect("released");
    write(&mut writer, 20, &set(20, b"key", b""));
    let text = fails(&["tail", "--dir", &data.text(), "--from", "2"]);
    assert!(text.contains("does not go back to timestamp 2"), "{text}");
    // Nobody knows which times those that are left have.
    let time = "2020-01-01T00:00:00Z";
    let text = fails(&["tail", "--dir", &data.text(), "--from", time]);
    assert!(text.contains("does not go back"), "{text}");
    let empty = Data::new();
    fs::create_dir(empty.dir()).expect("made");
    assert!(fails(&["tail", "--dir", &empty.text()]).contains("no log"));
    // The last group is not known to be durable.
    let output = run(&["tail", "--dir", &data.text(), "--from", "17"]);
    assert_eq!(
        times(&String::from_utf8(output.stdout).expect("text")),
        [17, 18, 19]
    );
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("not known to be durable"), "{told}");
}

/// Killed on drop, so that a failed test leaves nothing.
struct Follows {
    child: Child,
    lines: Option<BufReader<std::process::ChildStdout>>,
}

impl Follows {
    fn start(dir: &str) -> Self {
        let mut command = Command::new(BINARY);
        command
            .args(["tail", "--follow", "--dir", dir])
            .stdout(Stdio::piped());
        let mut child = dies_with_us(&mut command).spawn().expect("bpfdb runs");
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    fn next(&mut self) -> u64 {
        let mut line = String::new();
        let lines = self.lines.as_mut().expect("it is read");
        lines.read_line(&mut line).expect("a line");
        times(&line)[0]
    }

    fn ends(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Follows {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tail_follows_over_new_and_recycled_segments_and_runs() {
    let data = Data::with_five();
    let mut tail = Follows::start(&data.text());
    assert_eq!([(); 5].map(|()| tail.next()), [1, 2, 3, 4, 5]);
    let mut epoch = 5;
    for _ in 0..3 {
        let mut writer = data.open();
        for _ in 0..10 {
            epoch += 1;
            write(&mut writer, epoch, &set(epoch, b"key", &[0; 3000]));
            writer.confirm(NOON).expect("durable");
            assert_eq!(tail.next(), epoch);
            writer.release_before(writer.segment()).expect("released");
        }
    }
    // Whoever reads goes away while nothing comes.
    tail.lines = None;
    assert!(tail.ends());
}

#[test]
fn tail_ends_when_nobody_reads() {
    let data = Data::new();
    let mut writer = data.open();
    for epoch in 1..200 {
        write(&mut writer, epoch, &set(epoch, b"key", &[0; 3000]));
    }
    let mut tail = Follows::start(&data.text());
    let mut some = [0; 100];
    tail.lines
        .as_mut()
        .expect("read")
        .read_exact(&mut some)
        .expect("bytes");
    tail.lines = None;
    assert!(tail.ends());
}

#[test]
fn a_directory_is_recovered_to_a_point_in_time() {
    let data = Data::with_five();
    let before = data.files();
    for (until, last) in [("3", 3), ("2026-11-23T12:00:04.999Z", 4), ("99", 5)] {
        let (dir, new) = (data.dir(), data.folder.path().join("new"));
        let told = succeeds(&recover(&dir, &new, Some(until)));
        assert!(told.contains(&format!("{last} transactions")), "{told}");
        let found = times(&succeeds(&["tail", "--dir", text(&new)]));
        assert_eq!(found, (1..=last).collect::<Vec<_>>());
        let (fine, json) = check_json(text(&new));
        assert!(fine && json["log"]["end"]["closed"] == true);
        let again = fails(&recover(&dir, &new, None));
        assert!(again.contains("is not empty"), "{again}");
        fs::remove_dir_all(&new).expect("removed");
    }
    assert_eq!(data.files(), before);
}

#[test]
fn a_recovery_that_fails_leaves_nothing() {
    let data = Data::with_five();
    data.flip("log/0000000000000001.log", 3 * BLOCK + 100);
    let (dir, new) = (data.dir(), data.folder.path().join("new"));
    let told = fails(&recover(&dir, &new, None));
    assert!(told.contains("corrupt"), "{told}");
    fails(&recover(&dir, &new, Some("2020-01-01T00:00:00Z")));
    let left = fs::read_dir(data.folder.path()).expect("a folder").count();
    assert_eq!((left, new.exists()), (1, false));
    // What is before the damage can be had. An empty directory may be there.
    fs::create_dir(&new).expect("made");
    succeeds(&recover(&dir, &new, Some("2")));
    assert_eq!(times(&succeeds(&["tail", "--dir", text(&new)])), [1, 2]);
}

/// Of `linux/fcntl.h`: which signal there is.
const F_SETSIG: i32 = 10;

/// A file that nobody else opens as long as this is there: who tries waits.
struct Held(File);

impl Held {
    fn file(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path);
        let held = Self(file.expect("opened"));
        // The signal that there would be otherwise ends a process.
        held.call(F_SETSIG, libc::SIGURG);
        held.call(libc::F_SETLEASE, libc::F_WRLCK);
        held
    }

    fn call(&self, command: i32, argument: i32) -> i32 {
        // SAFETY: a system call without pointers.
        let result = unsafe { libc::fcntl(self.0.as_raw_fd(), command, argument) };
        assert!(result >= 0, "{}", std::io::Error::last_os_error());
        result
    }

    /// Does somebody wait?
    fn is_wanted(&self) -> bool {
        self.call(libc::F_GETLEASE, 0) != libc::F_WRLCK
    }
}

/// A server makes a checkpoint, and takes away the segment that is just being copied.
#[test]
fn a_recovery_begins_again_after_a_checkpoint() {
    let data = Data::new();
    let mut writer = data.open();
    for epoch in 1..=9 {
        write(&mut writer, epoch, &set(epoch, b"key", &[b'a'; 2000]));
    }
    let segment = Held::file(&data.dir().join("log/0000000000000001.log"));
    let new = data.folder.path().join("new");
    let mut command = Command::new(BINARY);
    command.args(recover(&data.dir(), &new, None));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = dies_with_us(&mut command).spawn().expect("bpfdb starts");
    wait_until("it opens the segment", || segment.is_wanted());

    let header = Header {
        log: writer.log(),
        number: 1,
        run: writer.run(),
        start: 8,
        wall: NOON + 8 * SECOND,
        first_segment: writer.segment(),
        placement: Vec::new(),
    };
    let mut file = CheckpointWriter::create(writer.disk().clone(), header).expect("made");
    file.add_entry(b"key", b"of the checkpoint", None)
        .expect("added");
    let written = file.finish(9, NOON + 9 * SECOND).expect("whole");
    writer.install(&written).expect("it counts");
    // It is used for something else.
    segment.0.set_len(0).expect("cut");
    // Whoever opens it waits until then: the writer would, too.
    drop(segment);
    writer
        .release_before(written.first_segment)
        .expect("released");

    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(times(&succeeds(&["tail", "--dir", text(&new)])), [1, 9]);
    assert!(check_json(text(&new)).0);
    let left = fs::read_dir(data.folder.path()).expect("a folder").count();
    assert_eq!(left, 2, "the two directories");
}

/// The directory is only read, and nothing is left beside the table.
#[test]
fn a_directory_is_exported_as_it_was() {
    let data = Data::with_five();
    let table = data.folder.path().join("table");
    for until in [3, 5] {
        let epoch = until.to_string();
        succeeds(&[
            "export",
            text(&table),
            "--dir",
            &data.text(),
            "--until",
            &epoch,
        ]);
        let value = succeeds(&["query", "--by", "process", text(&table), "get", "key"]);
        let expected = char::from(b'a' + until).to_string().repeat(2000);
        assert_eq!(value.trim_end(), expected);
    }
    let files = fs::read_dir(data.folder.path()).expect("listed");
    assert_eq!(files.count(), 2, "the directory and the table");
}
