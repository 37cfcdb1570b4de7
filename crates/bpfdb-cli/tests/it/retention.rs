//! `log-retention`: what was deleted before the last checkpoints comes back.

use crate::common;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use common::{
    Connection, Served, alone, check, fails, recover, small_disk, succeeds, text, wait_until,
};
use nix::mount::MsFlags;

const RETAIN: [&str; 2] = ["--log-retention", "86400"];

/// A server's directory whose log began with another run, and several checkpoints.
struct Old {
    folder: tempfile::TempDir,
    server: Served,
    /// Timestamps and times at which `round` had the values 0, 1, 2.
    moments: Vec<(u64, String)>,
}

impl Old {
    /// Each run begins a segment, and each checkpoint makes the one before it needless.
    fn new() -> Self {
        alone();
        let folder = tempfile::tempdir().expect("a directory");
        let data = folder.path().join("data");
        let (mut moments, mut server) = (Vec::new(), Served::start_in(&data, 0, &RETAIN));
        for round in 0..3 {
            let name = format!("of{round}");
            assert_eq!(server.ask(&["SET", "round", &round.to_string()]), "+OK");
            assert_eq!(server.ask(&["SET", &name, "there"]), "+OK");
            Connection::open(server.port).ask(&["WAITAOF", "1", "0", "0"]);
            moments.push((server.figure("persistence", "log_durable_timestamp"), now()));
            // The next group is of a later time.
            thread::sleep(Duration::from_millis(5));
            assert_eq!(server.ask(&["DEL", &name]), ":1");
            server.stop();
            server = Served::start_in(&data, 0, &RETAIN);
            assert_eq!(server.ask(&["SAVE"]), "+OK");
        }
        assert!(data.join("log/0000000000000001.log").exists());
        Self {
            folder,
            server,
            moments,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A server on what the directory had at a moment, and the new directory.
    fn recovered(&self, until: &str) -> (Served, PathBuf) {
        let new = self.folder.path().join(format!("as-of-{until}"));
        let data = self.data();
        succeeds(&recover(&data, &new, Some(until)));
        (Served::start_in(&new, 0, &[]), new)
    }
}

fn now() -> String {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).expect("later");
    let nanos = i128::try_from(since.as_nanos()).expect("a time");
    jiff::Timestamp::from_nanosecond(nanos)
        .expect("a time")
        .to_string()
}

#[test]
fn what_was_deleted_before_the_last_checkpoints_comes_back_until_it_is_given_up() {
    let old = Old::new();
    comes_back(&old);
    is_given_up(&old);
    old.server.stop();
}

fn comes_back(old: &Old) {
    assert!(old.server.figure("persistence", "log_retained_bytes") >= 3 * (64 << 20));
    assert_eq!(
        old.server.figure("persistence", "log_earliest_timestamp"),
        0
    );
    let told = check(&old.data());
    assert_eq!(told["fine"], true, "{told}");
    assert_eq!(told["recovery"]["earliest"]["timestamp"], 0, "{told}");

    for (round, (timestamp, time)) in old.moments.iter().enumerate() {
        let timestamp = timestamp.to_string();
        // Both name a moment; each recovery takes a while.
        let moments = match round {
            0 => vec![&timestamp, time],
            1 => vec![&timestamp],
            _ => vec![time],
        };
        for until in moments {
            let (server, _) = old.recovered(until);
            assert_eq!(server.ask(&["GET", "round"]), round.to_string(), "{until}");
            let name = format!("of{round}");
            assert_eq!(server.ask(&["GET", &name]), "there", "{until}");
            for other in (0..3).filter(|other| *other != round) {
                assert_eq!(server.ask(&["EXISTS", &format!("of{other}")]), ":0");
            }
            server.stop();
        }
    }
    let shown = succeeds(&["tail", "--dir", text(&old.data()), "--from", "1"]);
    for round in 0..3 {
        let deleted = format!("{{\"key\":\"of{round}\",\"deleted\":true}}");
        assert!(shown.contains(&deleted), "{shown}");
    }
}

/// It goes when it is not wanted any more, and a request for it gets the earliest point there is.
fn is_given_up(old: &Old) {
    let data = old.data();
    assert_eq!(old.server.ask(&["SET", "last", "1"]), "+OK");
    let set = |value| old.server.ask(&["CONFIG", "SET", "log-retention", value]);
    assert!(set("-1").starts_with("-ERR"));
    assert_eq!(
        old.server
            .ask(&["CONFIG", "SET", "log-retention-size", "150mb"]),
        "+OK"
    );
    wait_until("less", || {
        old.server.figure("persistence", "log_retained_bytes") <= 150 << 20
    });
    let some = old.server.figure("persistence", "log_earliest_timestamp");
    assert!(
        some >= old.moments[0].0 && some < old.moments[2].0,
        "{some}"
    );
    let (server, _) = old.recovered(&old.moments[2].0.to_string());
    assert_eq!(server.ask(&["GET", "of2"]), "there");
    server.stop();

    assert_eq!(set("0"), "+OK");
    wait_until("nothing", || {
        old.server.figure("persistence", "log_retained_bytes") == 0
    });
    wait_until("one checkpoint", || {
        let files = std::fs::read_dir(data.join("checkpoint")).expect("a folder");
        files.count() == 1
    });
    let earliest = old.server.figure("persistence", "log_earliest_timestamp");
    assert!(earliest >= old.moments[2].0);
    let told = check(&data);
    assert_eq!(told["fine"], true, "{told}");
    assert_eq!(
        told["recovery"]["earliest"]["timestamp"], earliest,
        "{told}"
    );
    let new = old.folder.path().join("never");
    for (timestamp, time) in &old.moments {
        for until in [&timestamp.to_string(), time] {
            let told = fails(&recover(&data, &new, Some(until)));
            let point = format!("the earliest point that can be had is timestamp {earliest}");
            assert!(told.contains(&point), "{told}");
            assert!(
                told.contains("nothing before 20"),
                "the time is told too: {told}"
            );
            let told = fails(&["tail", "--dir", text(&data), "--from", until]);
            assert!(told.contains("the earliest "), "{told}");
        }
    }
    assert!(!new.exists());
    // Nothing that counts was given up.
    let (server, _) = old.recovered("2100-01-01T00:00:00Z");
    assert_eq!(server.ask(&["GET", "last"]), "1");
    server.stop();
}

/// It takes all of a small disk, and gives way to what is written: no write is refused because of it.
#[test]
fn what_is_retained_gives_way_on_a_full_disk() {
    alone();
    let folder = tempfile::tempdir().expect("a directory");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("made");
    small_disk(&data, 600, MsFlags::empty());
    let server = Served::start_in(&data, 0, &[&RETAIN[..], &["--maxmemory", "256M"]].concat());
    let mut connection = Connection::open(server.port);
    let value = "v".repeat(30_000);
    let mut most = 0;
    // A segment and a half in each round; in all half as much again as the disk has. Beside what is
    // retained it has room for the log, its spares and two checkpoints.
    for round in 0..10 {
        for n in 0..3_200 {
            let written = connection.ask(&["SET", &format!("k{}", n % 200), &value]);
            assert_eq!(written, "+OK", "round {round}, {n}");
        }
        assert_eq!(server.ask(&["SAVE"]), "+OK", "round {round}");
        most = most.max(server.figure("persistence", "log_retained_bytes"));
    }
    assert!(most > 64 << 20, "{most}");
    assert!(
        server.figure("persistence", "log_earliest_timestamp") > 0,
        "some was given up"
    );
    let told = check(&data);
    assert_eq!(told["fine"], true, "{told}");
    server.stop();
}
