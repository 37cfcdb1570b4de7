//! A disk that does not give back a block: a sector that is worn out, or that a loss of power tore.
//! Behind the end of the log it hinders no operation. Elsewhere the log is corrupt, the check says where,
//! and it can be cut there.

use crate::it::common;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{BLOCK, Cut, Disk, LogError, LogWriter, Start, check};
use common::{Writes, append_at, contents, options, recover, reopen, set};

type Found = Vec<(u64, Writes)>;

/// Commits 1 to 12 in two runs of several segments; the last run is open, or was closed. Its segment
/// goes on behind the end, as if it had been recycled.
fn log(closes: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    for epochs in [1..=6, 7..=12] {
        let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
        for epoch in epochs {
            let records = set(epoch, b"key", &[epoch as u8; 1000]);
            append_at(&mut writer, epoch, epoch, &records).unwrap();
        }
        if closes {
            writer.close().unwrap();
        }
    }
    let (_, end) = recover(&disk, 0).unwrap();
    let last = bpfdb_log::segment::name(end.segment.unwrap().number);
    let mut contents = disk.contents(&last).unwrap();
    contents.resize(end.offset as usize + 3 * BLOCK, 7);
    disk.put(&last, &contents);
    disk
}

fn found(disk: &SimulatedDisk) -> Result<Found, LogError> {
    let (commits, _) = recover(disk, 0)?;
    let found = commits
        .iter()
        .map(|commit| (commit.timestamp, contents(disk, commit)));
    Ok(found.collect())
}

/// All blocks of all segments, as name and offset.
fn blocks(disk: &SimulatedDisk) -> Vec<(String, usize)> {
    let names = disk.list("log").unwrap().into_iter();
    let segments = names.filter(|name| !name.starts_with("spare"));
    let blocks = segments.flat_map(|name| {
        let name = format!("log/{name}");
        let size = disk.contents(&name).unwrap().len();
        (0..size)
            .step_by(BLOCK)
            .map(move |offset| (name.clone(), offset))
    });
    blocks.collect()
}

/// Cuts the log where the check says, and says what is left and how many bytes could not be read.
fn repair(disk: &SimulatedDisk) -> (Found, u64) {
    let place = check(disk, 0).unwrap().whole_up_to.unwrap();
    let cut = Cut::plan(disk, 0, place).unwrap();
    let unreadable = cut.lost().unreadable_bytes;
    cut.apply(disk, Some("cut-1"), 0).unwrap();
    let disk = disk.lose_power();
    assert_eq!(check(&disk, 0).unwrap().fault, None);
    let left = found(&disk).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    append_at(&mut writer, 99, 99, &set(99, b"more", b"")).unwrap();
    drop(writer);
    assert_eq!(found(&disk).unwrap().len(), left.len() + 1);
    (left, unreadable)
}

/// Every block of a log, one at a time.
#[test]
fn a_block_that_cannot_be_read_is_damage_or_means_nothing() {
    for closes in [false, true] {
        let whole = log(closes);
        let all = found(&whole).unwrap();
        let (_, end) = recover(&whole, 0).unwrap();
        let last = bpfdb_log::segment::name(end.segment.unwrap().number);
        let (mut harmless, mut cuts) = (0, 0);
        for (name, offset) in blocks(&whole) {
            let disk = whole.fork();
            disk.spoil(&name, offset);
            let is_behind = name == last && offset as u64 > end.offset;
            let is_end = name == last && offset as u64 == end.offset;
            if is_behind || is_end && closes {
                harmless += 1;
            }
            let Some(fault) = check(&disk, 0).unwrap().fault else {
                // Behind the end, which the next segment may say as well.
                assert_eq!(found(&disk).unwrap(), all, "{name} {offset}");
                let log = reopen(&disk, Start::NewRun, options(4, 2));
                drop(log.unwrap_or_else(|error| panic!("{name} {offset}: {error}")));
                continue;
            };
            assert!(!is_behind, "{name} {offset}: {fault}");
            assert!(!(is_end && closes), "{name} {offset}: {fault}");
            assert!(
                fault.why.contains("cannot read"),
                "{name} {offset}: {fault}"
            );
            assert!(matches!(found(&disk), Err(LogError::Corrupt(_))));
            if (name.as_str(), offset) == ("log/0000000000000001.log", 0) {
                // Nothing of the log is whole.
                continue;
            }
            let (left, unreadable) = repair(&disk);
            assert_eq!(left[..], all[..left.len()], "{name} {offset}");
            // The header of a segment that goes away is not counted.
            assert_eq!(unreadable, if offset == 0 { 0 } else { BLOCK as u64 });
            cuts += 1;
        }
        assert!(cuts > 10 && harmless >= 2, "{cuts} {harmless}");
    }
}

/// The page cache has what a flush could not write. Recovery reads it; then the page goes, and the
/// disk has what it always had. That must not become durable.
#[test]
fn what_is_written_again_is_what_recovery_read() {
    let disk = log(false);
    let (_, end) = recover(&disk, 0).unwrap();
    assert!(end.doubtful_offset < end.offset);
    let name = bpfdb_log::segment::name(end.segment.unwrap().number);
    for offset in (end.doubtful_offset..end.offset).step_by(BLOCK) {
        let disk = disk.fork();
        disk.flip(&name, offset as usize + 90, 3);
        let opened = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options(4, 2));
        let error = opened.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("not what it was"), "{error}");
    }
    let opened = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options(4, 2));
    drop(opened.unwrap());
    assert_eq!(found(&disk).unwrap().len(), 12);
}
