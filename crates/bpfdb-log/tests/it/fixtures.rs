//! Data directories that earlier versions of the format wrote stay readable, and mean the same.
//!
//! Each is a folder below `tests/fixtures`, with a file `expected.txt` of its commits. It was made
//! once, by `make_fixture`, and is never made again: a version that is new gets a folder of its own.
//!
//! ```text
//! cargo test --profile ci -p bpfdb-log --all-features --lib -- --ignored make_fixture
//! ```

use crate::it::common;

use std::fmt::Write;
use std::path::PathBuf;

use bpfdb_log::checkpoint::{CheckpointReader, CheckpointWriter, Contents, Header, VALUE_MAX};
use bpfdb_log::reader::read_control;
use bpfdb_log::record::{Entry, Value, encode_commit};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{
    BLOCK, CHECKPOINT_VERSION, Directory, Disk, Follower, RecoveredCommit, Recovery, RunId, Start,
    VERSION, ValueType, check,
};
use common::fixture::{self, is_in, load, make};
use common::{append_at, options, reopen, set, set_large};

fn folder(version: u32) -> PathBuf {
    fixture::folder("version", version)
}

/// Those of checkpoints, each with a log that has given up its beginning.
fn checkpoint_folder(version: u32) -> PathBuf {
    fixture::folder("checkpoint", version)
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
                Value::Typed(kind, _) => {
                    format!("type {} {:?}", kind.code(), String::from_utf8_lossy(&value))
                }
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
/// and one that does not count, a group of several batches, large values, deletions, expiry, a
/// value that is no string.
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
        entry(
            b"of a type",
            Value::Typed(ValueType::TEST, b"a value that is no string"),
            Some(1_900_000_000_000),
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

/// A checkpoint with short entries, one that expires, and a large value, without which the log
/// means nothing; and a commit after it.
fn write_checkpoint(disk: &SimulatedDisk) {
    let mut writer = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 1..=5 {
        append_at(
            &mut writer,
            epoch,
            1_000 * epoch,
            &set(epoch, b"key", &[b'a'; 3000]),
        )
        .unwrap();
    }
    let header = Header {
        log: writer.log(),
        number: 1,
        run: writer.run(),
        start: 5,
        wall: 5_100,
        first_segment: writer.segment(),
        placement: b"placement".to_vec(),
    };
    let mut file = CheckpointWriter::create(disk.clone(), header).unwrap();
    file.add_entry(b"key", &[b'a'; 3000], None).unwrap();
    file.add_entry(b"expires", b"soon", Some(1_800_000_000_000))
        .unwrap();
    file.add_typed(b"typed", ValueType::TEST, b"no string", None)
        .unwrap();
    file.add_entry(b"large", &[b'b'; VALUE_MAX + 1], None)
        .unwrap();
    let written = file.finish(6, 6_100).unwrap();
    append_at(&mut writer, 6, 6_000, &set(6, b"key", b"later")).unwrap();
    writer.install(&written).unwrap();
    writer.release_before(written.first_segment).unwrap();
    append_at(&mut writer, 7, 7_000, &set(7, b"more", b"")).unwrap();
}

/// A line for each entry: expiry, key, value; then those of the log.
fn describe_checkpoint<D: Disk>(disk: &D) -> String {
    let control = read_control(disk).unwrap().unwrap();
    let mark = control.checkpoint.unwrap();
    let mut reader = CheckpointReader::open(disk, control.log, mark).unwrap();
    let (header, footer) = (reader.header(), reader.footer());
    let mut text = format!(
        "checkpoint {}, {} to {}, run {}, segment {}, {:?}, {} and {}, {} entries\n",
        mark.number,
        mark.start,
        mark.end,
        header.run,
        header.first_segment,
        String::from_utf8_lossy(&header.placement),
        header.wall,
        footer.wall,
        footer.entries
    );
    let mut line = |entry: Entry<'_>, value: String| {
        let key = String::from_utf8_lossy(entry.key).into_owned();
        writeln!(text, "{:?} {key:?} {value}", entry.expires).unwrap();
    };
    let mut bytes = 0;
    while let Some(block) = reader.next_block().unwrap() {
        match block.contents().unwrap() {
            Contents::Large(entry) => line(entry, "large".into()),
            Contents::LargeBytes(part) => {
                assert!(part.iter().all(|byte| *byte == b'b'));
                bytes += part.len();
            }
            Contents::Entries(entries, _) => {
                for entry in entries {
                    let entry = entry.unwrap();
                    let (kind, value) = match entry.value {
                        Value::Inline(value) => (String::new(), value),
                        Value::Typed(kind, value) => (format!("type {} ", kind.code()), value),
                        _ => panic!("{entry:?}"),
                    };
                    line(entry, format!("{kind}{:?}", String::from_utf8_lossy(value)));
                }
            }
        }
    }
    writeln!(text, "{bytes} bytes of large values").unwrap();
    let commits: Result<Vec<_>, _> = Recovery::new(disk.clone(), 0).unwrap().collect();
    text + &describe(disk, &commits.unwrap())
}

#[test]
#[ignore = "makes the fixture of a new version"]
fn make_fixture() {
    let disk = SimulatedDisk::new(2026);
    write(&disk);
    let commits: Result<Vec<_>, _> = Recovery::new(disk.clone(), 0).unwrap().collect();
    make(&folder(VERSION), &disk, &describe(&disk, &commits.unwrap()));
    let disk = SimulatedDisk::new(2026);
    write_checkpoint(&disk);
    make(
        &checkpoint_folder(CHECKPOINT_VERSION),
        &disk,
        &describe_checkpoint(&disk),
    );
}

#[test]
fn every_version_is_read_for_ever() {
    for version in 1..=VERSION {
        let folder = folder(version);
        let expected = fixture::expected(&folder);
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
    let slots = report.slots.iter().flat_map(|slots| &slots.0).flatten();
    let versions: Vec<_> = slots.map(|control| control.version).collect();
    assert!(
        !versions.is_empty() && versions.iter().all(|&one| one == 1),
        "{versions:?}"
    );
}

/// It is still what a writer of this version writes.
#[test]
fn the_newest_version_is_written_as_it_was() {
    let disk = SimulatedDisk::new(2026);
    write(&disk);
    is_in(&disk, &folder(VERSION));
    let disk = SimulatedDisk::new(2026);
    write_checkpoint(&disk);
    is_in(&disk, &checkpoint_folder(CHECKPOINT_VERSION));
}

#[test]
fn every_version_of_a_checkpoint_is_read_for_ever() {
    for version in 1..=CHECKPOINT_VERSION {
        let folder = checkpoint_folder(version);
        let disk = Directory::read_only(&folder);
        let expected = fixture::expected(&folder);
        assert_eq!(describe_checkpoint(&disk), expected);
        assert_eq!(check(&disk, 0).unwrap().fault, None);
    }
}

/// A log of an earlier version goes on in this one, be it in the same run or in a new one; and the
/// programs of that version refuse it from then on.
#[test]
fn an_earlier_version_goes_on() {
    for version in 1..VERSION {
        let expected = fixture::expected(&folder(version));
        for start in [Start::SameRun, Start::NewRun] {
            let disk = load(&folder(version));
            let was = Recovery::new(disk.clone(), 0).unwrap().finish().unwrap();
            for epoch in [20, 30] {
                let start = if epoch == 20 { start } else { Start::SameRun };
                let mut writer = reopen(&disk, start, options(4, 2)).unwrap();
                append_at(&mut writer, epoch, 6_000, &set(epoch, b"more", b"")).unwrap();
                let is_named = writer.run_id() != RunId::default();
                // Runs of version 1 have no names, and keep none.
                let is_new = writer.run() > was.segment.unwrap().run;
                assert_eq!(is_named, version > 1 || is_new);
            }
            let disk = disk.lose_power();
            let commits: Result<Vec<_>, _> = Recovery::new(disk.clone(), 0).unwrap().collect();
            let found = describe(&disk, &commits.unwrap());
            let more = found.strip_prefix(&expected).expect("all that was there");
            assert_eq!(more.lines().count(), 2, "{more}");
            let control = disk.contents("control").unwrap();
            for slot in control.chunks(BLOCK) {
                assert_eq!(slot[8..12], VERSION.to_le_bytes());
            }
        }
    }
}
