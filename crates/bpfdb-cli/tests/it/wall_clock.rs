//! The wall clock jumps while a server is at work, is wrong for a while, and is set right again.

use crate::common;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{BINARY, Connection, PATIENCE, Served, alone, check, recover, succeeds, with_log};
use serde_json::Value as Json;

const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;
/// Seconds by which the clock is wrong, one after the other. Linux refuses to set it before 1970.
const JUMPS: [i64; 6] = [0, DAY, -2 * DAY, 10 * YEAR, -50 * YEAR, 0];
/// The same in fewer rounds.
const FEW_JUMPS: [i64; 3] = [10 * YEAR, -50 * YEAR, 0];
/// A jump is followed when the clock has stood there for so long (`bpfdb/src/clock.rs`).
const FOLLOWED: Duration = Duration::from_millis(3500);
/// Bytes of a segment of the log.
const SEGMENT: u64 = 64 << 20;
/// Writes after each.
const WRITES: usize = 40;

/// The wall clock of servers that are started with it.
struct Wall {
    folder: tempfile::TempDir,
    ahead: File,
}

impl Wall {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(folder.path().join("wall.so"))
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/it/common/wall.c"
            ))
            .output()
            .expect("a compiler");
        assert!(built.status.success(), "{built:?}");
        let ahead = File::create(folder.path().join("ahead")).expect("a file");
        let wall = Self { folder, ahead };
        wall.set(0);
        wall
    }

    fn set(&self, seconds: i64) {
        let nanos = seconds * 1_000_000_000;
        let written = self.ahead.write_all_at(&nanos.to_le_bytes(), 0);
        written.expect("written");
    }

    fn start(&self, directory: &Path, port: u16, arguments: &[&str]) -> Served {
        let mut command = Command::new(BINARY);
        command
            .env("LD_PRELOAD", self.folder.path().join("wall.so"))
            .env("WALL_CLOCK", self.folder.path().join("ahead"));
        Served::launch(command, port, &[&with_log(directory), arguments].concat())
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

/// Seconds of UNIX time, by the machine's clock.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs() as i64
}

/// By the server's clock.
fn time(connection: &mut Connection) -> i64 {
    assert_eq!(connection.ask(&["TIME"]), "*2");
    let [seconds, _micros] = [(), ()].map(|()| connection.try_reply().expect("a reply"));
    seconds.parse().expect("seconds")
}

/// Writes, and waits until they are on the disk.
fn write(server: &Served, round: usize) {
    let mut connection = Connection::open(server.port);
    for n in 0..WRITES {
        let (key, value) = (format!("{round}:{n}"), n.to_string());
        assert_eq!(connection.ask(&["SET", &key, &value]), "+OK");
    }
    connection.ask(&["WAITAOF", "1", "0", "0"]);
    assert_eq!(server.field("persistence", "log_state"), "writing");
}

fn read(server: &Served, rounds: usize) {
    let mut connection = Connection::open(server.port);
    for (round, n) in (0..rounds).flat_map(|round| (0..WRITES).map(move |n| (round, n))) {
        let found = connection.ask(&["GET", &format!("{round}:{n}")]);
        assert_eq!(found, n.to_string(), "{round}:{n}");
    }
}

/// What `bpfdb check` says of a directory in which nothing is wrong.
fn fine(directory: &Path) -> Json {
    let told = check(directory);
    assert_eq!(told["fine"], true, "{told}");
    told
}

/// What lives for a while does so by the clock of the programs, wherever that stands.
fn expires(server: &Served) {
    let mut connection = Connection::open(server.port);
    assert_eq!(connection.ask(&["SET", "long", "1", "EX", "60"]), "+OK");
    assert_eq!(connection.ask(&["SET", "short", "1", "PX", "50"]), "+OK");
    let left: i64 = connection.ask(&["PTTL", "long"])[1..].parse().expect("ms");
    assert!((1..=60_000).contains(&left), "{left}");
    thread::sleep(Duration::from_millis(60));
    assert_eq!(connection.ask(&["GET", "short"]), "$-1");
    assert_eq!(connection.ask(&["GET", "long"]), "1");
}

/// Each of these servers is killed, and every other engine dropped.
#[test]
fn a_wall_clock_that_jumps_loses_nothing() {
    loses_nothing(&FEW_JUMPS);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_wall_clock_that_jumps_loses_nothing() {
    loses_nothing(&JUMPS);
}

fn loses_nothing(jumps: &[i64]) {
    alone();
    let wall = Wall::new();
    let mut server = wall.start(&wall.data(), 0, &[]);
    for (round, seconds) in jumps.iter().copied().enumerate() {
        wall.set(seconds);
        let mut connection = Connection::open(server.port);
        let wrong = time(&mut connection) - now();
        assert!((wrong - seconds).abs() <= 2, "{wrong} {seconds}");
        // Also a jump that was not followed yet when the server dies.
        if round % 3 != 1 {
            thread::sleep(FOLLOWED);
        }
        write(&server, round);
        expires(&server);
        assert_eq!(server.ask(&["SAVE"]), "+OK");
        write(&server, round);
        server.kill();
        let fresh: &[&str] = if round % 2 == 0 { &["--fresh"] } else { &[] };
        server = wall.start(&wall.data(), server.port, fresh);
        read(&server, round + 1);
    }
    // It is right again, and so are times that are shown.
    assert_eq!(server.ask(&["SAVE"]), "+OK");
    let saved: i64 = server.ask(&["LASTSAVE"])[1..].parse().expect("seconds");
    assert!((saved - now()).abs() <= 2, "{saved}");
    server.stop();
    fine(&wall.data());
}

/// More than a segment of the log holds, in one value that is written again and again.
fn fill_a_segment(server: &Served) {
    let mut connection = Connection::open(server.port);
    let value = "v".repeat(1 << 20);
    for _ in 0..=SEGMENT >> 20 {
        let reply = connection.ask_beside_checkpoints(&["SET", "large", &value]);
        assert_eq!(reply, "+OK");
    }
}

/// What is retained has an age that no clock on the wall changes, and checkpoints are made when
/// they are due.
#[test]
fn a_wall_clock_that_jumps_gives_up_nothing_that_is_retained() {
    gives_up_nothing(&FEW_JUMPS);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_wall_clock_that_jumps_gives_up_nothing_that_is_retained() {
    gives_up_nothing(&JUMPS);
}

fn gives_up_nothing(jumps: &[i64]) {
    alone();
    let wall = Wall::new();
    let arguments = ["--log-retention", "3600", "--checkpoint-every", "1"];
    let server = wall.start(&wall.data(), 0, &arguments);
    let (mut made, mut moments) = (0, Vec::new());
    for (round, seconds) in jumps.iter().copied().enumerate() {
        wall.set(seconds);
        fill_a_segment(&server);
        write(&server, round);
        let begun = Instant::now();
        let before = made;
        while made <= before {
            assert!(begun.elapsed() < PATIENCE, "no checkpoint");
            thread::sleep(Duration::from_millis(50));
            made = server.figure("persistence", "checkpoint_attempts");
        }
        assert_eq!(
            server.field("persistence", "log_earliest_timestamp"),
            "0",
            "{seconds}"
        );
        moments.push(server.field("persistence", "log_durable_timestamp"));
    }
    read(&server, jumps.len());
    server.stop();
    let told = fine(&wall.data());
    // Each round has filled a segment. How many of them the last checkpoint still needs, which is
    // not called retained, depends on when it began.
    let segments = told["log"]["files"]["segments"]
        .as_array()
        .expect("numbers");
    assert_eq!(segments[0], 1, "{told}");
    assert!(segments.len() > jumps.len(), "{told}");
    let needed = told["log"]["control"]["first_needed_segment"].as_u64();
    let before = needed.expect("a number") - 1;
    let retained = told["recovery"]["retained_bytes"].as_u64();
    assert!(retained >= Some(before * SEGMENT), "{told}");

    // Timestamps order what no clock does; and the clock is right at the end.
    let whole = jiff::Timestamp::now().to_string();
    let before_the_last = jumps.len() - 1;
    let earlier = moments[before_the_last - 1].as_str();
    for (until, rounds) in [(earlier, before_the_last), (&whole, jumps.len())] {
        let recovered = wall.folder.path().join(format!("of-{rounds}"));
        succeeds(&recover(&wall.data(), &recovered, Some(until)));
        let server = Served::start_in(&recovered, 0, &[]);
        read(&server, rounds);
        assert_eq!(server.ask(&["EXISTS", &format!("{rounds}:0")]), ":0");
        server.stop();
    }
}
