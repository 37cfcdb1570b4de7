//! Every bit of a small log is turned over, one at a time. Either it means something: then recovery,
//! check and a follower find the damage, and show nothing else than what was written. Or it is
//! padding, or behind the end, or in a slot of the control file that the other one makes up for:
//! then nothing changes. Which is which follows from docs/formats/log.md alone.

use crate::it::common;

use bpfdb_log::batch::BatchHeader;
use bpfdb_log::reader::{Item, LogReader, read_control};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{BLOCK, Follower, LogError, Start, check};
use common::{append_at, options, recover, reopen, set, set_large};

/// Between the bits of zeros that a checksum covers, in the short test.
const STRIDE: usize = 509;

/// Two runs over three segments, closed or not.
fn log(closes: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::new(7);
    for run in 0..2 {
        let mut writer = reopen(&disk, Start::NewRun, options(3, 1)).unwrap();
        for epoch in 3 * run + 1..3 * run + 3 {
            let records = match epoch {
                2 => set_large(epoch, b"large", 1, &[9; 40], 25),
                _ => set(epoch, b"key", b"value"),
            };
            append_at(&mut writer, epoch, epoch, &records).unwrap();
        }
        if closes {
            writer.close().unwrap();
        }
    }
    disk
}

/// What a file's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Some checksum covers it, or it is one, or the bytes that a structure begins with.
    Covered,
    /// Covered, in the last batch: nothing but a proper end says that it was durable.
    Last,
    /// In a slot of the control file; the other one is enough.
    Slot,
    /// Behind a payload, or the end of a segment, or in a spare.
    None,
}

/// Where the batches are.
fn batches(disk: &SimulatedDisk) -> Vec<(String, usize, BatchHeader)> {
    let control = read_control(disk).unwrap().unwrap();
    let mut reader = LogReader::new(disk.clone(), control);
    let mut batches = Vec::new();
    while let Some(item) = reader.advance().unwrap() {
        if let Item::Batch(header) = item {
            let at = reader.position().offset - header.size();
            batches.push((reader.file_name(), at as usize, header));
        }
    }
    batches
}

fn meaning(batches: &[(String, usize, BatchHeader)], name: &str, at: usize) -> Meaning {
    if name == "control" {
        return Meaning::Slot;
    }
    let is_segment = name.ends_with(".log");
    if is_segment && at < BLOCK {
        return Meaning::Covered;
    }
    let covers = |(file, start, header): &&(String, usize, BatchHeader)| {
        let end = start + (header.header_size() + u64::from(header.payload)) as usize;
        file == name && (*start..end).contains(&at)
    };
    match batches.iter().find(covers) {
        Some(batch) if Some(batch) == batches.last() => Meaning::Last,
        Some(_) => Meaning::Covered,
        None => Meaning::None,
    }
}

/// What recovery finds: timestamps and entries.
type Found = Vec<(u64, Vec<u8>)>;

fn recovered(disk: &SimulatedDisk) -> Result<Found, LogError> {
    let (commits, _) = recover(disk, 0)?;
    Ok(commits
        .iter()
        .map(|commit| (commit.timestamp, bytes(disk, commit)))
        .collect())
}

fn bytes(disk: &SimulatedDisk, commit: &bpfdb_log::RecoveredCommit) -> Vec<u8> {
    let contents = common::contents(disk, commit).into_iter();
    contents
        .flat_map(|(key, value)| [key, value].concat())
        .collect()
}

/// What a follower shows until it ends, and how that is.
fn followed(disk: &SimulatedDisk) -> (Found, Result<(), LogError>) {
    let mut found = Found::new();
    let mut follow = || {
        let mut follower = Follower::new(disk.clone(), None, None)?;
        while let Some(commit) = follower.next_commit()? {
            found.push((commit.timestamp, bytes(disk, &commit)));
        }
        Ok(())
    };
    let ended = follow();
    (found, ended)
}

/// Turns the bits that `chosen` says over, and returns how many of them were found.
fn turn_over(
    disk: &SimulatedDisk,
    closed: bool,
    chosen: impl Fn(usize, u8, Meaning) -> bool,
) -> u32 {
    let (batches, all) = (batches(disk), recovered(disk).unwrap());
    let shown = followed(disk).0;
    let mut found = 0;
    for name in disk.names() {
        let contents = disk.contents(&name).unwrap();
        for (at, byte) in contents.into_iter().enumerate() {
            let meaning = meaning(&batches, &name, at);
            for bit in (0..8).filter(|_| chosen(at, byte, meaning)) {
                disk.flip(&name, at, bit);
                let place = format!("{name} at {at}, bit {bit}: {meaning:?}");
                found += u32::from(is_found(disk, closed, meaning, &all, &shown, &place));
                disk.flip(&name, at, bit);
            }
        }
    }
    assert_eq!(recovered(disk).unwrap(), all);
    found
}

fn is_found(
    disk: &SimulatedDisk,
    closed: bool,
    meaning: Meaning,
    all: &Found,
    shown: &Found,
    place: &str,
) -> bool {
    let result = recovered(disk);
    let report = check(disk, 0).unwrap();
    assert_eq!(report.fault.is_some(), result.is_err(), "{place}");
    let (followed, ended) = followed(disk);
    assert!(shown.starts_with(&followed), "{place}: {followed:?}");
    match (meaning, result) {
        (Meaning::Covered, Err(LogError::Corrupt(_))) => true,
        // Of a log that was not closed, if the bit is in what its header says is durable.
        (Meaning::Last, Err(LogError::Corrupt(_))) => true,
        // It was not durable, as far as is known.
        (Meaning::Last, Ok(found)) if !closed => {
            assert_eq!(found, all[..all.len() - 1], "{place}");
            false
        }
        (Meaning::Slot | Meaning::None, Ok(found)) => {
            assert_eq!(&found, all, "{place}");
            assert!(ended.is_ok(), "{place}");
            false
        }
        (_, result) => panic!("{place}: {result:?}"),
    }
}

#[test]
fn every_bit_is_found_or_means_nothing() {
    for closed in [true, false] {
        let disk = log(closed);
        let chosen = |at: usize, byte: u8, meaning| match meaning {
            Meaning::Covered | Meaning::Last => {
                at % BLOCK < 112 || byte != 0 || at.is_multiple_of(STRIDE)
            }
            Meaning::Slot | Meaning::None => at.is_multiple_of(STRIDE),
        };
        let found = turn_over(&disk, closed, chosen);
        assert!(found > 5_000, "{found}");
    }
}

/// Half a million bits.
#[test]
#[ignore = "long"]
fn soak_every_bit() {
    for closed in [true, false] {
        let found = turn_over(&log(closed), closed, |_, _, _| true);
        println!("closed {closed}: {found} bits were found");
    }
}
