//! Data directories that earlier versions of the format wrote stay readable, and mean the same.
//!
//! Each is a folder below `tests/fixtures`, with a file `expected.txt` of its commits. It was made
//! once, by `make_fixture`, and is never made again: a version that is new gets a folder of its own.
//!
//! ```text
//! cargo test --profile ci -p bpfdb-log --all-features --test fixtures -- --ignored make_fixture
//! ```

mod common;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bpfdb_log::record::{Entry, Value, encode_commit};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{Directory, Disk, Follower, RecoveredCommit, Recovery, Start, VERSION, check};
use common::{append_at, options, reopen, set, set_large};

fn folder(version: u32) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(format!("version-{version}"))
}

/// A line for each write: timestamp, wall clock, expiry, key, value.
fn describe<D: Disk>(disk: &D, commits: &[RecoveredCommit]) -> String {
    let mut text = String::new();
    for commit in commits {
        let contents = common::contents(disk, commit);
        for (entry, (key, value)) in commit.entries().zip(contents) {
            let entry = entry.unwrap();
            let value = match entry.value {
                Value::Deleted => "deleted".to_owned(),
                _ => format!("{:?}", String::from_utf8_lossy(&value)),
            };
            let (time, wall, expires) = (commit.timestamp, commit.wall, entry.expires);
            let key = String::from_utf8_lossy(&key).into_owned();
            writeln!(text, "{time} {wall} {expires:?} {key:?} {value}").unwrap();
        }
    }
    text
}

/// All that the format has: two runs, a run that goes on after a kill, a commit that comes early
/// and one that does not count, a group of several batches, large values, deletions, expiry.
fn write(disk: &SimulatedDisk) {
    let mut writer = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    let mut several = Vec::new();
    let entry = |key, value, expires| Entry {
        key,
        value,
        expires,
    };
    let entries = [
        entry(
            b"text",
            Value::Inline(b"a text of more than sixteen bytes"),
            Some(1_800_000_000_000),
        ),
        entry(b"empty", Value::Inline(b""), None),
        entry(
            b"a key of more than sixteen bytes",
            Value::Inline(b"short"),
            None,
        ),
    ];
    encode_commit(1, &entries, &mut several);
    append_at(
        &mut writer,
        2,
        1_000,
        &[set(3, b"early", b"3"), several].concat(),
    )
    .unwrap();
    let large: Vec<u8> = (0..12_000).map(|n| b'a' + (n % 26) as u8).collect();
    append_at(
        &mut writer,
        4,
        2_000,
        &set_large(4, b"large", 1, &large, 3000),
    )
    .unwrap();
    let mut deleted = Vec::new();
    encode_commit(5, &[entry(b"text", Value::Deleted, None)], &mut deleted);
    append_at(&mut writer, 5, 1_500, &deleted).unwrap();
    let mut writer = reopen(disk, Start::SameRun, options(4, 2)).unwrap();
    let ghost = [set(9, b"ghost", b""), set(7, b"text", b"again")].concat();
    append_at(&mut writer, 8, 3_000, &ghost).unwrap();
    let mut writer = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    append_at(
        &mut writer,
        12,
        4_000,
        &set(11, b"key", b"of the second run"),
    )
    .unwrap();
    writer.confirm(5_000).unwrap();
    writer.close().unwrap();
}

#[test]
#[ignore = "makes the fixture of a new version"]
fn make_fixture() {
    let folder = folder(VERSION);
    assert!(
        !folder.exists(),
        "{} is there, and stays as it is",
        folder.display()
    );
    let disk = SimulatedDisk::new(2026);
    write(&disk);
    fs::create_dir_all(folder.join("log")).unwrap();
    for name in disk.names() {
        fs::write(folder.join(&name), disk.contents(&name).unwrap()).unwrap();
    }
    let commits: Result<Vec<_>, _> = Recovery::new(disk.clone(), 0).unwrap().collect();
    fs::write(
        folder.join("expected.txt"),
        describe(&disk, &commits.unwrap()),
    )
    .unwrap();
}

#[test]
fn every_version_is_read_for_ever() {
    for version in 1..=VERSION {
        let folder = folder(version);
        let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
        let disk = Directory::read_only(&folder);
        let commits: Result<Vec<_>, _> = Recovery::new(disk.clone(), 0).unwrap().collect();
        assert_eq!(describe(&disk, &commits.unwrap()), expected);
        assert_eq!(check(&disk, 0).unwrap().fault, None);
        let mut follower = Follower::new(disk.clone(), None, None).unwrap();
        let commits: Vec<_> = std::iter::from_fn(|| follower.next_commit().unwrap()).collect();
        assert_eq!(describe(&disk, &commits), expected);
    }
}

#[test]
fn what_version_1_has() {
    let report = check(&Directory::read_only(&folder(1)), 0).unwrap();
    let runs: Vec<_> = report
        .runs
        .iter()
        .map(|run| {
            (
                run.run,
                run.commits,
                run.dropped,
                run.end,
                run.clock_steps_back,
            )
        })
        .collect();
    assert_eq!(runs, [(1, 5, 1, 8, 1), (2, 1, 0, 12, 0)]);
    let end = &report.end;
    assert_eq!((end.closed, end.epoch, end.torn_bytes), (true, 12, 0));
    assert_eq!(report.durable.epoch, 12);
}

/// It is still what a writer of this version writes.
#[test]
fn the_newest_version_is_written_as_it_was() {
    let disk = SimulatedDisk::new(2026);
    write(&disk);
    // The control file has a slot more than then.
    for name in disk.names().iter().filter(|name| *name != "control") {
        let there = fs::read(folder(VERSION).join(name)).unwrap();
        assert!(disk.contents(name).unwrap() == there, "{name}");
    }
}
