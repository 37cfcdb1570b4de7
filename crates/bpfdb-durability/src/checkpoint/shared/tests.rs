//! When a checkpoint counts, and when it is given up.

use std::thread;
use std::time::{Duration, SystemTime};

use bpfdb_log::checkpoint::{CheckpointReader, CheckpointWriter, Header, remove_others};
use bpfdb_log::reader::read_control;
use bpfdb_log::segment::name;
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_log::{Batch, Disk, Recovery, Start};

use super::*;
use crate::checkpoint::RetentionOptions;

fn log(disk: &SimulatedDisk) -> LogWriter<SimulatedDisk> {
    log_of(disk, bpfdb_log::Options::default())
}

fn log_of(disk: &SimulatedDisk, options: bpfdb_log::Options) -> LogWriter<SimulatedDisk> {
    let recovery = Recovery::new(disk.clone(), 0).expect("readable");
    let end = recovery.finish().expect("a new log");
    LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options).expect("opened")
}

fn written(disk: &SimulatedDisk, log: &LogWriter<SimulatedDisk>, end: u64) -> WrittenCheckpoint {
    let header = Header {
        log: log.log(),
        number: 1,
        run: log.run(),
        start: 7,
        wall: 0,
        first_segment: log.segment(),
        placement: Vec::new(),
    };
    let file = CheckpointWriter::create(disk.clone(), header).expect("created");
    file.finish(end, 0).expect("written")
}

fn origin(epoch: u64, segment: u64) -> Origin {
    Origin {
        begun: Instant::now(),
        epoch,
        segment,
        log: LogId::default(),
        run: 1,
    }
}

/// A group of nothing, which the log has.
fn append(log: &mut LogWriter<SimulatedDisk>, epoch: u64) {
    let group = Batch {
        epoch,
        positions: &[],
        wall: 0,
        records: &[],
        record_count: 0,
    };
    log.append(group).expect("durable");
}

fn new() -> Shared {
    let nothing = Retention::new(RetentionOptions::default(), 1);
    Shared::new(CheckpointOptions::on_request(), None, 0, nothing)
}

/// Until a checkpoint waits for the log's writer.
fn await_install(shared: &Shared) {
    while shared.lock().install.is_none() {
        thread::yield_now();
    }
}

/// A checkpoint waits until its end, 10, is durable. `before` the log's writer serves it then, and
/// `after`. What its thread gets.
fn install(
    shared: &Shared,
    log: &mut LogWriter<SimulatedDisk>,
    checkpoint: WrittenCheckpoint,
    before: impl FnOnce(),
    after: impl FnOnce(&mut LogWriter<SimulatedDisk>),
) -> Result<(), String> {
    let segment = log.segment();
    thread::scope(|scope| {
        let waits = scope.spawn(|| shared.install(checkpoint));
        await_install(shared);
        append(log, 10);
        before();
        shared.serve(log, origin(10, segment));
        after(log);
        waits.join().expect("no panic")
    })
}

fn installed(disk: &SimulatedDisk) -> bool {
    let control = read_control(disk).expect("readable").expect("there");
    control.checkpoint.is_some()
}

/// A group whose epoch is before the checkpoint's end does not make it count: it was closed
/// before the pass was over, and what the pass has found may not be durable.
#[test]
fn nothing_counts_before_its_end_is_durable() {
    let disk = SimulatedDisk::new(1);
    let mut log = log(&disk);
    let checkpoint = written(&disk, &log, 10);
    let shared = new();
    let segment = log.segment();
    thread::scope(|scope| {
        let waits = scope.spawn(|| shared.install(checkpoint));
        await_install(&shared);
        for epoch in [7, 9] {
            append(&mut log, epoch);
            shared.serve(&mut log, origin(epoch, segment));
            assert!(!installed(&disk), "epoch {epoch}");
            assert!(!waits.is_finished());
        }
        shared.serve(&mut log, origin(10, segment));
        assert!(!installed(&disk), "the log does not say so");
        append(&mut log, 10);
        shared.serve(&mut log, origin(10, segment));
        assert!(installed(&disk));
        assert_eq!(waits.join().expect("no panic"), Ok(()));
    });
}

/// A stop does not wait for a log that goes on, or has ended.
#[test]
fn what_waits_is_given_up() {
    let disk = SimulatedDisk::new(1);
    let mut log = log(&disk);
    let checkpoint = written(&disk, &log, 10);
    let shared = Arc::new(new());
    drop(LogEnds(Arc::clone(&shared)));
    assert!(shared.install(checkpoint).is_err());
    assert!(shared.check().is_err());

    let shared = new();
    shared.stop();
    assert_eq!(shared.install(checkpoint), Err(STOPPED.into()));
    let segment = log.segment();
    append(&mut log, 20);
    // The log ends by a panic, while its writer is about to name the checkpoint.
    let ends = Arc::new(new());
    thread::scope(|scope| {
        let waits = scope.spawn(|| ends.install(checkpoint));
        await_install(&ends);
        assert!(ends.next_to_install(origin(20, segment), 20).is_some());
        drop(LogEnds(Arc::clone(&ends)));
        assert!(waits.join().expect("no panic").is_err());
    });
    shared.serve(&mut log, origin(20, segment));
    assert!(!installed(&disk));
    assert!(shared.next_task(Instant::now()).is_none());
}

/// The first slot of the control file names a checkpoint, and the second one cannot be written:
/// the file stays, whether its thread is stopped, the disk stays full, or the log has failed.
#[test]
fn a_checkpoint_stays_that_the_control_file_may_name() {
    for fault in [Fault::Full, Fault::Error] {
        let disk = SimulatedDisk::new(1);
        let mut log = log(&disk);
        let checkpoint = written(&disk, &log, 10);
        let shared = new();
        let fail = || disk.fail(Operation::Write, 1, fault);
        let told = install(&shared, &mut log, checkpoint, fail, |_| {
            assert!(installed(&disk), "by one slot");
            shared.stop();
        });
        assert!(told.is_err());
        remove_others(&disk, &shared.retained_numbers()).expect("removed");
        let reader = CheckpointReader::open(&disk, log.log(), checkpoint.mark);
        assert!(reader.is_ok(), "{fault:?}");
    }
}

/// A group lacks space while a slot names the checkpoint: that is finished, and not given up.
#[test]
fn a_full_disk_does_not_take_what_one_slot_names() {
    let disk = SimulatedDisk::new(1);
    let mut log = log(&disk);
    let checkpoint = written(&disk, &log, 10);
    let shared = new();
    let fail = || disk.fail(Operation::Write, 1, Fault::Full);
    let told = install(&shared, &mut log, checkpoint, fail, |log| {
        shared.give_up_waiting(log);
    });
    assert_eq!(told, Ok(()));
    assert_eq!(shared.retained_numbers(), [1]);
}

/// Segments that are not needed could not be recycled, once: that is tried again where space is
/// lacking, and there is some then.
#[test]
fn what_could_not_be_recycled_gives_space_later() {
    for fault in [Fault::Error, Fault::NoDescriptor, Fault::Full] {
        let disk = SimulatedDisk::new(1);
        let options = bpfdb_log::Options {
            segment_size: 64 << 10,
            batch_size: 16 << 10,
            spares: 1,
        };
        let mut log = log_of(&disk, options);
        for epoch in 1.. {
            append(&mut log, epoch.min(9));
            if log.segment() > 1 {
                break;
            }
        }
        let checkpoint = written(&disk, &log, 10);
        let shared = new();
        let fail = || {
            disk.fail(Operation::Rename, 0, fault);
            disk.fail(Operation::Remove, 0, fault);
        };
        let told = install(&shared, &mut log, checkpoint, fail, |_| ());
        assert_eq!(told, Ok(()));
        let first = name(1).rsplit_once('/').expect("a folder").1.to_owned();
        let has_first = || disk.list("log").expect("listed").contains(&first);
        assert!(has_first(), "{fault:?}");
        // Whether it was renamed or removed: the other one fails now.
        let made = (0..3).any(|_| shared.make_room(&mut log));
        assert!(made && !has_first(), "{fault:?}");
        assert!(!shared.make_room(&mut log), "there is no more");
    }
}

/// What a later attempt came to says nothing of an earlier one, unless it made a checkpoint: that has
/// what was to be in the earlier one, too.
#[test]
fn whoever_waits_is_told_of_the_attempt_that_was_asked_for() {
    let shared = new();
    let end = |outcome: Result<(), &str>| {
        let logged = shared.logged();
        let done = CheckpointDone {
            number: 1,
            start: 0,
            entries: 0,
            bytes: 0,
            finished: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
        };
        shared.end(outcome.map(|()| done).map_err(str::to_owned), logged);
    };
    end(Ok(()));
    end(Err("no space"));
    assert_eq!(shared.await_attempt(1), Ok(()));
    assert_eq!(shared.await_attempt(2), Err("no space".to_owned()));
    end(Ok(()));
    assert_eq!(shared.await_attempt(2), Ok(()));
    let status = shared.status();
    assert_eq!(
        (status.attempts, status.last_made, status.failed),
        (3, 3, 1)
    );
}
