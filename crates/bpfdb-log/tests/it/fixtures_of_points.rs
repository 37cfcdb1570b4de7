//! Directories that tell of more points in time than the last one, or of fewer than all, stay
//! readable, and give the same points: one that retains checkpoints, and a copy that begins with
//! one.
//!
//! Each is a folder below `tests/fixtures`, with a file `expected.txt` of what it gives. It was made
//! once, by `make_fixture`, and is never made again: see `fixtures.rs`.
//!
//! ```text
//! cargo test --profile ci -p bpfdb-log --all-features --lib -- --ignored make_fixture
//! ```
#![cfg(feature = "simulation")]

use crate::it::common;

use std::collections::BTreeMap;
use std::fmt::Write;

use bpfdb_log::control::Control;
use bpfdb_log::reader::read_control;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{
    Beginning, Beginnings, Directory, Disk, Follower, LogError, Moment, RecoveredCommit, Recovery,
    Until, VERSION, check, check_retained, copy_until,
};
use common::directories::{TICK, copied, retained};
use common::fixture::{self, is_in, make};
use common::{contents, options, recover};

/// The first version of which there are such directories.
const FIRST: u32 = 2;

const RETAINED: &str = "retained";
const COPY: &str = "copy";

fn control_of<D: Disk>(disk: &D) -> Control {
    read_control(disk).unwrap().unwrap()
}

/// Everything that a directory says of points in time, and the commits of a start.
fn describe<D: Disk>(disk: &D) -> String {
    let mut text = describe_control(&control_of(disk));
    text += &describe_beginnings(disk);
    text += &describe_report(disk);
    let mut follower = Follower::new(disk.clone(), None, None).unwrap();
    let commits = std::iter::from_fn(|| follower.next_commit().unwrap());
    let times: Vec<u64> = commits.map(|commit| commit.timestamp).collect();
    writeln!(text, "who follows it gets {times:?}").unwrap();
    text += &describe_points(disk, times.last().unwrap() + 1);
    for commit in commits_of(disk) {
        let (time, wall) = (commit.timestamp, commit.wall);
        let writes = contents(disk, &commit).into_iter().map(write);
        let writes: String = writes.collect();
        writeln!(text, "{time} at {wall}:{writes}").unwrap();
    }
    text
}

/// What can be had at each point, up to one behind the last.
fn describe_points<D: Disk>(disk: &D, behind: u64) -> String {
    let timestamps = (0..=behind).map(Until::Timestamp);
    // A checkpoint was complete just behind a tick.
    let walls = (0..=behind).flat_map(|tick| [tick * TICK, tick * TICK + 1]);
    let points = timestamps.chain(walls.map(Until::Wall));
    points.map(|until| describe_point(disk, until)).collect()
}

fn commits_of<D: Disk>(disk: &D) -> Vec<RecoveredCommit> {
    let commits: Result<Vec<_>, _> = Recovery::new(disk.clone(), 0).unwrap().collect();
    commits.unwrap()
}

/// A key with the byte of which its value is made, and how many there are.
fn write((key, value): (Vec<u8>, Vec<u8>)) -> String {
    assert!(value.iter().all(|byte| *byte == value[0]));
    let (key, byte) = (String::from_utf8_lossy(&key), char::from(value[0]));
    format!(" {key}={byte}*{}", value.len())
}

fn describe_control(control: &Control) -> String {
    let Control {
        first_retained,
        first_needed,
        newest_segment,
        complete_from,
        ..
    } = control;
    let segments = format!("{first_retained} {first_needed} {newest_segment}");
    let from = moment(complete_from);
    let mark = control.checkpoint.map(|mark| mark.number);
    format!("segments {segments}, checkpoint {mark:?}, complete from {from}\n")
}

fn moment(moment: &Moment) -> String {
    format!("{} at {}", moment.epoch, moment.wall)
}

fn beginning(beginning: &Beginning) -> String {
    let (number, segment) = (beginning.number(), beginning.first_segment);
    let (from, bytes) = (moment(&beginning.earliest), beginning.bytes);
    format!("checkpoint {number}, segment {segment}, from {from}, {bytes} bytes")
}

fn describe_beginnings<D: Disk>(disk: &D) -> String {
    let found = Beginnings::find(disk, &control_of(disk)).unwrap();
    assert_eq!((found.damaged, found.unread), (vec![], vec![]));
    let line = |one: &Beginning| format!("beginning: {}\n", beginning(one));
    found.list.iter().map(line).collect()
}

fn describe_report<D: Disk>(disk: &D) -> String {
    assert_eq!(check(disk, 0).unwrap().fault, None);
    let report = check_retained(disk).unwrap();
    assert_eq!(report.damaged, []);
    let (earliest, bytes) = (moment(&report.earliest.unwrap()), report.bytes);
    let older: Vec<String> = report.beginnings.iter().map(beginning).collect();
    format!("the check: from {earliest}, {bytes} bytes, {older:?}\n")
}

/// What the keys have at a point.
fn describe_point<D: Disk>(disk: &D, until: Until) -> String {
    let new = SimulatedDisk::new(7);
    match copy_until(disk, &new, Some(until), options(6, 3), |_| ()) {
        Ok(copied) => format!("{until:?}: {}{}\n", copied.moment.epoch, state(&new)),
        Err(LogError::TooEarly(_)) => format!("{until:?}: too early\n"),
        Err(error) => panic!("{until:?}: {error}"),
    }
}

fn state(disk: &SimulatedDisk) -> String {
    let (commits, _) = recover(disk, 0).unwrap();
    let writes = commits.iter().flat_map(|commit| contents(disk, commit));
    let last: BTreeMap<_, _> = writes.collect();
    last.into_iter().map(write).collect()
}

fn new(write: fn(&SimulatedDisk)) -> SimulatedDisk {
    let disk = SimulatedDisk::new(2026);
    write(&disk);
    disk
}

#[test]
#[ignore = "makes the fixtures of a new version"]
fn make_fixture() {
    for (kind, write) in [(RETAINED, retained as fn(&SimulatedDisk)), (COPY, copied)] {
        let disk = new(write);
        make(&fixture::folder(kind, VERSION), &disk, &describe(&disk));
    }
}

#[test]
fn every_version_gives_its_points_for_ever() {
    for version in FIRST..=VERSION {
        for kind in [RETAINED, COPY] {
            let folder = fixture::folder(kind, version);
            let found = describe(&Directory::read_only(&folder));
            assert_eq!(found, fixture::expected(&folder), "{kind}-{version}");
        }
    }
}

fn times(commits: &[RecoveredCommit]) -> Vec<u64> {
    commits.iter().map(|commit| commit.timestamp).collect()
}

/// It is refused, and the earliest point is named; nothing is written.
fn assert_too_early<D: Disk>(disk: &D, timestamp: u64, earliest: Moment) {
    let (new, until) = (SimulatedDisk::new(7), Until::Timestamp(timestamp));
    let told = copy_until(disk, &new, Some(until), options(6, 3), |_| ());
    let is_told = matches!(told, Err(LogError::TooEarly(moment)) if moment == earliest);
    assert!(is_told && new.names().is_empty(), "{timestamp}: {told:?}");
}

/// That of a checkpoint which ended with this epoch.
fn end(epoch: u64) -> Moment {
    let wall = epoch * TICK + 1;
    Moment { epoch, wall }
}

/// The texts were written by the program that is tested: this is what must be in them.
#[test]
fn what_the_retained_one_has() {
    let disk = Directory::read_only(&fixture::folder(RETAINED, FIRST));
    let control = control_of(&disk);
    assert_eq!((control.first_retained, control.first_needed), (3, 5));
    assert_eq!(control.complete_from, Moment::default());
    let list = Beginnings::find(&disk, &control).unwrap().list;
    let ends: Vec<_> = list
        .iter()
        .map(|one| (one.number(), one.earliest))
        .collect();
    assert_eq!(ends, [(2, end(8)), (4, end(15))]);
    let report = check_retained(&disk).unwrap();
    assert_eq!(report.earliest, Some(end(8)));
    assert_eq!(report.beginnings, list[..1]);
    assert_eq!(times(&commits_of(&disk)), [15, 16, 17]);
    for timestamp in 0..8 {
        assert_too_early(&disk, timestamp, end(8));
    }
    for (timestamp, has) in [
        (8, "8 a=g*1000 b=h*1000 c=i*1000"),
        (9, "9 a=j*1000 b=h*1000 c=i*1000"),
        (14, "14 a=m*1000 b=n*1000 c=o*1000"),
        (15, "15 a=p*1000 b=n*1000 c=o*1000 large=x*32769"),
    ] {
        let found = describe_point(&disk, Until::Timestamp(timestamp));
        assert_eq!(found, format!("Timestamp({timestamp}): {has}\n"));
    }
}

#[test]
fn what_the_copy_has() {
    let disk = Directory::read_only(&fixture::folder(COPY, FIRST));
    let control = control_of(&disk);
    assert_eq!((control.first_retained, control.first_needed), (0, 1));
    assert_eq!(control.complete_from, end(6));
    let list = Beginnings::find(&disk, &control).unwrap().list;
    let begins: Vec<_> = list.iter().map(|one| (one.mark, one.earliest)).collect();
    assert_eq!(begins, [(None, end(6))]);
    assert_eq!(check_retained(&disk).unwrap().earliest, Some(end(6)));
    assert_eq!(times(&commits_of(&disk)), [5, 5, 5, 5, 6, 7, 8]);
    for timestamp in 0..6 {
        assert_too_early(&disk, timestamp, end(6));
    }
    let first = describe_point(&disk, Until::Timestamp(6));
    let has = "6 a=g*1000 b=e*1000 c=f*1000 large=x*32769";
    assert_eq!(first, format!("Timestamp(6): {has}\n"));
}

/// It is still what a writer of this version writes.
#[test]
fn the_newest_version_is_written_as_it_was() {
    is_in(&new(retained), &fixture::folder(RETAINED, VERSION));
}

/// How a copy divides commits, and where it puts those of a checkpoint, is no matter of the format:
/// the points are the same.
#[test]
fn a_copy_gives_the_points_that_it_gave() {
    let points = describe_points(&new(copied), 9);
    let expected = fixture::expected(&fixture::folder(COPY, VERSION));
    assert!(expected.contains(&points), "{points}");
}
