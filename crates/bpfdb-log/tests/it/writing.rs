//! A log on a real disk and on a simulated one: groups of all sizes, segments, spares, runs.

use crate::it::common;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;

use bpfdb_log::record::{Entry, Part, Value, encode_commit, encode_part};
use bpfdb_log::simulation::{Operation, SimulatedDisk};
use bpfdb_log::{
    BLOCK, Batch, Directory, Disk, LogEnd, LogError, LogWriter, Options, Owner, Recovery, Start,
    ValueType,
};
use common::{contents, count, options, recover, reopen, set, set_large};

/// Appends records as a group of their own.
fn append<D: Disk>(
    writer: &mut LogWriter<D>,
    epoch: u64,
    records: &[u8],
) -> Result<bpfdb_log::Durable, LogError> {
    writer.append(Batch {
        epoch,
        positions: &[epoch, 2 * epoch],
        wall: 1000 + epoch,
        records,
        record_count: count(records),
    })
}

fn value(epoch: u64, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n as u64 * 7 + epoch) as u8).collect()
}

/// Groups over several segments, with large values, runs and a proper end.
fn round_trip<D: Disk>(disk: &D) {
    let options = options(16, 6);
    let mut expected = Vec::new();
    for run in 1..=3 {
        let mut writer = reopen(disk, Start::NewRun, options).unwrap();
        assert_eq!(writer.run(), run);
        for epoch in run * 100..run * 100 + 20 {
            let (small, large) = (value(epoch, 50), value(epoch, 20_000));
            let mut records = set(epoch, b"small", &small);
            expected.push((epoch, vec![(b"small".to_vec(), small)]));
            if epoch % 3 == 0 {
                let key = b"large".to_vec();
                records.extend(set_large(epoch, &key, epoch, &large, 6000));
                expected.push((epoch, vec![(key, large)]));
            }
            let durable = append(&mut writer, epoch, &records).unwrap();
            assert_eq!(durable, writer.durable());
        }
        writer.close().unwrap();
        let (_, end) = recover(disk, 0).unwrap();
        assert!(end.closed && end.torn_bytes == 0 && end.dropped == 0);
        assert_eq!(end.epoch, run * 100 + 19);
        assert_eq!(end.positions, [end.epoch, 2 * end.epoch]);
        assert_eq!(end.greatest_timestamp, end.epoch);
    }
    let (commits, end) = recover(disk, 0).unwrap();
    let found: Vec<_> = commits
        .iter()
        .map(|commit| (commit.timestamp, contents(disk, commit)))
        .collect();
    let sorted = |mut commits: Vec<_>| {
        commits.sort();
        commits
    };
    assert_eq!(sorted(found), sorted(expected));
    assert!(end.segment.unwrap().number > 6);
}

fn folder_in(parent: &Path) -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("bpfdb-log-test-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .unwrap()
}

#[test]
fn comes_back_from_a_real_disk() {
    let folder = folder_in(&std::env::temp_dir());
    round_trip(&Directory::own(&folder.path().join("data")).unwrap());
}

/// A file system in memory, which has no need to flush. What one without O_DIRECT does:
/// `disk/directory.rs`.
#[test]
fn comes_back_from_tmpfs() {
    let folder = folder_in(Path::new("/dev/shm"));
    round_trip(&Directory::own(&folder.path().join("data")).unwrap());
}

#[test]
fn comes_back_from_a_simulated_disk() {
    round_trip(&SimulatedDisk::new(1));
}

#[test]
fn defaults_are_possible() {
    let folder = folder_in(&std::env::temp_dir());
    let disk = Directory::own(folder.path()).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, Options::default()).unwrap();
    append(&mut writer, 1, &set(1, b"key", b"value")).unwrap();
    let segment = folder.path().join("log/0000000000000001.log");
    assert_eq!(fs::metadata(segment).unwrap().len(), 64 << 20);
    assert_eq!(recover(&disk, 0).unwrap().0.len(), 1);
}

#[test]
fn one_process_owns_a_directory() {
    let folder = folder_in(&std::env::temp_dir());
    let disk = Directory::own(folder.path()).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, options(16, 6)).unwrap();
    let refused = Directory::own(folder.path()).unwrap_err();
    let us = std::process::id();
    assert!(matches!(refused, LogError::Owned { pid: Some(pid), .. } if pid == us));
    assert!(refused.to_string().contains(&us.to_string()), "{refused}");
    // The lock lives as long as anything that may write.
    drop(disk);
    assert!(matches!(
        Owner::take(folder.path()),
        Err(LogError::Owned { .. })
    ));
    append(&mut writer, 1, &set(1, b"key", b"value")).unwrap();
    drop(writer);
    Directory::own(folder.path()).unwrap();
}

/// Whoever has the lock of a directory writes to that one, wherever its path leads by now.
#[test]
fn an_owner_stays_where_its_lock_is() {
    let folder = folder_in(&std::env::temp_dir());
    let [first, second, link] = ["first", "second", "link"].map(|name| folder.path().join(name));
    for target in [&first, &second] {
        let made = DirBuilder::new().mode(0o700).create(target);
        made.unwrap();
    }
    symlink(&first, &link).unwrap();
    let disk = Directory::own(&link).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, options(16, 6)).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&second, &link).unwrap();
    // Over several segments.
    for number in 1..200 {
        append(&mut writer, number, &set(number, b"key", &[7; 900])).unwrap();
    }
    assert_eq!(fs::read_dir(&second).unwrap().count(), 0);
    let other = Directory::own(&link).unwrap();
    reopen(&other, Start::NewRun, options(16, 6)).unwrap();
    drop((writer, disk));
    let whole = Directory::read_only(&first);
    assert_eq!(recover(&whole, 0).unwrap().0.len(), 199);
}

#[test]
fn a_directory_that_is_read_only_is_not_written() {
    let folder = folder_in(&std::env::temp_dir());
    let owned = Directory::own(folder.path()).unwrap();
    reopen(&owned, Start::NewRun, options(16, 6))
        .unwrap()
        .close()
        .unwrap();
    let disk = Directory::read_only(folder.path());
    let (_, end) = recover(&disk, 0).unwrap();
    let refused = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options(16, 6));
    assert!(matches!(refused, Err(LogError::Io { .. })));
    assert!(disk.create("log/x").is_err() && disk.remove("control").is_err());
    assert!(disk.rename("control", "x").is_err());
}

#[test]
fn only_its_user_may_look() {
    let folder = folder_in(&std::env::temp_dir());
    let data = folder.path().join("data");
    let disk = Directory::own(&data).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 1..9 {
        append(&mut writer, epoch, &set(epoch, b"key", &value(epoch, 4000))).unwrap();
    }
    writer.release_before(writer.segment()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&data), mode(&data.join("log"))), (0o700, 0o700));
    let files = [&data, &data.join("log")].map(|folder| fs::read_dir(folder).unwrap());
    let files = files.into_iter().flatten().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    assert!(files.len() >= 4, "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600));

    drop((writer, disk));
    fs::set_permissions(&data, fs::Permissions::from_mode(0o750)).unwrap();
    let refused = Directory::own(&data).unwrap_err();
    assert!(
        matches!(refused, LogError::Exposed { mode: 0o750, .. }),
        "{refused}"
    );
    assert_eq!(mode(&data), 0o750);
}

/// Files of the folder, by kind.
fn files(disk: &SimulatedDisk) -> (usize, usize) {
    let names = disk.list("log").unwrap();
    let spares = names
        .iter()
        .filter(|name| name.starts_with("spare-"))
        .count();
    (names.len() - spares, spares)
}

#[test]
fn segments_that_are_not_needed_are_written_again() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let allocated = || disk.count(Operation::Allocate);
    for epoch in 1..=8 {
        append(&mut writer, epoch, &set(epoch, b"key", &value(epoch, 4000))).unwrap();
    }
    // One is in reserve.
    assert_eq!(files(&disk), (8, 1));
    let released = writer.release_before(writer.segment() + 1);
    assert!(matches!(released, Err(LogError::Refused(_))));
    writer.release_before(writer.segment()).unwrap();
    // All of them are kept, since the log used so many.
    assert_eq!(files(&disk), (1, 7));
    let before = allocated();
    for epoch in 9..=15 {
        append(&mut writer, epoch, &set(epoch, b"key", &value(epoch, 4000))).unwrap();
    }
    writer.release_before(writer.segment()).unwrap();
    for epoch in 16..200 {
        append(&mut writer, epoch, &set(epoch, b"key", &value(epoch, 4000))).unwrap();
        writer.release_before(writer.segment()).unwrap();
    }
    // One more, since the last spare is in reserve and not used.
    assert_eq!(allocated(), before + 1);
    // What recycled segments held before does not come back.
    let (commits, _) = recover(&disk.lose_power(), 0).unwrap();
    assert_eq!(commits.len(), 1);
    assert_eq!(commits[0].timestamp, 199);
}

/// Not for ever: it is what the options say again when the log uses few for long. A spare that is
/// there stays until it is used.
#[test]
fn fewer_spares_are_kept_when_fewer_are_used() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let mut epoch = 0;
    let mut cycle = |segments| {
        for _ in 0..segments {
            epoch += 1;
            append(&mut writer, epoch, &set(epoch, b"key", &value(epoch, 4000))).unwrap();
        }
        writer.release_before(writer.segment()).unwrap();
        files(&disk)
    };
    assert_eq!(cycle(12), (1, 11));
    for _ in 0..40 {
        cycle(4);
    }
    assert_eq!(cycle(4), (1, 4));
    for _ in 0..40 {
        cycle(1);
    }
    assert_eq!(cycle(1), (1, 2));
}

#[test]
fn a_segment_can_be_prepared_bit_by_bit() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(700, 2)).unwrap();
    // That which comes next, and the one that is kept in reserve.
    for _ in 0..2 {
        let mut calls = 1;
        while !writer.prepare(1).unwrap() {
            calls += 1;
        }
        assert_eq!(calls, 3);
    }
    assert!(writer.prepare(1).unwrap());
    assert_eq!(files(&disk), (1, 2));
    assert_eq!(disk.contents("log/spare-2").unwrap().len(), 700 * BLOCK);
}

#[test]
fn starts_without_a_batch_leave_one_segment() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    append(&mut writer, 5, &set(5, b"key", b"value")).unwrap();
    for _ in 0..10 {
        drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
        drop(reopen(&disk, Start::SameRun, options(4, 2)).unwrap());
    }
    assert_eq!(files(&disk).0, 2);
    let (commits, end) = recover(&disk.lose_power(), 0).unwrap();
    let last = end.segment.unwrap();
    assert_eq!(
        (commits.len(), last.number, last.run, last.cut),
        (1, 2, 11, 5)
    );
}

#[test]
fn what_was_ahead_of_its_epoch_is_dropped_for_ever() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    let records = [set(3, b"b", b"ghost"), set(1, b"a", b"1")].concat();
    append(&mut writer, 2, &records).unwrap();
    drop(writer);
    let times = |disk: &SimulatedDisk| {
        let (commits, end) = recover(disk, 0).unwrap();
        let times: Vec<_> = commits.iter().map(|commit| commit.timestamp).collect();
        (times, end)
    };
    let (found, end) = times(&disk);
    assert_eq!(found, [1]);
    assert_eq!((end.epoch, end.greatest_timestamp, end.dropped), (2, 3, 1));
    let mut writer = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options(8, 2)).unwrap();
    // The clock begins above what was dropped.
    assert!(matches!(
        append(&mut writer, 4, &set(3, b"c", b"")),
        Err(LogError::Refused(_))
    ));
    append(&mut writer, 5, &set(4, b"c", b"4")).unwrap();
    assert_eq!(times(&disk).0, [1, 4]);

    // In the same run they were only early.
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    append(&mut writer, 2, &records).unwrap();
    let mut writer = reopen(&disk, Start::SameRun, options(8, 2)).unwrap();
    append(&mut writer, 4, &set(4, b"c", b"4")).unwrap();
    assert_eq!(times(&disk).0, [1, 3, 4]);
}

#[test]
fn a_group_that_is_written_twice_counts_once() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(16, 2)).unwrap();
    let large = value(1, 9000);
    let records = [set(7, b"b", b"7"), set_large(6, b"a", 1, &large, 3000)].concat();
    // A part of a group: the epoch stays.
    append(&mut writer, 0, &records).unwrap();
    assert!(recover(&disk, 0).unwrap().0.is_empty());
    let mut writer = reopen(&disk, Start::SameRun, options(16, 2)).unwrap();
    append(&mut writer, 7, &[set(7, b"c", b"7"), records].concat()).unwrap();
    let (commits, _) = recover(&disk, 0).unwrap();
    let times: Vec<_> = commits.iter().map(|commit| commit.timestamp).collect();
    assert_eq!(times, [6, 7, 7]);
    assert_eq!(contents(&disk, &commits[0]), [(b"a".to_vec(), large)]);
}

#[test]
fn a_checkpoint_may_take_the_beginning_of_a_large_value() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    append(
        &mut writer,
        1,
        &set_large(1, b"a", 1, &value(1, 30_000), 3000),
    )
    .unwrap();
    append(&mut writer, 2, &set(2, b"b", b"2")).unwrap();
    writer.release_before(writer.segment()).unwrap();
    let (commits, _) = recover(&disk, 1).unwrap();
    assert_eq!(commits.len(), 1);
    let refused = recover(&disk, 0).unwrap_err();
    assert!(refused.to_string().contains("large value 1"), "{refused}");
}

#[test]
fn parts_of_a_large_value_do_not_outlive_their_run() {
    let disk = SimulatedDisk::new(0);
    let records = set_large(9, b"a", 1, &value(1, 4000), 2000);
    let parts = records.len() - set_large(9, b"a", 1, &[], 1).len();
    let mut writer = reopen(&disk, Start::NewRun, options(16, 2)).unwrap();
    append(&mut writer, 1, &records[..parts]).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, options(16, 2)).unwrap();
    append(&mut writer, 9, &records[parts..]).unwrap();
    let refused = recover(&disk, 0).unwrap_err();
    assert!(refused.to_string().contains("large value 1"), "{refused}");
}

#[test]
fn what_no_reader_accepts_is_refused() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 4)).unwrap();
    append(&mut writer, 5, &set(5, b"key", b"value")).unwrap();
    let written = disk.operations();
    let mut refuse = |epoch, positions: &[u64], records: &[u8], record_count| {
        let batch = Batch {
            epoch,
            positions,
            wall: 0,
            records,
            record_count,
        };
        let refused = writer.append(batch);
        assert!(matches!(refused, Err(LogError::Refused(_))), "{refused:?}");
    };
    let fine = set(6, b"key", b"value");
    refuse(4, &[0, 0], &[], 0);
    refuse(6, &[0], &fine, 1);
    refuse(6, &[0, 0], &fine, 2);
    refuse(6, &[0, 0], &fine[..16], 1);
    refuse(6, &[0, 0], &set(5, b"key", b"value"), 1);
    let mut large = Vec::new();
    let part = Part {
        id: 1,
        offset: 0,
        bytes: &[0; 4 * BLOCK],
    };
    encode_part(&part, &mut large);
    refuse(6, &[0, 0], &large, 1);
    assert_eq!(disk.operations(), written);
    append(&mut writer, 6, &fine).unwrap();
}

#[test]
fn impossible_openings_are_refused() {
    let disk = SimulatedDisk::new(0);
    let open = |start, options| {
        LogWriter::open(disk.clone(), &LogEnd::default(), start, 0, options).map(|_| ())
    };
    let refused = |result| matches!(result, Err(LogError::Refused(_)));
    for (segment, batch) in [(1, 1), (4, 4), (4, 0)] {
        assert!(refused(open(Start::NewRun, options(segment, batch))));
    }
    let unaligned = Options {
        batch_size: 5000,
        ..options(4, 2)
    };
    assert!(refused(open(Start::NewRun, unaligned)));
    assert!(refused(open(Start::SameRun, options(4, 2))));
}

#[test]
fn an_error_ends_recovery() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 4)).unwrap();
    append(&mut writer, 5, &set(5, b"key", b"value")).unwrap();
    writer.close().unwrap();
    disk.flip("log/0000000000000001.log", BLOCK + 100, 0);
    let mut recovery = Recovery::new(disk, 0).unwrap();
    let error = recovery.next().unwrap().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("log/0000000000000001.log at 4096"),
        "{error}"
    );
    assert!(recovery.next().is_none());
    assert!(recovery.finish().is_err());
}

/// COPY gives one large value to several keys, in one commit: its parts are in the log once, or
/// once for each, as earlier versions wrote them.
#[test]
fn a_commit_names_a_large_value_twice() {
    let large = value(1, 9000);
    for times in 1..=2 {
        let disk = SimulatedDisk::new(times);
        let mut writer = reopen(&disk, Start::NewRun, options(16, 6)).unwrap();
        let mut records = Vec::new();
        for _ in 0..times {
            records.extend(parts(7, &large, 0));
        }
        let entry = |key| Entry {
            key,
            value: Value::Large {
                kind: ValueType::STRING,
                id: 7,
                len: 9000,
            },
            expires: None,
        };
        encode_commit(1, &[entry(b"a"), entry(b"b")], &mut records);
        append(&mut writer, 1, &records).unwrap();
        let (commits, _) = recover(&disk, 0).unwrap();
        let both = [b"a", b"b"].map(|key| (key.to_vec(), large.clone()));
        assert_eq!(contents(&disk, &commits[0]), both, "{times}");
    }
}

/// A value of many parts that many entries name is not copied for each of them.
#[test]
fn many_entries_name_a_value_of_many_parts() {
    const MANY: u64 = 20_000;
    let disk = SimulatedDisk::new(1);
    let mut writer = reopen(&disk, Start::NewRun, options(2048, 1024)).unwrap();
    let mut records = Vec::new();
    for offset in 0..MANY {
        let bytes = &[1];
        encode_part(
            &Part {
                id: 7,
                offset,
                bytes,
            },
            &mut records,
        );
    }
    let keys: Vec<_> = (0..MANY).map(u64::to_le_bytes).collect();
    let entries: Vec<_> = keys
        .iter()
        .map(|key| Entry {
            key,
            value: Value::Large {
                kind: ValueType::STRING,
                id: 7,
                len: MANY,
            },
            expires: None,
        })
        .collect();
    encode_commit(1, &entries, &mut records);
    append(&mut writer, 1, &records).unwrap();
    let begun = std::time::Instant::now();
    let (commits, _) = recover(&disk, 0).unwrap();
    assert_eq!(commits[0].large_values.len() as u64, MANY);
    // To copy 20,000 times 20,000 places takes 13 GB.
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

/// The parts of a value from one of them on.
fn parts(id: u64, value: &[u8], from: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for (n, bytes) in value.chunks(3000).enumerate().skip(from) {
        let offset = n as u64 * 3000;
        encode_part(&Part { id, offset, bytes }, &mut records);
    }
    records
}

/// The disk was full in the midst of a group: what the writer still has of it is appended again,
/// and that begins in the middle of a large value.
#[test]
fn a_group_is_appended_again_from_the_middle_of_a_value_on() {
    let large = value(1, 9000);
    let disk = SimulatedDisk::new(1);
    let mut writer = reopen(&disk, Start::NewRun, options(16, 6)).unwrap();
    let mut rest = parts(7, &large, 1);
    encode_commit(
        5,
        &[Entry {
            key: b"large",
            value: Value::Large {
                kind: ValueType::STRING,
                id: 7,
                len: 9000,
            },
            expires: Some(5),
        }],
        &mut rest,
    );
    // No part of it says that its epoch is complete, before the last one does.
    append(&mut writer, 1, &parts(7, &large, 0)).unwrap();
    append(&mut writer, 1, &rest).unwrap();
    append(&mut writer, 5, &rest).unwrap();
    let (commits, end) = recover(&disk, 0).unwrap();
    assert_eq!(commits.len(), 1);
    assert_eq!(contents(&disk, &commits[0]), [(b"large".to_vec(), large)]);
    assert_eq!(end.dropped, 0);
}

/// A log of so many segments that its end is far from its beginning.
fn with_a_long_log() -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 1..=200 {
        append(&mut writer, epoch, &set(epoch, b"key", &value(epoch, 4000))).unwrap();
    }
    disk
}

/// An engine that outlived its owner needs the end of the log, which may be long.
#[test]
fn only_the_end_of_a_log_is_read_for_an_engine_that_has_the_rest() {
    let disk = with_a_long_log();
    disk.flip("log/0000000000000003.log", BLOCK + 1000, 0);
    let all = Recovery::new(disk.clone(), 0).unwrap().finish();
    assert!(matches!(all, Err(LogError::Corrupt(_))), "{all:?}");
    let end = Recovery::end_of(disk).unwrap();
    assert_eq!((end.epoch, end.sequence), (200, 200));
}

/// The same before anything was written by a new engine: what is before its run says nothing of its
/// rings.
#[test]
fn only_the_end_of_a_log_is_read_for_an_engine_that_has_written_nothing() {
    let disk = with_a_long_log();
    drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
    disk.flip("log/0000000000000003.log", BLOCK + 1000, 0);
    let end = Recovery::end_of(disk).unwrap();
    assert_eq!((end.epoch, end.sequence), (200, 200));
    assert!(end.positions.is_empty());
}
