//! Every operation of a disk fails once, in every way; every bit is turned over.

use crate::it::common;

use bpfdb_log::segment::SegmentHeader;
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_log::{
    AlignedBuffer, BLOCK, Batch, Disk, DiskFile, Follower, LogError, LogId, LogWriter, Options,
    Start, check,
};
use common::{Writes, contents, count, options, recover, reopen, set, set_large};

const OPTIONS: (u64, u64) = (5, 2);
const EPOCHS: u64 = 9;

fn small() -> Options {
    options(OPTIONS.0, OPTIONS.1)
}

/// What epoch `epoch` writes. The large ones take several batches, and with them segments.
fn group(epoch: u64) -> Vec<u8> {
    let value = [epoch as u8; 700];
    match epoch % 3 {
        0 => set_large(epoch, b"large", epoch, &value.repeat(15), 2000),
        _ => set(epoch, b"small", &value),
    }
}

/// What recovery must find of it.
fn expected(epoch: u64) -> (u64, Writes) {
    let value = [epoch as u8; 700];
    let write = match epoch % 3 {
        0 => (b"large".to_vec(), value.repeat(15)),
        _ => (b"small".to_vec(), value.to_vec()),
    };
    (epoch, vec![write])
}

fn append(writer: &mut LogWriter<SimulatedDisk>, epoch: u64) -> Result<(), LogError> {
    let records = group(epoch);
    let durable = writer.append(Batch {
        epoch,
        positions: &[epoch],
        wall: epoch,
        records: &records,
        record_count: count(&records),
    })?;
    assert_eq!(durable.epoch, epoch);
    Ok(())
}

/// Recovers, and demands exactly the epochs after `after` up to that which it returns.
fn exact(disk: &SimulatedDisk, after: u64) -> Result<u64, LogError> {
    let (commits, end) = recover(disk, after)?;
    let found = commits
        .iter()
        .map(|commit| (commit.timestamp, contents(disk, commit)));
    let found: Vec<_> = found.collect();
    assert_eq!(
        found,
        (after + 1..=end.epoch).map(expected).collect::<Vec<_>>()
    );
    Ok(end.epoch)
}

/// All that a log goes through, until something fails. Returns the last epoch that is durable, and
/// up to which everything is in the checkpoint.
fn life(disk: &SimulatedDisk) -> (u64, u64, Result<(), LogError>) {
    let (mut durable, mut checkpoint) = (0, 0);
    let result = live(disk, &mut durable, &mut checkpoint);
    (durable, checkpoint, result)
}

fn live(disk: &SimulatedDisk, durable: &mut u64, checkpoint: &mut u64) -> Result<(), LogError> {
    let mut writer = reopen(disk, Start::NewRun, small())?;
    for epoch in writer.durable().epoch + 1..=EPOCHS {
        if let Err(error) = append(&mut writer, epoch) {
            return still_failed(&mut writer, error);
        }
        *durable = epoch;
        if epoch == 6 {
            *checkpoint = epoch;
            let released = writer.release_before(writer.segment());
            if let Err(LogError::Failed(_)) = &released {
                return still_failed(&mut writer, released.unwrap_err());
            }
            released?;
        }
    }
    writer.close()
}

/// Once failed, always failed, and for the same reason.
fn still_failed(writer: &mut LogWriter<SimulatedDisk>, error: LogError) -> Result<(), LogError> {
    if matches!(error, LogError::Failed(_)) {
        for epoch in [EPOCHS + 1, EPOCHS + 2] {
            let again = append(writer, epoch).unwrap_err();
            assert_eq!(again.to_string(), error.to_string());
        }
        assert!(matches!(writer.prepare(1), Err(LogError::Failed(_))));
        assert!(matches!(writer.release_before(1), Err(LogError::Failed(_))));
    }
    Err(error)
}

/// How many operations of a kind a whole life has.
fn operations(operation: Operation) -> u64 {
    let disk = SimulatedDisk::new(0);
    let (durable, _, result) = life(&disk);
    result.unwrap();
    assert_eq!(durable, EPOCHS);
    disk.count(operation)
}

#[test]
fn an_error_is_the_end_and_loses_nothing() {
    for operation in Operation::ALL {
        for (nth, seed) in (0..operations(operation)).zip(100..) {
            let disk = SimulatedDisk::new(seed);
            disk.fail(operation, nth, Fault::Error);
            let (durable, checkpoint, result) = life(&disk);
            let error = result.expect_err("the operation was done, and has failed");
            let told = matches!(error, LogError::Failed(_) | LogError::Io { .. });
            assert!(told, "{operation:?} {nth}: {error}");
            // The next daemon finds it as it is, or after a loss of power.
            let disk = match nth % 2 {
                0 => disk.lose_power(),
                _ => disk.kill(),
            };
            assert!(
                exact(&disk, checkpoint).unwrap() >= durable,
                "{operation:?} {nth}"
            );
            let (_, _, result) = life(&disk);
            result.unwrap_or_else(|error| panic!("{operation:?} {nth}: {error}"));
            let disk = disk.lose_power();
            assert_eq!(exact(&disk, checkpoint.max(6)).unwrap(), EPOCHS);
        }
    }
}

#[test]
fn lack_of_space_heals_wherever_it_comes() {
    let mut healed = 0;
    let operations_that_take_space = [
        Operation::Create,
        Operation::Allocate,
        Operation::Write,
        Operation::Rename,
    ];
    for operation in operations_that_take_space {
        for (nth, seed) in (0..operations(operation)).zip(200..) {
            let disk = SimulatedDisk::new(seed);
            disk.fail(operation, nth, Fault::Full);
            healed += heal(&disk);
            let disk = disk.lose_power();
            assert_eq!(exact(&disk, EPOCHS).unwrap(), EPOCHS, "{operation:?} {nth}");
        }
    }
    assert!(
        healed > 30,
        "hardly any lack of space was noticed: {healed}"
    );
}

/// Files are opened while the log is written: also while clients have all descriptors.
#[test]
fn lack_of_descriptors_heals_wherever_it_comes() {
    let mut healed = 0;
    for operation in [Operation::Create, Operation::Open] {
        for (nth, seed) in (0..operations(operation)).zip(400..) {
            let disk = SimulatedDisk::new(seed);
            disk.fail(operation, nth, Fault::NoDescriptor);
            healed += heal(&disk);
            let disk = disk.lose_power();
            assert_eq!(exact(&disk, EPOCHS).unwrap(), EPOCHS, "{operation:?} {nth}");
        }
    }
    assert!(healed > 8, "hardly any was noticed: {healed}");
}

/// A new log that finds no space in the middle of its beginning, is tried again, and ends then.
#[test]
fn a_beginning_that_is_tried_again_is_of_one_log() {
    for (nth, seed) in (0..operations(Operation::Write)).zip(500..) {
        let disk = SimulatedDisk::new(seed);
        let (_, end) = recover(&disk, 0).unwrap();
        // Both attempts go by what the directory had before the first one.
        let open = |disk: &SimulatedDisk| {
            LogWriter::open(disk.clone(), &end, Start::NewRun, 0, small()).is_ok()
        };
        disk.fail(Operation::Write, nth, Fault::Full);
        if open(&disk) {
            assert!(nth > 2, "the beginning writes more");
            return;
        }
        // The second attempt ends at any operation.
        for stop in 0.. {
            let disk = disk.fork();
            disk.stop_at(stop);
            let is_over = open(&disk);
            let disk = match stop % 2 {
                0 => disk.lose_power(),
                _ => disk.kill(),
            };
            let (durable, _, result) = life(&disk);
            result.unwrap_or_else(|error| panic!("{nth} {stop}: {error}"));
            assert_eq!(durable, EPOCHS);
            if is_over {
                break;
            }
        }
    }
}

/// A whole life in which everything that finds no space is tried again. Returns how often it was.
fn heal(disk: &SimulatedDisk) -> u32 {
    let mut full = 0;
    let mut again = |error: LogError| match error {
        LogError::Full { .. } => full += 1,
        error => panic!("{error}"),
    };
    let mut writer = loop {
        match reopen(disk, Start::NewRun, small()) {
            Ok(writer) => break writer,
            Err(error) => again(error),
        }
    };
    for epoch in 1..=EPOCHS {
        while let Err(error) = append(&mut writer, epoch) {
            again(error);
        }
    }
    assert_eq!(exact(disk, 0).unwrap(), EPOCHS);
    while let Err(error) = writer.release_before(writer.segment()) {
        again(error);
    }
    let durable = writer.durable();
    if let Err(error) = writer.close() {
        again(error);
    }
    assert_eq!(durable.epoch, EPOCHS);
    full
}

#[test]
fn a_full_disk_appends_nothing_and_heals() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, small()).unwrap();
    append(&mut writer, 1).unwrap();
    disk.set_capacity(0);
    // The current segment has its space already.
    append(&mut writer, 2).unwrap();
    let sequence = writer.durable().sequence;
    for _ in 0..3 {
        assert!(matches!(append(&mut writer, 3), Err(LogError::Full { .. })));
        assert!(matches!(writer.prepare(1), Err(LogError::Full { .. })));
    }
    assert_eq!(
        (writer.durable().sequence, writer.durable().epoch),
        (sequence, 2)
    );
    assert_eq!(exact(&disk, 0).unwrap(), 2);
    disk.set_capacity(usize::MAX);
    append(&mut writer, 3).unwrap();
    assert_eq!(exact(&disk.lose_power(), 0).unwrap(), 3);
}

/// Requests that are done in pieces change nothing, wherever they come.
#[test]
fn a_life_of_short_and_interrupted_writes_is_whole() {
    for fault in [Fault::Short, Fault::Interrupted] {
        for nth in 0..operations(Operation::Write) {
            let disk = SimulatedDisk::new(nth);
            // Two in a row.
            disk.fail(Operation::Write, nth, fault);
            disk.fail(Operation::Write, nth + 1, fault);
            let (durable, checkpoint, result) = life(&disk);
            result.unwrap_or_else(|error| panic!("{fault:?} {nth}: {error}"));
            assert_eq!(
                (durable, exact(&disk.lose_power(), checkpoint).unwrap()),
                (EPOCHS, EPOCHS)
            );
        }
    }
}

/// The wall clock goes back and forth, and stands still: nothing but a time that is asked for
/// depends on it.
#[test]
fn a_wall_clock_that_jumps_confuses_nobody() {
    let walls = [50, 40, 40, 0, u64::MAX, 1, 30, 29, 60];
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, small()).unwrap();
    for (epoch, wall) in (1..).zip(walls) {
        common::append_at(&mut writer, epoch, wall, &group(epoch)).unwrap();
        if epoch == 5 {
            writer = reopen(&disk, Start::NewRun, small()).unwrap();
        }
    }
    writer.close().unwrap();
    assert_eq!(exact(&disk.lose_power(), 0).unwrap(), EPOCHS);
    let disk = disk.kill();
    let report = check(&disk, 0).unwrap();
    let steps: u64 = report.runs.iter().map(|run| run.clock_steps_back).sum();
    assert_eq!((report.fault, steps), (None, 3));
    let mut follower = Follower::new(disk, None, None).unwrap();
    let commits = std::iter::from_fn(|| follower.next_commit().unwrap());
    let found: Vec<_> = commits
        .map(|commit| (commit.timestamp, commit.wall))
        .collect();
    assert_eq!(found, (1..).zip(walls).collect::<Vec<_>>());
}

/// A flush that lies is found at recovery, or cuts; a follower shows at most what was acknowledged.
#[test]
fn a_follower_shows_what_was_acknowledged_even_by_a_disk_that_lies() {
    for nth in 0..operations(Operation::Flush) {
        let disk = SimulatedDisk::new(nth);
        disk.fail(Operation::Flush, nth, Fault::Lie);
        let (durable, _, result) = life(&disk);
        result.unwrap();
        let mut follower = Follower::new(disk.clone(), None, None).unwrap();
        let commits = std::iter::from_fn(|| follower.next_commit().unwrap());
        assert!(
            commits
                .map(|commit| commit.timestamp)
                .all(|time| time <= durable)
        );
        match exact(&disk.lose_power(), 6) {
            Ok(epoch) => assert!(epoch <= durable),
            Err(error) => assert!(matches!(error, LogError::Corrupt(_)), "{error}"),
        }
    }
}

#[test]
fn a_lying_flush_is_found_or_cuts() {
    let (mut found, mut cut) = (0, 0);
    for operation in [Operation::Flush, Operation::FlushFolder] {
        for nth in 0..operations(operation) {
            for seed in 0..20 {
                let disk = SimulatedDisk::new(seed);
                disk.fail(operation, nth, Fault::Lie);
                disk.stop_at(10 + seed * 5);
                let (durable, checkpoint, _) = life(&disk);
                match exact(&disk.lose_power(), checkpoint) {
                    Ok(epoch) => cut += u32::from(epoch < durable),
                    Err(LogError::Corrupt(_)) => found += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    assert!(found > 0 && cut > 0, "found {found}, cut {cut}");
}

/// Turns a bit over in every byte of every file. Returns how often that was found, or was not and
/// took epochs away.
fn flip_everything(disk: &SimulatedDisk, checkpoint: u64, all: u64, stride: usize) -> (u32, u32) {
    let (mut found, mut cut) = (0, 0);
    for name in disk.names() {
        let len = disk.contents(&name).unwrap().len();
        for offset in (0..len).step_by(stride) {
            let bit = (offset % 8) as u8;
            disk.flip(&name, offset, bit);
            match exact(disk, checkpoint) {
                Ok(epoch) => {
                    assert!(epoch + 1 >= all, "{name} at {offset}: ends with {epoch}");
                    cut += u32::from(epoch < all);
                }
                Err(LogError::Corrupt(_)) => found += 1,
                Err(error) => panic!("{name} at {offset}: {error}"),
            }
            disk.flip(&name, offset, bit);
        }
    }
    (found, cut)
}

/// A bit of each of so many bytes is turned: an odd number, so that each bit has its turn.
const STRIDE: usize = 7;

fn bits_of_a_closed_log(stride: usize) {
    let disk = SimulatedDisk::new(0);
    life(&disk).2.unwrap();
    let (found, cut) = flip_everything(&disk, 6, EPOCHS, stride);
    assert!(found as usize > 5_000 / stride, "{found}");
    // Of the control file the slot before the last one says less.
    assert!(cut == 0, "{cut}");
}

#[test]
fn a_bit_that_turned_is_found_in_a_log_that_was_closed() {
    bits_of_a_closed_log(STRIDE);
}

#[test]
#[ignore = "long: make soak"]
fn soak_every_bit_is_found_in_a_log_that_was_closed() {
    bits_of_a_closed_log(1);
}

fn bits_of_another_log(stride: usize) {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, small()).unwrap();
    for epoch in 1..=EPOCHS {
        append(&mut writer, epoch).unwrap();
    }
    drop(writer);
    let (found, cut) = flip_everything(&disk, 0, EPOCHS, stride);
    let last = group(EPOCHS).len() as u32;
    let all = |count: u32| count * stride as u32;
    assert!(all(found) > 4 * last, "{found}");
    // The last group, or the part of it that is in the last segment.
    assert!((1000..last + 200).contains(&all(cut)), "{cut} of {last}");
}

#[test]
fn a_bit_that_turned_cuts_at_most_the_last_group_of_another_log() {
    bits_of_another_log(STRIDE);
}

#[test]
#[ignore = "long: make soak"]
fn soak_every_bit_cuts_at_most_the_last_group_of_another_log() {
    bits_of_another_log(1);
}

#[test]
fn a_bit_that_turned_is_found_if_a_later_batch_was_durable() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(16, 12)).unwrap();
    let mut ends = Vec::new();
    for epoch in 1..=4 {
        append(&mut writer, epoch).unwrap();
        ends.push(recover(&disk, 0).unwrap().1.offset as usize);
    }
    let name = "log/0000000000000001.log";
    for offset in (BLOCK..ends[3]).step_by(7) {
        disk.flip(name, offset, 0);
        match exact(&disk, 0) {
            Err(LogError::Corrupt(fault)) => assert!(fault.offset as usize <= offset),
            // The last batch, or the zeros behind a payload.
            Ok(epoch) => assert!(epoch == 4 || (epoch == 3 && offset >= ends[2])),
            Err(error) => panic!("{error}"),
        }
        disk.flip(name, offset, 0);
    }
    // The checksum of a batch is in no payload.
    disk.flip(name, BLOCK + 8, 0);
    assert!(matches!(exact(&disk, 0), Err(LogError::Corrupt(_))));
}

#[test]
fn a_segment_that_does_not_follow_is_corrupt() {
    let disk = SimulatedDisk::new(0);
    for epoch in 1..=2 {
        let mut writer = reopen(&disk, Start::NewRun, options(16, 12)).unwrap();
        append(&mut writer, epoch).unwrap();
    }
    let name = "log/0000000000000002.log";
    let contents = disk.contents(name).unwrap();
    let right = SegmentHeader::decode(&contents[..BLOCK]).unwrap();
    let log = LogId([9; 16]);
    let wrong = [
        SegmentHeader { cut: 0, ..right },
        SegmentHeader { cut: 2, ..right },
        SegmentHeader { log, ..right },
        SegmentHeader { run: 0, ..right },
        SegmentHeader { run: 1, ..right },
        // The number of the run before, and no cut; but another run.
        SegmentHeader {
            run: 1,
            cut: 0,
            ..right
        },
        SegmentHeader { before: 0, ..right },
        SegmentHeader {
            number: 3,
            before: 2,
            ..right
        },
        SegmentHeader {
            before_end: right.before_end + BLOCK as u64,
            ..right
        },
        SegmentHeader {
            before_end: BLOCK as u64,
            ..right
        },
        SegmentHeader {
            before_checksum: !right.before_checksum,
            ..right
        },
        SegmentHeader {
            first_sequence: right.first_sequence + 1,
            ..right
        },
    ];
    for header in wrong {
        disk.put(name, &[&header.encode(), &contents[BLOCK..]].concat());
        let found = exact(&disk, 0);
        assert!(
            matches!(found, Err(LogError::Corrupt(_))),
            "{header:?}: {found:?}"
        );
    }
    disk.put(name, &contents);
    assert_eq!(exact(&disk, 0).unwrap(), 2);
}

#[test]
fn a_segment_that_vanishes_is_missed() {
    let disk = SimulatedDisk::new(0);
    life(&disk).2.unwrap();
    let (_, end) = recover(&disk, 6).unwrap();
    let mut writer = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, small()).unwrap();
    append(&mut writer, EPOCHS + 1).unwrap();
    let segments = disk
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".log"));
    let segments: Vec<_> = segments.collect();
    assert!(segments.len() > 2);
    for name in segments {
        let contents = disk.contents(&name).unwrap();
        disk.remove(&name).unwrap();
        let found = recover(&disk, 6);
        assert!(
            matches!(found, Err(LogError::Corrupt(_))),
            "{name}: {found:?}"
        );
        disk.put(&name, &contents);
    }
    disk.remove("control").unwrap();
    assert!(matches!(recover(&disk, 6), Err(LogError::Corrupt(_))));
}

/// The first batches of a group are valid, but the caller got the error that nothing was appended.
#[test]
fn a_proper_end_has_nothing_of_a_group_that_found_no_space() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(16, 2)).unwrap();
    append(&mut writer, 1).unwrap();
    let durable = writer.durable();
    disk.fail(Operation::Write, 1, Fault::Full);
    let full = append(&mut writer, 3).unwrap_err();
    assert!(matches!(full, LogError::Full { .. }), "{full}");
    assert!(recover(&disk, 0).unwrap().1.sequence > durable.sequence);
    writer.close().unwrap();
    let (_, end) = recover(&disk.lose_power(), 0).unwrap();
    assert_eq!((end.closed, end.sequence), (true, durable.sequence));
}

/// Nobody knows what of several writes a flush has done before it found no space.
#[test]
fn lack_of_space_in_a_flush_is_a_failure() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(16, 2)).unwrap();
    disk.fail(Operation::Flush, 0, Fault::Full);
    // A group of several batches.
    let failed = append(&mut writer, 3).unwrap_err();
    assert!(matches!(failed, LogError::Failed(_)), "{failed}");
    still_failed(&mut writer, failed).unwrap_err();
}

/// Requests that a disk does in pieces.
#[test]
fn short_and_interrupted_writes_go_on() {
    let disk = SimulatedDisk::new(3);
    let file = disk.create("log/a").unwrap();
    let mut bytes = AlignedBuffer::zeroed(8 * BLOCK);
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = (n / 512) as u8;
    }
    for nth in 0..20 {
        let fault = if nth % 3 == 0 {
            Fault::Interrupted
        } else {
            Fault::Short
        };
        disk.fail(Operation::Write, nth, fault);
        file.write_flushed(0, &bytes).unwrap();
        assert_eq!(disk.contents("log/a").unwrap(), &bytes[..]);
    }
    for nth in 0..100 {
        disk.fail(Operation::Write, nth, Fault::Interrupted);
    }
    let error = file.write_whole(0, &bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WriteZero);
}
