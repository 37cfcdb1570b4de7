//! A follower gets what is durable, all of it, in order, and nothing else: whatever the writer does
//! meanwhile, and whatever becomes of it.

use crate::it::common;

use std::thread;
use std::time::{Duration, Instant};

use bpfdb_log::simulation::{Fault, Operation, Random, SimulatedDisk};
use bpfdb_log::{Directory, Disk, Follower, LogError, LogWriter, RecoveredCommit, Start};
use common::{append_at, contents, folder, options, recover, reopen, seeds, set, set_large};

/// Longer than a busy machine takes for anything.
const PATIENCE: Duration = Duration::from_secs(120);

fn follow<D: Disk>(disk: &D) -> Follower<D> {
    Follower::new(disk.clone(), None, None).unwrap()
}

/// All that is there by now.
fn read<D: Disk>(follower: &mut Follower<D>) -> Vec<RecoveredCommit> {
    std::iter::from_fn(|| follower.next_commit().unwrap()).collect()
}

fn times<D: Disk>(follower: &mut Follower<D>) -> Vec<u64> {
    let commits = read(follower);
    commits.iter().map(|commit| commit.timestamp).collect()
}

fn append<D: Disk>(writer: &mut LogWriter<D>, epoch: u64) {
    append_at(writer, epoch, epoch, &set(epoch, b"key", &[1; 2000])).unwrap();
}

#[test]
fn a_commit_is_passed_on_when_something_says_that_it_is_durable() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    let mut follower = follow(&disk);
    assert_eq!(times(&mut follower), []);
    append(&mut writer, 1);
    // It is durable, but no other process can know.
    assert_eq!((times(&mut follower), follower.unconfirmed()), (vec![], 1));
    append(&mut writer, 2);
    assert_eq!((times(&mut follower), follower.unconfirmed()), (vec![1], 1));
    writer.confirm(7).unwrap();
    assert_eq!(times(&mut follower), [2]);
    // Nothing is there to be confirmed.
    let written = disk.operations();
    writer.confirm(8).unwrap();
    assert_eq!(disk.operations(), written);
    append(&mut writer, 3);
    writer.close().unwrap();
    assert_eq!((times(&mut follower), follower.unconfirmed()), (vec![3], 0));
}

#[test]
fn it_goes_on_in_the_next_segment_and_run() {
    let disk = SimulatedDisk::new(0);
    let mut follower = None;
    let mut found = Vec::new();
    let mut epoch = 0;
    for run in 0..5 {
        let start = if run % 2 == 0 {
            Start::NewRun
        } else {
            Start::SameRun
        };
        let mut writer = reopen(&disk, start, options(4, 2)).unwrap();
        let follower = follower.get_or_insert_with(|| follow(&disk));
        // Some runs have no batch: their segment is replaced.
        for _ in 0..run * 2 % 7 {
            epoch += 1;
            append(&mut writer, epoch);
            found.extend(times(follower));
        }
        found.extend(times(follower));
    }
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    append(&mut writer, 100);
    writer.close().unwrap();
    found.extend(times(follower.as_mut().unwrap()));
    assert_eq!(found, (1..=epoch).chain([100]).collect::<Vec<_>>());
    assert!(epoch > 8, "{epoch}");
}

#[test]
fn a_commit_that_does_not_count_is_not_passed_on() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    let early = [set(3, b"early", b""), set(2, b"key", b"")].concat();
    append_at(&mut writer, 2, 2, &early).unwrap();
    writer.confirm(0).unwrap();
    let mut follower = follow(&disk);
    assert_eq!(times(&mut follower), [2]);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    append(&mut writer, 9);
    writer.close().unwrap();
    assert_eq!(times(&mut follower), [9]);
}

/// What stands behind the end is valid, and other batches come to stand there.
#[test]
fn a_group_that_found_no_space_is_never_seen() {
    for nth in 0..2 {
        let disk = SimulatedDisk::new(nth);
        let mut writer = reopen(&disk, Start::NewRun, options(16, 2)).unwrap();
        append(&mut writer, 1);
        let mut follower = follow(&disk);
        let group = |value: u8| {
            let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
            keys.map(|key| set(5, key, &[value; 3000])).concat()
        };
        disk.fail(Operation::Write, nth, Fault::Full);
        let full = append_at(&mut writer, 5, 5, &group(1)).unwrap_err();
        assert!(matches!(full, LogError::Full { .. }), "{full}");
        assert!(
            !read(&mut follower)
                .iter()
                .any(|commit| commit.timestamp == 5)
        );
        append_at(&mut writer, 5, 5, &group(2)).unwrap();
        writer.confirm(5).unwrap();
        let values: Vec<_> = read(&mut follower)
            .iter()
            .filter(|commit| commit.timestamp == 5)
            .map(|commit| contents(&disk, commit)[0].1[0])
            .collect();
        assert_eq!(values, [2, 2, 2]);
    }
}

/// A group found no space, but its only batch was written. It is in the next segment then, with
/// more; what is left of it stands behind the end of this one, and is valid.
#[test]
fn what_is_left_in_one_segment_is_not_taken_for_what_is_in_the_next() {
    let mut left = 0;
    for seed in 0..3000 {
        let disk = SimulatedDisk::new(seed);
        let mut writer = reopen(&disk, Start::NewRun, options(8, 3)).unwrap();
        append_at(&mut writer, 1, 1, &set(1, b"a", &[1; 10_000])).unwrap();
        append_at(&mut writer, 2, 2, &set(2, b"a", &[2; 6000])).unwrap();
        let mut follower = follow(&disk);
        assert_eq!(times(&mut follower), [1]);
        let small = set(3, b"a", b"3");
        disk.fail(Operation::Write, 0, Fault::Full);
        append_at(&mut writer, 3, 3, &small).unwrap_err();
        if recover(&disk, 0).unwrap().1.sequence == 2 {
            continue;
        }
        left += 1;
        let more = [small, set(4, b"b", &[4; 9000])].concat();
        append_at(&mut writer, 4, 4, &more).unwrap();
        assert_eq!(writer.segment(), 2);
        // Until the control file knows that this was durable.
        for epoch in 5..9 {
            append_at(&mut writer, epoch, epoch, &set(epoch, b"a", &[5; 10_000])).unwrap();
        }
        writer.confirm(0).unwrap();
        assert_eq!(times(&mut follower), (2..9).collect::<Vec<_>>());
    }
    assert!(left > 2, "{left}");
}

#[test]
fn a_beginning_that_was_given_up_is_told() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let (mut behind, mut slow) = (follow(&disk), follow(&disk));
    for epoch in 1..=9 {
        append(&mut writer, epoch);
        if epoch == 2 {
            assert_eq!(times(&mut behind), [1]);
            assert_eq!(times(&mut slow), [1]);
        }
    }
    writer.release_before(writer.segment() - 1).unwrap();
    writer.confirm(0).unwrap();
    // It has the file of the first segment still, which is not written over yet.
    assert_eq!(times(&mut behind), (2..=9).collect::<Vec<_>>());

    // The segment begins with epoch 4; of the first epochs commits may be missing.
    let mut follower = follow(&disk);
    assert_eq!(times(&mut follower), [7, 8, 9]);
    assert_eq!(follower.complete_after(), 6);
    for (from, checkpoint, found) in [
        (Some(7), None, Some(vec![7, 8, 9])),
        (Some(6), None, None),
        (Some(9), None, Some(vec![9])),
        (None, Some(3), Some(vec![4, 5, 6, 7, 8, 9])),
        (Some(5), Some(3), Some(vec![5, 6, 7, 8, 9])),
        (Some(3), Some(3), None),
    ] {
        let follower = Follower::new(disk.clone(), from, checkpoint);
        let commits = follower.and_then(|mut follower| {
            std::iter::from_fn(|| follower.next_commit().transpose()).collect::<Result<Vec<_>, _>>()
        });
        match (commits, found) {
            (Ok(commits), Some(found)) => {
                let times: Vec<_> = commits.iter().map(|commit| commit.timestamp).collect();
                assert_eq!(times, found, "{from:?} {checkpoint:?}");
            }
            (Err(LogError::Gone { timestamp, .. }), None) => assert_eq!(Some(timestamp), from),
            (found, _) => panic!("{from:?} {checkpoint:?}: {found:?}"),
        }
    }

    // The next segment is gone too.
    writer.release_before(writer.segment()).unwrap();
    let error = slow.next_commit().map(drop).unwrap_err();
    assert!(
        matches!(error, LogError::Gone { timestamp: 2, .. }),
        "{error}"
    );
    assert!(slow.next_commit().is_err());
}

#[test]
fn a_large_value_is_read_or_told_to_be_gone() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let large: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
    append_at(&mut writer, 1, 1, &set_large(1, b"large", 1, &large, 3000)).unwrap();
    writer.confirm(1).unwrap();
    let mut follower = follow(&disk);
    let commit = follower.next_commit().unwrap().unwrap();
    let read = || {
        let mut bytes = Vec::<u8>::new();
        let read = follower.read_large(&commit.large_values[0], |part| bytes.extend(part));
        read.map(|()| bytes)
    };
    assert_eq!(read().unwrap(), large);
    for epoch in 2..20 {
        append(&mut writer, epoch);
        writer.release_before(writer.segment()).unwrap();
        match read() {
            Ok(bytes) => assert_eq!(bytes, large),
            Err(error) => assert!(matches!(error, LogError::Gone { .. }), "{error}"),
        }
    }
    assert!(matches!(read(), Err(LogError::Gone { .. })));
}

#[test]
fn damage_is_told() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    for epoch in 1..=4 {
        append(&mut writer, epoch);
    }
    writer.close().unwrap();
    disk.flip("log/0000000000000001.log", 2 * bpfdb_log::BLOCK + 300, 1);
    let mut follower = follow(&disk);
    assert_eq!(follower.next_commit().unwrap().unwrap().timestamp, 1);
    let error = follower.next_commit().unwrap_err();
    assert!(matches!(error, LogError::Corrupt(_)), "{error}");
}

/// Random lives: what was passed on is there after every crash, in the same order.
#[test]
fn what_was_passed_on_survives() {
    let mut passed_on = 0;
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let mut disk = SimulatedDisk::new(seed);
        let (mut seen, mut clock) = (Vec::new(), 0);
        for _ in 0..4 {
            let mut writer = reopen(&disk, Start::NewRun, options(6, 2)).unwrap();
            clock = clock.max(recover(&disk, 0).unwrap().1.greatest_timestamp);
            let from = seen.last().map_or(1, |last| last + 1);
            let mut follower = Follower::new(disk.clone(), Some(from), None).unwrap();
            let operations = random.below(40);
            disk.stop_at(operations);
            while !disk.is_stopped() {
                clock += 1 + random.below(3);
                let size = 1 + random.below(9000) as usize;
                let records = set_large(clock, b"key", clock, &vec![1; size], 1500);
                if append_at(&mut writer, clock, clock, &records).is_err() {
                    break;
                }
                if random.once_in(4) && writer.confirm(0).is_err() {
                    break;
                }
                if random.once_in(2) {
                    seen.extend(times(&mut follower));
                }
            }
            disk = match random.once_in(3) {
                true => disk.kill(),
                false => disk.lose_power(),
            };
            let (commits, _) = recover(&disk, 0).unwrap();
            let found = commits.iter().map(|commit| commit.timestamp);
            let found: Vec<_> = found.take(seen.len()).collect();
            assert_eq!(found, seen, "seed {seed}");
        }
        passed_on += seen.len();
    }
    assert!(passed_on > 0);
}

/// The owner writes, recycles and reopens as fast as it can, and the follower keeps up or gets an error.
#[test]
fn follows_a_living_owner() {
    const EPOCHS: u64 = 800;
    let folder = folder();
    let disk = Directory::own(folder.path()).unwrap();
    let mut writer = reopen(&disk, Start::NewRun, options(8, 3)).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let other = Directory::read_only(folder.path());
            let (mut follower, mut last, mut gone) = (follow(&other), 0, 0);
            let (mut followed, mut all, begun) = (0_u64, 0_u64, Instant::now());
            while last < EPOCHS {
                assert!(begun.elapsed() < PATIENCE, "nothing behind {last}");
                match follower.next_commit() {
                    Ok(Some(commit)) => {
                        let timestamp = commit.timestamp;
                        assert!(timestamp == last + 1 || (followed == 0 && timestamp > last));
                        assert_eq!(contents(&other, &commit)[0].1, [timestamp as u8; 5000]);
                        (last, followed) = (timestamp, followed + 1);
                        all += 1;
                    }
                    Ok(None) => thread::yield_now(),
                    Err(LogError::Gone { .. }) => {
                        gone += 1;
                        followed = 0;
                        follower = follow(&other);
                    }
                    Err(error) => panic!("behind {last}: {error}"),
                }
            }
            (last, gone, all)
        });
        for epoch in 1..=EPOCHS {
            let records = set(epoch, b"key", &[epoch as u8; 5000]);
            append_at(&mut writer, epoch, epoch, &records).unwrap();
            // The last ones stay, for a follower that had to begin anew.
            if epoch % 50 == 0 && epoch + 100 < EPOCHS {
                writer.release_before(writer.segment()).unwrap();
            }
            if epoch % 100 == 0 {
                writer = reopen(&disk, Start::SameRun, options(8, 3)).unwrap();
            }
        }
        writer.confirm(0).unwrap();
        let (last, gone, all) = reader.join().unwrap();
        println!("{all} of {EPOCHS} commits were followed, {gone} times they were gone");
        assert_eq!(last, EPOCHS);
        // Not only the last ones, which stay.
        assert!(all > 200, "{all}");
    });
}
