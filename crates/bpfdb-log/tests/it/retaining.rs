//! What is retained besides what a start needs: every point from its beginning on can be had, and
//! giving it up does no harm, wherever it is interrupted.

use crate::it::common;

use std::collections::BTreeMap;

use bpfdb_log::checkpoint::{self, CheckpointWriter, Header, WrittenCheckpoint};
use bpfdb_log::reader::read_control;
use bpfdb_log::segment;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{
    Beginnings, Cut, Disk, Follower, LogError, LogWriter, Place, Rebuilt, Start, Until, check,
    check_retained, copy_until,
};
use common::{append_at, contents, options, recover, reopen, seeds, set};

type Log = LogWriter<SimulatedDisk>;

/// Commits of the test: timestamp `n` sets the key `n % 5` to `n`, at the time 10 n.
fn append(log: &mut Log, epochs: std::ops::RangeInclusive<u64>) -> Result<(), LogError> {
    for epoch in epochs {
        let mut value = vec![0; 3000];
        value[..8].copy_from_slice(&epoch.to_le_bytes());
        append_at(
            log,
            epoch,
            10 * epoch,
            &set(epoch, &[(epoch % 5) as u8], &value),
        )?;
    }
    Ok(())
}

/// What keys have after the commits up to a timestamp.
fn state(timestamp: u64) -> BTreeMap<Vec<u8>, u64> {
    (1..=timestamp)
        .map(|epoch| (vec![(epoch % 5) as u8], epoch))
        .collect()
}

/// Writes a checkpoint of what is durable.
fn write(disk: &SimulatedDisk, log: &Log, number: u64) -> Result<WrittenCheckpoint, LogError> {
    let epoch = log.durable().epoch;
    write_until(disk, log, number, epoch)
}

fn write_until(
    disk: &SimulatedDisk,
    log: &Log,
    number: u64,
    end: u64,
) -> Result<WrittenCheckpoint, LogError> {
    let epoch = log.durable().epoch;
    let header = Header {
        log: log.log(),
        number,
        run: log.run(),
        start: epoch,
        wall: 10 * epoch,
        first_segment: log.segment(),
        placement: Vec::new(),
    };
    let mut file = CheckpointWriter::create(disk.clone(), header)?;
    for (key, value) in state(epoch) {
        let mut bytes = vec![0; 3000];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        file.add_entry(&key, &bytes, None)?;
    }
    file.finish(end, 10 * epoch + 5)
}

/// Checkpoints after 9, 18 and 27 commits, of 30; the log from `first_kept` on is retained.
fn checkpointed(disk: &SimulatedDisk, retain: bool) -> Log {
    let mut log = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    for number in 1..=3 {
        append(&mut log, 9 * number - 8..=9 * number).unwrap();
        let written = write(disk, &log, number).unwrap();
        let first_kept = if retain { 1 } else { written.first_segment };
        log.install_retaining(&written, first_kept).unwrap();
        log.recycle(u64::MAX).unwrap();
    }
    append(&mut log, 28..=30).unwrap();
    log
}

/// What a directory has that is recovered as of a point in time.
fn as_of(disk: &SimulatedDisk, until: Until) -> Result<BTreeMap<Vec<u8>, u64>, LogError> {
    let new = SimulatedDisk::new(7);
    copy_until(disk, &new, Some(until), options(6, 3), |_| ())?;
    let (commits, _) = recover(&new, 0)?;
    let writes = commits.iter().flat_map(|commit| contents(&new, commit));
    let number = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
    Ok(writes.map(|(key, value)| (key, number(&value))).collect())
}

fn earliest(disk: &SimulatedDisk) -> u64 {
    let control = read_control(disk).unwrap().unwrap();
    let beginnings = Beginnings::find(disk, &control).unwrap();
    beginnings.earliest().unwrap().epoch
}

/// Every point from the earliest on can be had, and none before; and a server starts.
fn assert_whole(disk: &SimulatedDisk, last: u64) {
    let earliest = earliest(disk);
    for timestamp in 0..=last {
        match as_of(disk, Until::Timestamp(timestamp)) {
            Ok(found) => {
                assert!(timestamp >= earliest);
                assert_eq!(found, state(timestamp), "{timestamp} from {earliest} on");
            }
            Err(LogError::TooEarly(moment)) => {
                assert!(timestamp < earliest);
                assert_eq!(moment.epoch, earliest);
            }
            Err(error) => panic!("{timestamp} of {earliest}: {error}"),
        }
    }
    assert_eq!(check(disk, 0).unwrap().fault, None);
    let report = check_retained(disk).unwrap();
    assert_eq!(report.damaged, []);
    assert_eq!(report.earliest.unwrap().epoch, earliest);
}

#[test]
fn every_point_from_the_beginning_on_can_be_had() {
    let disk = SimulatedDisk::new(0);
    let mut log = checkpointed(&disk, true);
    assert_eq!(earliest(&disk), 0);
    assert_whole(&disk, 30);
    let control = read_control(&disk).unwrap().unwrap();
    let list = Beginnings::find(&disk, &control).unwrap().list;
    assert_eq!(list.len(), 4);
    for (n, beginning) in list.iter().enumerate() {
        log.give_up_before(beginning.first_segment).unwrap();
        while log.recycle(1).unwrap() {}
        assert_eq!(log.first_kept(), beginning.first_segment);
        assert_eq!(earliest(&disk), 9 * n as u64);
        assert_whole(&disk, 30);
        // Whoever comes next keeps what is retained, and gives up nothing else.
        let disk = disk.fork();
        let next = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
        assert_eq!(next.first_kept(), beginning.first_segment);
        assert_whole(&disk, 30);
    }
}

/// What is retained may have lost a part: the rest is given up all the same.
#[test]
fn a_segment_that_somebody_removed_is_given_up_with_the_others() {
    let disk = SimulatedDisk::new(0);
    let mut log = checkpointed(&disk, true);
    let needed = read_control(&disk).unwrap().unwrap().first_needed;
    disk.remove(&segment::name(2)).unwrap();
    log.give_up_before(needed).unwrap();
    while log.recycle(1).unwrap() {}
    let names = disk.names();
    let left: Vec<u64> = (1..needed)
        .filter(|&n| names.contains(&segment::name(n)))
        .collect();
    assert!(needed > 4 && left.is_empty(), "{left:?} before {needed}");
}

/// The oldest checkpoint that is retained begins in the segment where the one that counts does, so
/// the control file names no segment that is retained.
#[test]
fn an_older_checkpoint_of_the_same_segment_is_a_beginning() {
    let disk = SimulatedDisk::new(0);
    let mut log = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    append(&mut log, 1..=9).unwrap();
    let older = write(&disk, &log, 1).unwrap();
    log.install(&older).unwrap();
    append(&mut log, 10..=12).unwrap();
    let counts = write(&disk, &log, 2).unwrap();
    assert!(older.first_segment > 1 && older.first_segment == counts.first_segment);
    log.install_retaining(&counts, older.first_segment).unwrap();
    log.recycle(u64::MAX).unwrap();
    append(&mut log, 13..=15).unwrap();
    assert_eq!(earliest(&disk), 9);
    assert_whole(&disk, 15);
    let control = read_control(&disk).unwrap().unwrap();
    assert_eq!(control.first_retained, 0);
    let kept = Beginnings::find(&disk, &control).unwrap();
    assert_eq!(numbers(&kept, &control), [1, 2, 2]);
    // The check reads it.
    disk.flip(&checkpoint::name(1), 4096 + 100, 3);
    let report = check_retained(&disk).unwrap();
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.earliest.unwrap().epoch, 12);
}

/// Nothing of what a start reads is retained: it reads as much as without.
#[test]
fn a_start_reads_no_more() {
    let found = [false, true].map(|retain| {
        let disk = SimulatedDisk::new(0);
        drop(checkpointed(&disk, retain));
        let (commits, end) = recover(&disk, 0).unwrap();
        assert_eq!(commits.len(), 3);
        end.record_bytes
    });
    assert_eq!(found[0], found[1]);
}

#[test]
fn times_before_the_last_checkpoint_can_be_had() {
    let disk = SimulatedDisk::new(0);
    let mut log = checkpointed(&disk, true);
    for (wall, timestamp) in [
        (0, None),
        (10, Some(1)),
        (99, Some(9)),
        (185, Some(18)),
        (400, Some(30)),
    ] {
        match (as_of(&disk, Until::Wall(wall)), timestamp) {
            (Ok(found), Some(timestamp)) => assert_eq!(found, state(timestamp), "{wall}"),
            (Err(LogError::TooEarly(moment)), None) => assert_eq!(moment.wall, 10),
            (other, _) => panic!("{wall}: {other:?}"),
        }
    }
    let control = read_control(&disk).unwrap().unwrap();
    let list = Beginnings::find(&disk, &control).unwrap().list;
    log.give_up_before(list[1].first_segment).unwrap();
    log.recycle(u64::MAX).unwrap();
    for (wall, timestamp) in [(89, None), (90, Some(9)), (101, Some(10)), (300, Some(30))] {
        match (as_of(&disk, Until::Wall(wall)), timestamp) {
            (Ok(found), Some(timestamp)) => assert_eq!(found, state(timestamp), "{wall}"),
            (Err(LogError::TooEarly(moment)), None) => {
                // What is reported can be recovered.
                assert_eq!(moment.wall, 95);
                assert_eq!(moment.epoch, earliest(&disk));
                as_of(&disk, Until::Timestamp(moment.epoch)).unwrap();
            }
            (other, _) => panic!("{wall}: {other:?}"),
        }
    }
}

#[test]
fn who_follows_the_log_gets_what_is_retained() {
    let disk = SimulatedDisk::new(0);
    let mut log = checkpointed(&disk, true);
    log.confirm(300).unwrap();
    let read = |from| -> Result<Vec<u64>, LogError> {
        let mut follower = Follower::new(disk.clone(), from, None)?;
        let mut times = Vec::new();
        while let Some(commit) = follower.next_commit()? {
            times.push(commit.timestamp);
        }
        Ok(times)
    };
    let control = read_control(&disk).unwrap().unwrap();
    let list = Beginnings::find(&disk, &control).unwrap().list;
    for (n, beginning) in list.iter().enumerate() {
        log.give_up_before(beginning.first_segment).unwrap();
        log.recycle(u64::MAX).unwrap();
        let first = 9 * n as u64 + 1;
        assert_eq!(read(None).unwrap(), (first..=30).collect::<Vec<_>>());
        for from in 1..=30 {
            match read(Some(from)) {
                Ok(times) => assert_eq!(times, (from..=30).collect::<Vec<_>>()),
                Err(LogError::Gone {
                    timestamp,
                    complete_after,
                }) => {
                    assert!(from < first, "{from} of {first}");
                    assert_eq!((timestamp, complete_after), (from, Some(first - 1)));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// It was given up before anything of it was read: nothing is skipped in silence.
#[test]
fn what_is_given_up_before_it_is_followed_is_told() {
    let disk = SimulatedDisk::new(0);
    let mut log = checkpointed(&disk, true);
    let mut follower = Follower::new(disk.clone(), Some(5), None).unwrap();
    log.give_up_before(u64::MAX).unwrap();
    log.recycle(u64::MAX).unwrap();
    let error = follower.next_commit().unwrap_err();
    assert!(matches!(error, LogError::Gone { .. }), "{error}");
}

/// Power is lost at any operation of a checkpoint that retains, and of giving up step by step.
#[test]
fn power_loss_at_any_operation_leaves_what_is_said_to_be_there() {
    let mut found = BTreeMap::new();
    for seed in seeds(6) {
        for nth in 0.. {
            let disk = SimulatedDisk::new(seed);
            let mut log = checkpointed(&disk, true);
            disk.stop_at(nth);
            let _ = give_up_all(&disk, &mut log);
            let is_over = !disk.is_stopped();
            drop(log);
            let disk = disk.lose_power();
            assert_whole(&disk, 30);
            let first = earliest(&disk);
            *found.entry(first).or_insert(0) += 1;
            // The next owner finds the same, and cleans up.
            let log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
            assert_eq!(earliest(&disk), first);
            let control = read_control(&disk).unwrap().unwrap();
            let kept = Beginnings::find(&disk, &control).unwrap();
            checkpoint::remove_others(&disk, &numbers(&kept, &control)).unwrap();
            drop(log);
            assert_whole(&disk, 30);
            if is_over {
                break;
            }
        }
    }
    assert_eq!(
        found.keys().copied().collect::<Vec<_>>(),
        [0, 9, 18, 27, 30]
    );
}

fn numbers(kept: &Beginnings, control: &bpfdb_log::control::Control) -> Vec<u64> {
    let counts = control.checkpoint.map(|mark| mark.number);
    let retained = kept.list.iter().map(|beginning| beginning.number());
    retained.chain(counts).collect()
}

fn give_up_all(disk: &SimulatedDisk, log: &mut Log) -> Result<(), LogError> {
    let written = write(disk, log, 4)?;
    log.install_retaining(&written, 1)?;
    let control = read_control(disk)?.unwrap();
    let kept = Beginnings::find(disk, &control)?;
    for (n, beginning) in kept.list.iter().enumerate() {
        log.give_up_before(beginning.first_segment)?;
        if let Some(before) = n.checked_sub(1)
            && let Some(mark) = kept.list[before].mark
        {
            checkpoint::remove(disk, mark.number)?;
        }
        while log.recycle(1)? {}
    }
    Ok(())
}

/// It was written, its end never became durable, and it was not removed. The next run goes on
/// without what it may have seen.
#[test]
fn a_checkpoint_that_never_counted_is_no_beginning() {
    for durable in [false, true] {
        let disk = SimulatedDisk::new(0);
        let mut log = checkpointed(&disk, true);
        write_until(&disk, &log, 4, 33).unwrap();
        if durable {
            append(&mut log, 31..=33).unwrap();
        }
        drop(log);
        let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
        let first = log.durable().epoch + 1;
        append(&mut log, first..=40).unwrap();
        let written = write(&disk, &log, 5).unwrap();
        log.install_retaining(&written, 1).unwrap();
        let control = read_control(&disk).unwrap().unwrap();
        let list = Beginnings::find(&disk, &control).unwrap().list;
        let numbers: Vec<u64> = list.iter().map(|beginning| beginning.number()).collect();
        match durable {
            false => assert_eq!(numbers, [0, 1, 2, 3, 5]),
            true => assert_eq!(numbers, [0, 1, 2, 3, 4, 5]),
        }
        assert_whole(&disk, 40);
    }
}

/// A server starts, and the check says from where on recovery is possible.
#[test]
fn damage_of_what_is_retained_is_told_and_hinders_no_start() {
    let disk = SimulatedDisk::new(0);
    drop(checkpointed(&disk, true));
    let control = read_control(&disk).unwrap().unwrap();
    let list = Beginnings::find(&disk, &control).unwrap().list;

    let damaged = disk.fork();
    let name = bpfdb_log::segment::name(list[1].first_segment);
    damaged.flip(&name, 4096 + 100, 3);
    assert_eq!(check(&damaged, 0).unwrap().fault, None);
    let report = check_retained(&damaged).unwrap();
    assert_eq!(report.earliest.unwrap().epoch, 18);
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.beginnings.len(), 3);
    assert_eq!(as_of(&damaged, Until::Timestamp(20)).unwrap(), state(20));
    for timestamp in [18, 20, 30] {
        let found = as_of(&damaged, Until::Wall(10 * timestamp + 5));
        assert_eq!(found.unwrap(), state(timestamp));
    }
    assert!(matches!(
        as_of(&damaged, Until::Wall(120)),
        Err(LogError::Corrupt(_))
    ));
    assert!(matches!(
        as_of(&damaged, Until::Timestamp(12)),
        Err(LogError::Corrupt(_))
    ));

    let damaged = disk.fork();
    damaged.flip(&checkpoint::name(2), 100, 3);
    let report = check_retained(&damaged).unwrap();
    assert_eq!(
        report.earliest.unwrap().epoch,
        0,
        "the log before it has all"
    );
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(as_of(&damaged, Until::Timestamp(20)).unwrap(), state(20));
    let (commits, _) = recover(&damaged, 0).unwrap();
    assert_eq!(commits.len(), 3);
}

/// A disk does not give back the header of a checkpoint, or of a segment.
#[test]
fn what_cannot_be_read_is_damage() {
    let disk = SimulatedDisk::new(0);
    drop(checkpointed(&disk, true));
    // Of another run, so that the headers of segments are looked at.
    let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    append(&mut log, 31..=33).unwrap();
    drop(log);
    let control = read_control(&disk).unwrap().unwrap();
    let list = Beginnings::find(&disk, &control).unwrap().list;
    disk.spoil(&checkpoint::name(2), 0);
    disk.spoil(&bpfdb_log::segment::name(list[1].first_segment), 0);
    let found = Beginnings::find(&disk, &control).unwrap();
    assert_eq!(numbers(&found, &control), [0, 1, 3, 3]);
    assert_eq!((found.damaged.len(), found.unread), (1, vec![2]));
    let report = check_retained(&disk).unwrap();
    assert_eq!(report.earliest.unwrap().epoch, 27);
    assert!(
        report
            .damaged
            .iter()
            .any(|damage| damage.why.contains("cannot read it"))
    );
    assert_eq!(as_of(&disk, Until::Timestamp(33)).unwrap(), state(33));
}

/// The older ones do instead, where they are looked for.
#[test]
fn damage_of_the_checkpoint_that_counts_leaves_the_others() {
    for whole in [2, 0] {
        let disk = SimulatedDisk::new(0);
        drop(checkpointed(&disk, true));
        let control = read_control(&disk).unwrap().unwrap();
        for number in whole + 1..=3 {
            disk.flip(&checkpoint::name(number), 100, 3);
        }
        let found = Beginnings::find(&disk, &control).unwrap();
        let expected: Vec<u64> = (0..=whole).chain([3]).collect();
        assert_eq!(numbers(&found, &control), expected);
        assert_eq!(found.damaged.len() as u64, 3 - whole);
        assert_eq!(as_of(&disk, Until::Timestamp(29)).unwrap(), state(29));
    }
    // There is no other.
    let disk = SimulatedDisk::new(0);
    drop(checkpointed(&disk, false));
    disk.flip(&checkpoint::name(3), 100, 3);
    let error = as_of(&disk, Until::Timestamp(29)).unwrap_err();
    assert!(matches!(error, LogError::Corrupt(_)), "{error}");
}

/// Nothing is wrong with their ends: a recovery finds it out, and so does a check.
#[test]
fn damage_inside_of_checkpoints_leaves_the_others() {
    for whole in [2, 1, 0] {
        let disk = SimulatedDisk::new(0);
        drop(checkpointed(&disk, true));
        for number in whole + 1..=3 {
            disk.flip(&checkpoint::name(number), bpfdb_log::BLOCK + 100, 3);
        }
        assert_eq!(as_of(&disk, Until::Timestamp(29)).unwrap(), state(29));
        assert_eq!(as_of(&disk, Until::Timestamp(u64::MAX)).unwrap(), state(30));
        let copied = copy_until(&disk, &SimulatedDisk::new(7), None, options(6, 3), |_| ());
        assert_eq!(copied.unwrap().moment.epoch, 30);
        let report = check_retained(&disk).unwrap();
        assert_eq!(report.earliest.unwrap().epoch, 0);
        // That of the last one is reported with the log.
        assert_eq!(report.damaged.len() as u64, 2 - whole);
    }
}

/// Nobody says any more which checkpoint counts: recovery begins with the oldest.
#[test]
fn a_control_file_is_made_anew_of_what_is_retained() {
    let disk = SimulatedDisk::new(0);
    let mut log = checkpointed(&disk, true);
    let control = read_control(&disk).unwrap().unwrap();
    let list = Beginnings::find(&disk, &control).unwrap().list;
    for beginning in &list {
        log.give_up_before(beginning.first_segment).unwrap();
        log.recycle(u64::MAX).unwrap();
        let disk = disk.fork();
        disk.put(bpfdb_log::control::NAME, &[0; 8192]);
        let rebuilt = Rebuilt::plan(&disk).unwrap().expect("it is needed");
        rebuilt.apply(&disk).unwrap();
        let control = read_control(&disk).unwrap().unwrap();
        assert_eq!(control.first_needed, beginning.first_segment);
        assert_eq!(control.checkpoint, beginning.mark);
        assert_whole(&disk, 30);
        drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
        assert_whole(&disk, 30);
    }
}

/// A log that is cut keeps what is retained, but for what is later than the cut.
#[test]
fn a_cut_leaves_what_is_retained() {
    let disk = SimulatedDisk::new(0);
    let log = checkpointed(&disk, true);
    let place = Place {
        segment: log.segment(),
        offset: 4096,
    };
    drop(log);
    let cut = Cut::plan(&disk, 0, place).unwrap();
    let last = cut.end().epoch;
    assert!((27..30).contains(&last));
    cut.apply(&disk, None, 0).unwrap();
    assert_eq!(earliest(&disk), 0);
    for timestamp in 0..=last {
        assert_eq!(
            as_of(&disk, Until::Timestamp(timestamp)).unwrap(),
            state(timestamp)
        );
    }
}

/// The cut is where the part begins that a start needs: nothing of that part says up to where the
/// run was durable, and what is retained before it stays of use.
#[test]
fn a_cut_before_all_that_a_start_needs_leaves_what_is_retained() {
    let disk = SimulatedDisk::new(0);
    let mut log = checkpointed(&disk, true);
    // The very first segment is not there any more: without it no beginning needs no checkpoint.
    log.give_up_before(2).unwrap();
    log.recycle(u64::MAX).unwrap();
    drop(log);
    let control = read_control(&disk).unwrap().unwrap();
    let segment = control.first_needed;
    disk.flip(&bpfdb_log::segment::name(segment), 4096 + 100, 3);
    let before = numbers(&Beginnings::find(&disk, &control).unwrap(), &control);
    assert!(before.contains(&2) && !before.contains(&0), "{before:?}");

    let place = Place {
        segment,
        offset: 4096,
    };
    let cut = Cut::plan(&disk, 0, place).unwrap();
    let last = cut.end().epoch;
    assert!((18..=27).contains(&last), "{last}");
    cut.apply(&disk, None, 0).unwrap();
    let control = read_control(&disk).unwrap().unwrap();
    assert_eq!(
        numbers(&Beginnings::find(&disk, &control).unwrap(), &control),
        before
    );
    for timestamp in 18..=last {
        let found = as_of(&disk, Until::Timestamp(timestamp));
        assert_eq!(found.unwrap(), state(timestamp));
    }
    // And the log goes on.
    let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let next = log.durable().epoch + 1;
    assert!(next > 30, "no timestamp that was lost is used again");
    append(&mut log, next..=next + 3).unwrap();
}

/// The header in which the next run says what it goes on from cannot be read: what is retained stays.
#[test]
fn a_run_whose_beginning_cannot_be_read_gives_nothing_up() {
    let disk = SimulatedDisk::new(0);
    drop(checkpointed(&disk, true));
    let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let boundary = log.segment();
    append(&mut log, 31..=44).unwrap();
    let written = write(&disk, &log, 4).unwrap();
    assert!(
        written.first_segment > boundary + 1,
        "a run of some segments"
    );
    log.install_retaining(&written, 1).unwrap();
    append(&mut log, 45..=46).unwrap();
    drop(log);
    // The last run is not that of the boundary: else that is not asked.
    drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
    let control = read_control(&disk).unwrap().unwrap();
    let before = numbers(&Beginnings::find(&disk, &control).unwrap(), &control);
    disk.spoil(&bpfdb_log::segment::name(boundary), 0);
    let found = Beginnings::find(&disk, &control).unwrap();
    assert_eq!(numbers(&found, &control), before);
}
