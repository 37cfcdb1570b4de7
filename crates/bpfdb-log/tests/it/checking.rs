//! What the check says about a directory: all of it, where it is damaged, and nothing false while
//! a process writes.

use crate::it::common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use bpfdb_log::reader::{LogReader, read_control};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{BLOCK, Batch, Directory, Disk, LogWriter, Start, check};
use common::{count, options, reopen, set};

fn append<D: Disk>(writer: &mut LogWriter<D>, epoch: u64, records: &[u8]) {
    let batch = Batch {
        epoch,
        positions: &[epoch],
        wall: epoch,
        records,
        record_count: count(records),
    };
    writer.append(batch).unwrap();
}

/// Two runs. The first leaves a commit that does not count.
fn two_runs() -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 1..=4 {
        append(&mut writer, epoch, &set(epoch, b"key", &[1; 2000]));
    }
    append(
        &mut writer,
        5,
        &[set(6, b"ghost", b""), set(5, b"key", b"")].concat(),
    );
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    append(
        &mut writer,
        9,
        &[set(8, b"a", b""), set(7, b"b", b"")].concat(),
    );
    disk
}

#[test]
fn says_what_is_there() {
    let disk = two_runs();
    disk.put("log/notes", b"");
    let report = check(&disk, 0).unwrap();
    assert_eq!(report.fault, None);
    assert_eq!(report.files.segments, [1, 2, 3]);
    assert_eq!(report.files.foreign, ["notes"]);
    let segments: Vec<_> = report
        .segments
        .iter()
        .map(|segment| {
            (
                segment.header.run,
                segment.batches,
                segment.records,
                segment.last_epoch,
                segment.end,
            )
        })
        .collect();
    let block = BLOCK as u64;
    assert_eq!(
        segments,
        [
            (1, 3, 3, 3, 4 * block),
            (1, 2, 3, 5, 3 * block),
            (2, 1, 2, 9, 2 * block)
        ]
    );
    let runs: Vec<_> = report
        .runs
        .iter()
        .map(|run| {
            (
                run.run,
                run.batches,
                run.epochs,
                run.commits,
                run.dropped,
                run.end,
            )
        })
        .collect();
    assert_eq!(runs, [(1, 5, 5, 5, 1, 5), (2, 1, 1, 2, 0, 9)]);
    assert_eq!(
        (report.end.sequence, report.end.epoch, report.end.closed),
        (6, 9, false)
    );
    assert_eq!(report.slots.unwrap().newest(), report.end.control);
}

#[test]
fn says_where_it_is_damaged() {
    let disk = two_runs();
    disk.flip("log/0000000000000002.log", 2 * BLOCK + 200, 3);
    let report = check(&disk, 0).unwrap();
    let fault = report.fault.unwrap();
    assert_eq!(fault.file, "log/0000000000000002.log");
    assert_eq!(fault.offset, 2 * BLOCK as u64);
    assert_eq!((report.segments.len(), report.end.epoch), (2, 4));
    assert_eq!(report.runs[0].commits, 4);
}

#[test]
fn an_empty_directory_is_no_fault() {
    let report = check(&SimulatedDisk::new(0), 0).unwrap();
    assert_eq!((report.fault, report.slots), (None, None));
    let missing = Directory::read_only(std::path::Path::new("/nonexistent"));
    assert_eq!(check(&missing, 0).unwrap().fault, None);
}

#[test]
fn a_reader_follows_its_writer_into_the_next_segment() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    append(&mut writer, 1, &set(1, b"key", &[1; 2000]));
    let control = read_control(&disk).unwrap().unwrap();
    let mut reader = LogReader::new(disk.clone(), control);
    let mut read = |count: usize| {
        (0..count)
            .filter(|_| reader.advance().unwrap().is_some())
            .count()
    };
    // The first segment and its batch.
    assert_eq!(read(2), 2);
    for epoch in 2..=6 {
        append(&mut writer, epoch, &set(epoch, b"key", &[1; 2000]));
    }
    // Five batches, and a segment between them.
    assert_eq!(read(10), 6);
}

/// The owner writes, recycles and reopens as fast as it can; the check reads all the while.
#[test]
fn finds_nothing_beside_a_living_owner() {
    let folder = tempfile::Builder::new()
        .prefix("bpfdb-log-test-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .unwrap();
    let disk = Directory::own(folder.path()).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, options(8, 3)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let checker = scope.spawn(|| {
            let other = Directory::read_only(folder.path());
            let (mut checks, mut last) = (0, 0);
            while !done.load(Relaxed) {
                let report = check(&other, 0).unwrap();
                assert_eq!(report.fault, None);
                assert!(report.end.epoch >= last || report.end.epoch == 0);
                last = report.end.epoch;
                checks += 1;
            }
            checks
        });
        for epoch in 1..1500 {
            append(&mut writer, epoch, &set(epoch, b"key", &[2; 5000]));
            if epoch % 10 == 0 {
                writer.release_before(writer.segment()).unwrap();
            }
            if epoch % 100 == 0 {
                writer = reopen(&disk, Start::SameRun, options(8, 3)).unwrap();
            }
        }
        done.store(true, Relaxed);
        assert!(checker.join().unwrap() > 10);
    });
}
