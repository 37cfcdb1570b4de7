//! A control file of which no slot is valid is made anew, and recovery finds what it found before.

use crate::it::common;

use bpfdb_log::checkpoint::{self, CheckpointWriter, Header, WrittenCheckpoint};
use bpfdb_log::control::{Control, NAME};
use bpfdb_log::reader::read_control;
use bpfdb_log::segment::{self, SegmentHeader};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{BLOCK, Disk, LogError, LogWriter, Rebuilt, Start, check};
use common::{append_at, options, recover, reopen, set};

/// Writes epochs, of which three fill a segment.
fn write(log: &mut LogWriter<SimulatedDisk>, epochs: std::ops::RangeInclusive<u64>) {
    for epoch in epochs {
        append_at(log, epoch, 0, &set(epoch, b"key", &[epoch as u8; 3000])).unwrap();
    }
}

/// Two runs over several segments.
fn two_runs() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    write(
        &mut reopen(&disk, Start::NewRun, options(4, 2)).unwrap(),
        1..=7,
    );
    write(
        &mut reopen(&disk, Start::NewRun, options(4, 2)).unwrap(),
        8..=14,
    );
    disk
}

/// A checkpoint file that is complete.
fn complete(
    disk: &SimulatedDisk,
    log: &LogWriter<SimulatedDisk>,
    number: u64,
    start: u64,
) -> WrittenCheckpoint {
    let header = Header {
        log: log.log(),
        number,
        run: log.run(),
        start,
        wall: 0,
        first_segment: log.segment(),
        placement: Vec::new(),
    };
    let file = CheckpointWriter::create(disk.clone(), header).unwrap();
    file.finish(start, 0).unwrap()
}

/// Both slots are damaged; then the file is made anew.
fn rebuild(disk: &SimulatedDisk) -> Result<Control, LogError> {
    assert_eq!(Rebuilt::plan(disk).unwrap(), None, "a slot is valid");
    for slot in 0..2 {
        disk.flip(NAME, slot * BLOCK + 100, 1);
    }
    assert!(read_control(disk).is_err());
    let rebuilt = Rebuilt::plan(disk)?.expect("there is a log");
    rebuilt.apply(disk)?;
    Ok(*rebuilt.control())
}

/// Makes the control file of a copy anew: what recovery finds is the same, and the log goes on.
fn is_the_same(disk: &SimulatedDisk) {
    let before = recover(disk, 0).unwrap();
    let was = read_control(disk).unwrap().unwrap();
    let disk = disk.fork();
    let control = rebuild(&disk).unwrap();
    let disk = disk.lose_power();
    assert_eq!(
        (control.log, control.run, control.newest_segment),
        (was.log, was.run, was.newest_segment)
    );
    let after = recover(&disk, 0).unwrap();
    assert_eq!(after.0, before.0);
    assert_eq!(
        (after.1.epoch, after.1.segment),
        (before.1.epoch, before.1.segment)
    );
    assert!(after.1.greatest_timestamp >= before.1.greatest_timestamp);
    assert_eq!(check(&disk, 0).unwrap().fault, None);
    let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let next = after.1.greatest_timestamp + 1;
    write(&mut log, next..=next);
    assert_eq!(recover(&disk, 0).unwrap().0.len(), before.0.len() + 1);
}

#[test]
fn a_log_that_has_its_beginning_needs_no_checkpoint() {
    let disk = two_runs();
    is_the_same(&disk);
    // One that is complete, and was never named.
    let log = reopen(&disk, Start::SameRun, options(4, 2)).unwrap();
    complete(&disk, &log, 1, 14);
    is_the_same(&disk);
}

#[test]
fn the_checkpoint_is_found_that_counts() {
    let disk = two_runs();
    let mut log = reopen(&disk, Start::SameRun, options(4, 2)).unwrap();
    let first = complete(&disk, &log, 1, 14);
    log.install(&first).unwrap();
    write(&mut log, 15..=19);
    log.release_before(first.first_segment).unwrap();
    is_the_same(&disk);
    // Another one is complete, and the first one counts.
    let second = complete(&disk, &log, 2, 19);
    is_the_same(&disk);
    // Now the second does, and the first is still there.
    write(&mut log, 20..=23);
    log.install(&second).unwrap();
    log.release_before(second.first_segment).unwrap();
    is_the_same(&disk);
    checkpoint::remove_others(&disk, &[2]).unwrap();
    is_the_same(&disk);
    // Without it nothing says what was before.
    checkpoint::remove_others(&disk, &[]).unwrap();
    let refused = rebuild(&disk);
    assert!(matches!(refused, Err(LogError::Corrupt(_))), "{refused:?}");
}

/// Commits up to the end of the checkpoint are in a segment that is lost. Without them it means
/// nothing.
#[test]
fn a_checkpoint_without_its_first_segment_is_none() {
    let disk = two_runs();
    let mut log = reopen(&disk, Start::SameRun, options(4, 2)).unwrap();
    let checkpoint = complete(&disk, &log, 1, 14);
    log.install(&checkpoint).unwrap();
    write(&mut log, 15..=19);
    log.release_before(checkpoint.first_segment).unwrap();
    drop(log);
    let first = checkpoint.first_segment;
    // An older one that was retained is there instead.
    let old = segment::name(first);
    let bytes = disk.contents(&old).unwrap();
    for name in disk.list("log").unwrap() {
        disk.remove(&format!("log/{name}")).unwrap();
    }
    let mut header = SegmentHeader::decode(&bytes[..BLOCK]).unwrap();
    header.number -= 1;
    disk.put(&segment::name(header.number), &header.encode());
    let refused = rebuild(&disk);
    assert!(matches!(refused, Err(LogError::Corrupt(_))), "{refused:?}");
}

#[test]
fn a_log_of_another_version_is_not_touched() {
    let disk = two_runs();
    let newer = |slot: usize| {
        let mut bytes = disk.contents(NAME).unwrap();
        let block = &mut bytes[slot * BLOCK..(slot + 1) * BLOCK];
        block[8] = 99;
        let checksum = crc32c::crc32c_append(99, &block[16..]);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        disk.put(NAME, &bytes);
    };
    (0..2).for_each(newer);
    let refused = Rebuilt::plan(&disk);
    assert!(matches!(refused, Err(LogError::Refused(_))), "{refused:?}");
}

#[test]
fn segments_of_two_logs_are_not_mixed() {
    let (disk, other) = (two_runs(), SimulatedDisk::new(2));
    write(
        &mut reopen(&other, Start::NewRun, options(4, 2)).unwrap(),
        1..=14,
    );
    let name = segment::name(3);
    disk.put(&name, &other.contents(&name).unwrap());
    disk.remove(NAME).unwrap();
    let refused = Rebuilt::plan(&disk);
    assert!(matches!(refused, Err(LogError::Refused(_))), "{refused:?}");
    // There is nothing to make one for.
    assert_eq!(Rebuilt::plan(&SimulatedDisk::new(3)).unwrap(), None);
}
