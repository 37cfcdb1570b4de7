//! Recovery to a point in time gives the commits up to there, whatever the wall clock did; and a
//! copy of a log has them too.

use crate::it::common;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use bpfdb_log::checkpoint::{CheckpointWriter, Header};
use bpfdb_log::record::Value;
use bpfdb_log::simulation::{Random, SimulatedDisk, SimulatedFile};
use bpfdb_log::{
    BLOCK, Copied, Disk, LogError, LogWriter, Moment, Options, Recovery, Start, Until, ValueType,
    check_retained, copy_until,
};
use common::{
    Writes, append_at, contents, only_read, options, recover, reopen, seeds, set, set_large,
};

fn times(disk: &SimulatedDisk, until: Until) -> Result<Vec<u64>, LogError> {
    let recovery = Recovery::bounded(disk.clone(), 0, until)?;
    recovery.map(|commit| Ok(commit?.timestamp)).collect()
}

/// Epochs with these wall clocks: the first is 1, and commits of the epoch before.
fn with_walls(walls: &[u64]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    for (epoch, wall) in (1..).zip(walls) {
        append_at(&mut writer, epoch, *wall, &set(epoch, b"key", &[0; 1000])).unwrap();
    }
    writer.close().unwrap();
    disk
}

#[test]
fn a_timestamp_is_the_last_that_counts() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    // Commits in an order of their own; 5 comes early.
    let first = [set(3, b"c", b""), set(1, b"a", b""), set(5, b"e", b"")].concat();
    append_at(&mut writer, 3, 30, &first).unwrap();
    append_at(&mut writer, 6, 60, &set(4, b"d", b"")).unwrap();
    for (until, found) in [
        (0, vec![]),
        (1, vec![1]),
        (2, vec![1]),
        (3, vec![1, 3]),
        (4, vec![1, 3, 4]),
        (5, vec![1, 3, 4, 5]),
        (u64::MAX, vec![1, 3, 4, 5]),
    ] {
        assert_eq!(times(&disk, Until::Timestamp(until)).unwrap(), found);
    }
    let mut recovery = Recovery::bounded(disk.clone(), 0, Until::Timestamp(4)).unwrap();
    assert_eq!(recovery.by_ref().count(), 3);
    assert_eq!(recovery.moment(), Moment { epoch: 4, wall: 60 });
    // No log goes on from there.
    assert!(matches!(recovery.finish(), Err(LogError::Refused(_))));
    // The checkpoint may not be later.
    let later = Recovery::bounded(disk.clone(), 3, Until::Timestamp(2));
    assert!(matches!(later.map(|_| ()), Err(LogError::Refused(_))));
    let mut behind = Recovery::bounded(disk, 3, Until::Timestamp(4)).unwrap();
    assert_eq!(behind.next().unwrap().unwrap().timestamp, 4);
    assert!(behind.next().is_none());
}

#[test]
fn a_time_is_the_last_epoch_that_is_not_later() {
    let disk = with_walls(&[10, 20, 30]);
    for (wall, last) in [(10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (u64::MAX, 3)] {
        let found = times(&disk, Until::Wall(wall)).unwrap();
        assert_eq!(found, (1..=last).collect::<Vec<_>>(), "{wall}");
    }
    let refused = times(&disk, Until::Wall(9)).unwrap_err();
    assert!(matches!(refused, LogError::TooEarly(_)), "{refused}");
}

#[test]
fn a_clock_that_goes_back_takes_nothing_away() {
    // It was wrong for two epochs, and was set right.
    let disk = with_walls(&[10, 11, 1000, 1001, 12, 13]);
    assert_eq!(times(&disk, Until::Wall(12)).unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(times(&disk, Until::Wall(11)).unwrap(), [1, 2]);
    // It went back for a while.
    let disk = with_walls(&[10, 20, 5, 6, 30]);
    assert_eq!(times(&disk, Until::Wall(5)).unwrap(), [1, 2, 3]);
    assert_eq!(times(&disk, Until::Wall(25)).unwrap(), [1, 2, 3, 4]);
    // Recovery of everything does not care.
    assert_eq!(recover(&disk, 0).unwrap().0.len(), 5);
}

#[test]
fn what_is_behind_may_be_corrupt() {
    let disk = with_walls(&[10, 20, 30, 40, 50, 60]);
    disk.flip("log/0000000000000001.log", 3 * BLOCK + 200, 0);
    assert!(matches!(recover(&disk, 0), Err(LogError::Corrupt(_))));
    assert_eq!(times(&disk, Until::Timestamp(2)).unwrap(), [1, 2]);
    assert!(matches!(
        times(&disk, Until::Timestamp(3)),
        Err(LogError::Corrupt(_))
    ));
    // The last epoch that is not later may be behind the damage.
    assert!(matches!(
        times(&disk, Until::Wall(20)),
        Err(LogError::Corrupt(_))
    ));
}

fn copy(disk: &SimulatedDisk, until: Option<Until>) -> Result<(SimulatedDisk, Copied), LogError> {
    let new = SimulatedDisk::new(99);
    let small = Options {
        spares: 1,
        ..options(6, 3)
    };
    let copied = copy_until(disk, &new, until, small, |_| ())?;
    Ok((new, copied))
}

fn all(disk: &SimulatedDisk) -> Vec<(u64, Writes)> {
    let (commits, _) = recover(disk, 0).unwrap();
    let all = commits
        .iter()
        .map(|commit| (commit.timestamp, contents(disk, commit)));
    all.collect()
}

/// Any log, up to any timestamp, after a loss of power: the copy has the beginning of the old one,
/// and the old one is what it was.
#[test]
fn a_copy_has_what_the_old_log_had() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let disk = SimulatedDisk::new(seed);
        let mut clock = 0;
        for _ in 0..1 + random.below(3) {
            let mut writer = reopen(&disk, Start::NewRun, options(8, 3)).unwrap();
            for _ in 0..random.below(12) {
                clock += 1 + random.below(3);
                let value = vec![clock as u8; random.below(20_000) as usize];
                let large = set_large(clock, b"large", random.below(4), &value, 2500);
                let small = set(clock, b"small", &value[..value.len().min(3000)]);
                let wall = random.below(5_000_000_000);
                append_at(&mut writer, clock, wall, &[large, small].concat()).unwrap();
            }
            clock = clock.max(recover(&disk, 0).unwrap().1.greatest_timestamp);
        }
        let old = all(&disk);
        let (names, operations) = (disk.names(), disk.operations());
        let until = random.below(clock + 2);
        let (new, copied) = copy(&disk, Some(Until::Timestamp(until))).unwrap();
        assert_eq!((disk.names(), disk.operations()), (names, operations));

        let expected: Vec<_> = old.into_iter().filter(|(time, _)| *time <= until).collect();
        let new = new.lose_power();
        assert_eq!(all(&new), expected, "seed {seed}");
        assert_eq!(copied.commits, expected.len() as u64);
        let end = recover(&new, 0).unwrap().1;
        assert!(end.closed);
        assert_eq!(end.epoch, copied.moment.epoch);
        // Another log, though it has the same past.
        let log = |disk: &SimulatedDisk| recover(disk, 0).unwrap().1.control.unwrap().log;
        assert_ne!(log(&new), log(&disk));
    }
}

#[test]
fn a_copy_keeps_the_wall_clocks() {
    let second = 1_000_000_000;
    let disk = with_walls(&[second, 3 * second, 5 * second]);
    let (new, copied) = copy(&disk, Some(Until::Wall(4 * second))).unwrap();
    assert_eq!(
        copied.moment,
        Moment {
            epoch: 2,
            wall: 3 * second
        }
    );
    assert_eq!(times(&new, Until::Wall(2 * second)).unwrap(), [1]);
    assert_eq!(times(&new, Until::Wall(4 * second)).unwrap(), [1, 2]);
    // It goes on as any log.
    let (_, end) = recover(&new, 0).unwrap();
    let mut writer = LogWriter::open(new.clone(), &end, Start::NewRun, 0, options(6, 3)).unwrap();
    append_at(&mut writer, 9, 9, &set(9, b"more", b"")).unwrap();
    assert_eq!(recover(&new, 0).unwrap().0.len(), 3);
}

/// Not that of a later epoch, of which nothing is copied.
#[test]
fn a_copy_keeps_the_wall_clock_of_its_last_commits() {
    let hour = 3600 * 1_000_000_000;
    let unwanted = set(9, b"key", b"unwanted");
    for (last, until) in [(&unwanted[..], Some(8)), (&[], None)] {
        let disk = SimulatedDisk::new(0);
        let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
        append_at(&mut writer, 1, hour, &set(1, b"key", b"value")).unwrap();
        append_at(&mut writer, 9, 3 * hour, last).unwrap();
        writer.close().unwrap();
        let (new, _) = copy(&disk, until.map(Until::Timestamp)).unwrap();
        let found = times(&new, Until::Wall(2 * hour)).unwrap();
        assert_eq!(found, [1], "{until:?}");
    }
}

/// Epochs are put together for a second, however many follow each other without a pause.
#[test]
fn a_copy_of_a_steady_load_keeps_the_wall_clocks() {
    let half = 500_000_000;
    let walls: Vec<u64> = (1..=100).map(|number| number * half).collect();
    let (new, _) = copy(&with_walls(&walls), None).unwrap();
    for number in [10, 50, 51, 99] {
        let found = times(&new, Until::Wall(number * half)).unwrap();
        let missing = number - found.len() as u64;
        assert!(missing <= 2, "{number}: {found:?}");
    }
}

#[test]
fn a_copy_needs_the_beginning_and_an_empty_place() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 1..9 {
        append_at(&mut writer, epoch, 0, &set(epoch, b"key", &[0; 1000])).unwrap();
    }
    assert!(copy(&disk, None).is_ok());
    let taken = copy_until(&disk, &disk, None, options(4, 2), |_| ()).unwrap_err();
    assert!(matches!(taken, LogError::Refused(_)), "{taken}");
    writer.release_before(writer.segment()).unwrap();
    let gone = copy(&disk, None).map(|_| ()).unwrap_err();
    assert!(
        matches!(gone, LogError::Gone { timestamp: 1, .. }),
        "{gone}"
    );
    let empty = copy(&SimulatedDisk::new(0), None).map(|_| ()).unwrap_err();
    assert!(matches!(empty, LogError::Refused(_)), "{empty}");
}

/// A crash leaves a copy without the mark that it is whole.
#[test]
fn a_copy_that_was_interrupted_is_not_closed() {
    let disk = with_walls(&[10, 5_000_000_000, 20_000_000_000, 40_000_000_000]);
    let operations = copy(&disk, None).unwrap().0.operations();
    for nth in 0..operations {
        let new = SimulatedDisk::new(nth);
        new.stop_at(nth);
        copy_until(&disk, &new, None, options(6, 3), |_| ()).unwrap_err();
        let (commits, end) = recover(&new.lose_power(), 0).unwrap();
        assert!(!end.closed || commits.len() == 4, "{nth}");
    }
    let _ = disk.list("log").unwrap();
}

/// A log with the commits 1 to 9, which has given up its beginning for a checkpoint.
fn given_up(start: u64, end: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 1..=9 {
        append_at(&mut log, epoch, epoch, &set(epoch, b"key", &[0; 3000])).unwrap();
    }
    install(&disk, &mut log, start, end);
    log.close().unwrap();
    disk
}

/// Of a checkpoint that begins with the segment that is written now.
fn header_of(log: &LogWriter<SimulatedDisk>, start: u64) -> Header {
    Header {
        log: log.log(),
        number: 1,
        run: log.run(),
        start,
        wall: 10,
        first_segment: log.segment(),
        placement: Vec::new(),
    }
}

/// Installs a checkpoint of the wall clock 20, and gives up what is before the newest segment.
fn install(disk: &SimulatedDisk, log: &mut LogWriter<SimulatedDisk>, start: u64, end: u64) {
    let mut file = CheckpointWriter::create(disk.clone(), header_of(log, start)).unwrap();
    file.add_entry(b"key", b"of the checkpoint", None).unwrap();
    file.add_typed(b"large", ValueType::TEST, &[7; 40_000], Some(4))
        .unwrap();
    let written = file.finish(end, 20).unwrap();
    log.install(&written).unwrap();
    log.release_before(written.first_segment).unwrap();
}

fn checkpointed() -> Vec<Writes> {
    vec![
        vec![(b"key".to_vec(), b"of the checkpoint".to_vec())],
        vec![(b"large".to_vec(), vec![7; 40_000])],
    ]
}

/// Of the large values that a log has.
fn types_of_large(disk: &SimulatedDisk) -> Vec<ValueType> {
    let mut types = Vec::new();
    for commit in Recovery::new(disk.clone(), 0).unwrap() {
        for entry in commit.unwrap().entries() {
            if let Value::Large { kind, .. } = entry.unwrap().value {
                types.push(kind);
            }
        }
    }
    types
}

/// The log is idle when a checkpoint is made: it starts after the last batch, and its end may
/// be later still. What it has is in the copy, and no timestamp up to its end is used again.
#[test]
fn a_copy_of_an_idle_log_has_its_checkpoint() {
    for (start, end) in [(9, 9), (12, 12), (12, 15), (8, 9)] {
        let disk = given_up(start, end);
        for until in [None, Some(Until::Timestamp(end)), Some(Until::Wall(25))] {
            let (new, copied) = copy(&disk, until).unwrap();
            let new = new.lose_power();
            let found = all(&new);
            let times: Vec<_> = found.iter().map(|(time, _)| *time).collect();
            let mut expected = vec![1, 1];
            expected.extend(start + 1..=9);
            assert_eq!(times, expected, "{start} to {end}, {until:?}");
            let mut writes: Vec<_> = found
                .into_iter()
                .take(2)
                .map(|(_, writes)| writes)
                .collect();
            writes.sort();
            assert_eq!(writes, checkpointed());
            assert_eq!(types_of_large(&new), [ValueType::TEST]);
            assert_eq!(copied.commits, times.len() as u64);
            assert_eq!(copied.moment.epoch, end);
            assert_eq!(recover(&new, 0).unwrap().1.epoch, end);
        }
        let early = copy(&disk, Some(Until::Timestamp(end - 1)));
        assert!(matches!(early, Err(LogError::TooEarly(_))));
    }
}

/// Who reads a copy holds one group of what a checkpoint had, and not all of it. The last group has
/// the rest if the checkpoint's start is so early.
#[test]
fn a_copy_of_a_large_checkpoint_is_read_in_groups() {
    const ENTRIES: u64 = 3_000;
    const GROUP: u64 = 1 << 20;
    for start in [1, 2, 9, 12] {
        let disk = SimulatedDisk::new(0);
        let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
        for epoch in 1..=9 {
            append_at(&mut log, epoch, epoch, &set(epoch, b"key", &[0; 3000])).unwrap();
        }
        let header = header_of(&log, start);
        let mut file = CheckpointWriter::create(disk.clone(), header).unwrap();
        for n in 0..ENTRIES {
            let key = format!("key{n:09}");
            file.add_entry(key.as_bytes(), &[n as u8; 2_000], None)
                .unwrap();
        }
        let written = file.finish(start.max(9), 20).unwrap();
        log.install(&written).unwrap();
        log.release_before(written.first_segment).unwrap();
        log.close().unwrap();

        let new = SimulatedDisk::new(99);
        copy_until(&disk, &new, None, Options::default(), |_| ()).unwrap();
        let mut sizes = vec![0; start as usize + 1];
        for (timestamp, writes) in all(&new) {
            if timestamp <= start {
                sizes[timestamp as usize] += writes[0].1.len() as u64;
            }
        }
        assert_eq!(sizes.iter().sum::<u64>(), ENTRIES * 2_000);
        let groups = sizes.iter().filter(|size| **size > 0).count() as u64;
        assert_eq!(groups, start.min((ENTRIES * 2_000).div_ceil(GROUP)));
        // All groups but the last have what a group has.
        assert!(sizes[..start as usize].iter().all(|size| *size <= GROUP));
    }
}

/// What a checkpoint had stands in a copy as commits up to its start. That is no state of any moment
/// before its end.
#[test]
fn a_copy_of_a_copy_has_no_point_before_the_checkpoint() {
    let mut disk = copy(&given_up(6, 8), None).unwrap().0;
    for _ in 0..2 {
        assert_eq!(check_retained(&disk).unwrap().earliest.unwrap().epoch, 8);
        for early in [
            Until::Timestamp(0),
            Until::Timestamp(6),
            Until::Timestamp(7),
            Until::Wall(6),
        ] {
            let told = copy(&disk, Some(early)).map(|_| ()).unwrap_err();
            let LogError::TooEarly(earliest) = told else {
                panic!("{early:?}: {told}")
            };
            assert_eq!(earliest, Moment { epoch: 8, wall: 20 });
        }
        let at_its_end = copy(&disk, Some(Until::Timestamp(8))).unwrap().1;
        assert_eq!(at_its_end.moment.epoch, 8);
        // It stays so when the log has gone on.
        let (_, end) = recover(&disk, 0).unwrap();
        let log = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options(6, 3)).unwrap();
        log.close().unwrap();
        disk = copy(&disk, None).unwrap().0;
    }
}

/// Times after the last batch mean what the checkpoint has, from its end on.
#[test]
fn a_time_after_a_checkpoint_can_be_had() {
    let disk = given_up(12, 15);
    for wall in [20, 21, u64::MAX] {
        let (new, _) = copy(&disk, Some(Until::Wall(wall))).unwrap();
        assert_eq!(recover(&new, 0).unwrap().1.epoch, 15);
    }
    for wall in [0, 9, 19] {
        let early = copy(&disk, Some(Until::Wall(wall)));
        assert!(matches!(early, Err(LogError::TooEarly(_))), "{wall}");
    }
}

/// Something happens when a file is opened: the nth, from 1.
#[derive(Clone)]
struct Watched<'a> {
    disk: SimulatedDisk,
    opened: Rc<Cell<u32>>,
    nth: u32,
    happens: &'a dyn Fn(),
}

impl Disk for Watched<'_> {
    type File = SimulatedFile;

    fn open(&self, name: &str) -> io::Result<Option<SimulatedFile>> {
        self.opened.set(self.opened.get() + 1);
        if self.opened.get() == self.nth {
            (self.happens)();
        }
        self.disk.open(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    only_read!();
}

/// The server installs a checkpoint and gives up the log before it, at any moment: the copy has
/// everything, or there is none.
#[test]
fn a_checkpoint_that_comes_meanwhile_makes_no_hole() {
    let (mut whole, mut refused) = (0, 0);
    for nth in 1..30 {
        for until in [None, Some(Until::Timestamp(9)), Some(Until::Wall(30))] {
            let disk = SimulatedDisk::new(0);
            let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
            for epoch in 1..=9 {
                append_at(&mut log, epoch, epoch, &set(epoch, b"key", &[0; 3000])).unwrap();
            }
            let log = RefCell::new(log);
            let watched = Watched {
                disk: disk.clone(),
                opened: Rc::default(),
                nth,
                happens: &|| install(&disk, &mut log.borrow_mut(), 8, 9),
            };
            let new = SimulatedDisk::new(99);
            match copy_until(&watched, &new, until, options(6, 3), |_| ()) {
                Ok(_) => {
                    let found = all(&new);
                    let times: Vec<_> = found.iter().map(|(time, _)| *time).collect();
                    let has_checkpoint = times == [1, 1, 9];
                    let has_all = times == (1..=9).collect::<Vec<_>>();
                    assert!(has_all || has_checkpoint, "{nth} {until:?}: {times:?}");
                    whole += 1;
                }
                Err(error) => {
                    assert!(
                        matches!(error, LogError::GivenUp | LogError::Refused(_)),
                        "{nth} {until:?}: {error}"
                    );
                    assert!(error.to_string().contains("meanwhile"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(whole > 0 && refused > 0, "{whole} {refused}");
}
