//! Whoever reads a directory does work, and takes memory, as its files are long, and not as the
//! numbers say that stand in them: an attacker may have written those, with checksums that are right.
#![cfg(feature = "simulation")]

use crate::it::common;

mod changes;
mod memory;

use std::fs;

use bpfdb_log::batch::{self, BatchHeader};
use bpfdb_log::checkpoint::{self, Footer, Header, Mark};
use bpfdb_log::control::{self, Control};
use bpfdb_log::reader::read_control;
use bpfdb_log::segment::{self, SegmentHeader};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{
    AlignedBuffer, BLOCK, Beginnings, Cut, Directory, Disk, Follower, LogError, Place, Recovery,
    Until, check, check_retained, copy_until,
};
use changes::{Change, apply_all, of_bytes, of_numbers};
use common::bounded::Bounded;
use common::directories::{TICK, copied, retained};
use common::files::{Files, files_of, seal_directory};
use common::{options, recover_all};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// More segments, batches or runs than there can be.
const COUNT_MAX: u64 = 1 << 62;

/// Bytes that a reader may take whatever there is: it reads much at once, and a copy is gathered.
const MEMORY: usize = 16 << 20;
/// For each byte of the files, on a simulated disk that has a copy of them.
const MEMORY_OF_FILES: usize = 16;

/// A directory that is right.
#[derive(Clone, Copy, Debug)]
enum Right {
    Retained,
    Copy,
}

impl Right {
    fn disk(self) -> SimulatedDisk {
        let disk = SimulatedDisk::new(3);
        match self {
            Self::Retained => retained(&disk),
            Self::Copy => copied(&disk),
        }
        disk
    }
}

fn size_of(files: &Files) -> usize {
    files.iter().map(|(_, contents)| contents.len()).sum()
}

/// A reader takes no more memory than it may, and calls damage so.
fn tame<T>(most: usize, read: impl FnOnce() -> Result<T, LogError>) {
    let (found, taken) = memory::most_of(read);
    assert!(taken <= most, "{taken} bytes of memory, instead of {most}");
    match found {
        Ok(_)
        | Err(
            LogError::Corrupt(_)
            | LogError::Gone { .. }
            | LogError::TooEarly(_)
            | LogError::Refused(_),
        ) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Nobody works for ever, panics, or takes more memory than there are files.
fn read_all(disk: &SimulatedDisk) {
    let most = MEMORY + MEMORY_OF_FILES * size_of(&files_of(disk));
    let bounded = || Bounded::new(disk.clone());
    tame(most, || check(&bounded(), 0));
    tame(most, || check_retained(&bounded()));
    tame(most, || find(&bounded()));
    tame(most, || follow(bounded()));
    for (until, last) in [
        (None, u64::MAX),
        (Some(Until::Timestamp(7)), 7),
        (Some(Until::Timestamp(13)), 13),
        (Some(Until::Wall(9 * TICK)), u64::MAX),
    ] {
        tame(most, || copy(&bounded(), until, last));
    }
}

/// All beginnings are of segments that are kept.
fn find(disk: &Bounded) -> Result<(), LogError> {
    let Some(control) = read_control(disk)? else {
        return Ok(());
    };
    let kept = control.first_kept()..=control.first_needed;
    let found = Beginnings::find(disk, &control)?;
    for beginning in found.list {
        let first = beginning.first_segment;
        assert!(kept.contains(&first), "{beginning:?} of {kept:?}");
        let mark = beginning.mark;
        assert!(mark.is_none_or(|mark| mark.start <= mark.end), "{mark:?}");
    }
    Ok(())
}

fn follow(disk: Bounded) -> Result<(), LogError> {
    for from in [None, Some(9)] {
        let mut follower = Follower::new(disk.clone(), from, None)?;
        while follower.next_commit()?.is_some() {}
    }
    Ok(())
}

/// A copy that says that it is whole can be read, and has nothing that is later than the point.
fn copy<D: Disk>(disk: &D, until: Option<Until>, last: u64) -> Result<(), LogError> {
    let to = SimulatedDisk::new(7);
    let copied = copy_until(disk, &to, until, options(6, 3), |_| ())?;
    let (commits, _) = recover_all(&to, 0).expect("it was written just now");
    let times: Vec<u64> = commits.iter().map(|commit| commit.timestamp).collect();
    assert_eq!(copied.commits, times.len() as u64);
    assert!(copied.moment.epoch <= last, "{copied:?} until {last}");
    assert!(
        times.iter().all(|time| *time <= last),
        "{times:?} until {last}"
    );
    Ok(())
}

fn with(right: Right, changes: &[Change], chain: Option<bool>) -> SimulatedDisk {
    let mut files = files_of(&right.disk());
    match chain {
        Some(chain) => apply_all(changes, &mut files, chain),
        None => changes.iter().for_each(|change| change.apply(&mut files)),
    }
    common::files::disk_of(&files)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_numbers_are_read_in_the_end(
        right in select(&[Right::Retained, Right::Copy][..]),
        changes in vec(of_numbers(), 1..6),
        chain: bool,
    ) {
        read_all(&with(right, &changes, Some(chain)));
    }

    #[test]
    fn any_bytes_are_read_in_the_end(
        right in select(&[Right::Retained, Right::Copy][..]),
        changes in vec(of_bytes(), 1..6),
        chain: Option<bool>,
    ) {
        read_all(&with(right, &changes, chain));
    }
}

/// What is not changed is read in so few looks, too: the bound means something.
#[test]
fn what_nobody_changed_is_whole() {
    for right in [Right::Retained, Right::Copy] {
        let disk = right.disk();
        read_all(&disk);
        let mut files = files_of(&disk);
        files.sort();
        let before = files.clone();
        seal_directory(&mut files, true);
        assert!(files == before, "the checksums were right");
        assert_eq!(check_retained(&disk).unwrap().damaged, []);
    }
}

/// Replaces both slots.
fn put_control(disk: &SimulatedDisk, control: Control) {
    disk.put(control::NAME, &control.encode().repeat(2));
}

fn change_control(disk: &SimulatedDisk, change: impl FnOnce(Control) -> Control) {
    put_control(disk, change(read_control(disk).unwrap().unwrap()));
}

/// Segments that are said to be kept, of which there are three.
#[test]
fn a_range_of_segments_is_not_walked() {
    for (first_retained, first_needed, newest_segment) in [
        (1, COUNT_MAX - 1, COUNT_MAX - 1),
        (3, COUNT_MAX - 1, 5),
        (1, 5, COUNT_MAX - 1),
        (0, 5, COUNT_MAX - 1),
        (0, COUNT_MAX - 1, COUNT_MAX - 1),
        (COUNT_MAX - 1, COUNT_MAX - 1, 5),
    ] {
        let disk = Right::Retained.disk();
        change_control(&disk, |control| Control {
            first_retained,
            first_needed,
            newest_segment,
            ..control
        });
        read_all(&disk);
        // Checkpoint 2 is of another run: whether it counted the segments say.
        let control = read_control(&disk).unwrap().unwrap();
        Beginnings::find(&Bounded::new(disk), &control).unwrap();
    }
}

/// The checkpoint that counts, or the one that is retained, is not there.
#[test]
fn a_mark_without_a_file_is_damage() {
    let disk = Right::Retained.disk();
    for number in [1, 2, 3, 5, COUNT_MAX - 1] {
        change_control(&disk, |control| Control {
            checkpoint: Some(Mark {
                number,
                start: 14,
                end: 15,
            }),
            ..control
        });
        read_all(&disk);
    }
    let disk = Right::Retained.disk();
    for number in 1..=4 {
        disk.remove(&checkpoint::name(number)).unwrap();
    }
    read_all(&disk);
    let report = check_retained(&disk).unwrap();
    assert_eq!((report.earliest, report.damaged.len()), (None, 1));
    assert_eq!(report.needed.as_ref(), Some(&report.damaged[0].file));
}

/// Replaces header and footer of a checkpoint.
fn change_checkpoint(
    disk: &SimulatedDisk,
    number: u64,
    change: impl FnOnce(&mut Header, &mut Footer),
) {
    let name = checkpoint::name(number);
    let mut contents = disk.contents(&name).unwrap();
    let last = contents.len() - BLOCK;
    let mut header = Header::decode(&contents[..BLOCK]).unwrap();
    let mut footer = Footer::decode(&contents[last..]).unwrap();
    change(&mut header, &mut footer);
    contents[..BLOCK].copy_from_slice(&header.encode());
    contents[last..].copy_from_slice(&footer.encode());
    disk.put(&name, &contents);
}

/// The bytes before a footer are as many as it says, or it is damaged.
#[test]
fn a_footer_that_says_too_much_is_damage() {
    for bytes in [0, COUNT_MAX, u64::MAX - BLOCK as u64, u64::MAX] {
        for numbers in [vec![2], vec![4], vec![2, 4]] {
            let disk = Right::Retained.disk();
            for number in numbers {
                change_checkpoint(&disk, number, |_, footer| footer.bytes = bytes);
            }
            read_all(&disk);
        }
    }
}

/// What a checkpoint has is of its start: a caller that asks for an earlier point must not get it.
#[test]
fn a_checkpoint_that_ends_before_it_starts_is_no_beginning() {
    let disk = Right::Retained.disk();
    change_checkpoint(&disk, 2, |header, _| header.start = 4096);
    let control = read_control(&disk).unwrap().unwrap();
    let list = Beginnings::find(&disk, &control).unwrap().list;
    let numbers: Vec<_> = list.iter().map(|beginning| beginning.number()).collect();
    assert_eq!(numbers, [4]);
    read_all(&disk);
}

/// Every number is the greatest that there can be, in one structure after the other.
#[test]
fn the_greatest_numbers_are_read_in_the_end() {
    for (epoch, wall) in [(u64::MAX, u64::MAX), (u64::MAX - 1, 0), (0, u64::MAX)] {
        let disk = Right::Retained.disk();
        for number in 1..=4 {
            change_checkpoint(&disk, number, |header, footer| {
                (header.start, header.wall) = (epoch, wall);
                (footer.end, footer.wall) = (epoch, wall);
                (footer.entries, footer.blocks) = (wall, wall);
            });
        }
        read_all(&disk);
        change_control(&disk, |control| Control {
            checkpoint: Some(Mark {
                number: 4,
                start: epoch,
                end: epoch,
            }),
            ..control
        });
        read_all(&disk);
        let disk = Right::Copy.disk();
        change_control(&disk, |control| Control {
            complete_from: bpfdb_log::Moment { epoch, wall },
            durable_segment: wall,
            durable_sequence: wall,
            ..control
        });
        read_all(&disk);
    }
}

/// The end of a segment is far behind the end of its file, and a batch there is as long.
#[test]
fn a_segment_that_goes_on_for_ever_ends_with_its_file() {
    for before_end in [0, 1, 1 << 60, u64::MAX - 4095, u64::MAX] {
        let disk = Right::Retained.disk();
        let name = segment::name(5);
        let mut contents = disk.contents(&name).unwrap();
        let header = SegmentHeader {
            before_end,
            ..SegmentHeader::decode(&contents[..BLOCK]).unwrap()
        };
        contents[..BLOCK].copy_from_slice(&header.encode());
        disk.put(&name, &contents);
        read_all(&disk);
        let most = MEMORY + MEMORY_OF_FILES * size_of(&files_of(&disk));
        let place = Place {
            segment: 5,
            offset: BLOCK as u64,
        };
        let bounded = Bounded::new(disk);
        tame(most, || Cut::plan(&bounded, 0, place).map(drop));
    }
}

/// A file has no bytes where none were written, however long it is: then its length bounds nothing.
#[test]
fn a_batch_asks_for_no_more_memory_than_a_batch_may_have() {
    // More than any, and still so few that a test can pay for it.
    const PAYLOAD: u32 = 512 << 20;
    let disk = Right::Retained.disk();
    let end = Recovery::new(disk.clone(), 0).unwrap().finish().unwrap();
    let header = BatchHeader {
        checksum: 0,
        payload: 0,
        log: end.control.unwrap().log,
        segment: 5,
        sequence: end.sequence + 1,
        epoch: end.epoch + 1,
        durable: end.sequence,
        wall: 0,
        records: 0,
        rings: 0,
    };
    let mut block = AlignedBuffer::zeroed(0);
    batch::encode(&mut block, header, &[], &[], end.checksum);
    block[12..16].copy_from_slice(&PAYLOAD.to_le_bytes());
    let name = segment::name(5);
    let mut contents = disk.contents(&name).unwrap();
    contents.truncate(end.offset as usize);
    contents.extend(&block[..]);
    disk.put(&name, &contents);

    let folder = common::folder();
    for (name, contents) in files_of(&disk) {
        let path = folder.path().join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    let segment = fs::File::options()
        .write(true)
        .open(folder.path().join(&name));
    let len = end.offset + 2 * BLOCK as u64 + u64::from(PAYLOAD);
    segment.unwrap().set_len(len).unwrap();

    let disk = Directory::read_only(folder.path());
    let most = MEMORY + MEMORY_OF_FILES * size_of(&files_of(&Right::Retained.disk()));
    tame(most, || check(&disk, 0));
    tame(most, || copy(&disk, None, u64::MAX));
    let place = Place {
        segment: 5,
        offset: BLOCK as u64,
    };
    tame(most, || Cut::plan(&disk, 0, place).map(drop));
}
