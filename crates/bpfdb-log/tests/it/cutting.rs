//! A log that is cut at a place has exactly what was before it, from whatever damage and through
//! whatever crash; and what goes away can be read before, and is kept.

use crate::it::common;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{
    BLOCK, Cut, Directory, Disk, LogError, LogWriter, Place, RecoveredCommit, Start, check,
};
use common::{Writes, append_at, contents, folder, options, recover, reopen, set, set_large};

/// The last timestamp of the log that is cut.
const LAST: u64 = 12;

const KEEP: Option<&str> = Some("cut-1");

/// Two runs over five segments, with large values, a commit that comes early, and one that does not
/// count.
fn write<D: Disk>(disk: &D) {
    let mut writer = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    let groups = |epoch: u64| match epoch % 4 {
        0 => set_large(epoch, b"large", epoch, &[epoch as u8; 5000], 2000),
        1 => [
            set(epoch + 1, b"early", b""),
            set(epoch, b"key", &[epoch as u8; 900]),
        ]
        .concat(),
        _ => set(epoch, b"key", &[epoch as u8; 2000]),
    };
    for epoch in 1..=6 {
        append_at(&mut writer, epoch, epoch * 10, &groups(epoch)).unwrap();
    }
    let ghost = [set(8, b"ghost", b""), set(7, b"key", b"")].concat();
    append_at(&mut writer, 7, 70, &ghost).unwrap();
    let mut writer = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 9..=12 {
        append_at(&mut writer, epoch, epoch * 10, &groups(epoch)).unwrap();
    }
    writer.close().unwrap();
}

type Found = Vec<(u64, Writes)>;

fn found<D: Disk>(disk: &D) -> Result<Found, LogError> {
    let (commits, _) = recover(disk, 0)?;
    let found = |commit: &RecoveredCommit| (commit.timestamp, contents(disk, commit));
    Ok(commits.iter().map(found).collect())
}

/// Every place at which the log can be cut, and what is before it.
fn places<D: Disk>(disk: &D) -> Vec<(Place, u64)> {
    let mut reader = bpfdb_log::reader::LogReader::new(
        disk.clone(),
        bpfdb_log::reader::read_control(disk).unwrap().unwrap(),
    );
    let (mut places, mut epoch) = (Vec::new(), 0);
    while let Some(item) = reader.advance().unwrap() {
        if let bpfdb_log::reader::Item::Batch(header) = item {
            epoch = header.epoch;
        }
        let place = Place {
            segment: reader.segment().unwrap().number,
            offset: reader.position().offset,
        };
        places.push((place, epoch));
    }
    places
}

/// Those that have a batch behind them in their segment.
fn behind_which_there_is_more(places: &[(Place, u64)]) -> Vec<(Place, u64)> {
    let pairs = places.windows(2);
    let inside = pairs.filter(|pair| pair[0].0.segment == pair[1].0.segment);
    inside.map(|pair| pair[0]).collect()
}

fn up_to(all: &Found, epoch: u64) -> Found {
    all.iter()
        .filter(|(time, _)| *time <= epoch)
        .cloned()
        .collect()
}

/// The log can be written, and goes on behind what was lost, as far as that could be read: at least
/// behind `least`. Returns behind what.
fn goes_on<D: Disk>(disk: &D, expected: &Found, least: u64) -> u64 {
    assert_eq!(&found(disk).unwrap(), expected);
    assert_eq!(check(disk, 0).unwrap().fault, None);
    let (_, end) = recover(disk, 0).unwrap();
    assert!(
        end.greatest_timestamp >= least,
        "{}",
        end.greatest_timestamp
    );
    let mut writer = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options(4, 2)).unwrap();
    let next = end.greatest_timestamp + 1;
    append_at(&mut writer, next, 0, &set(next, b"more", b"")).unwrap();
    drop(writer);
    assert_eq!(found(disk).unwrap().len(), expected.len() + 1);
    next - 1
}

#[test]
fn a_log_ends_where_it_is_cut() {
    let disk = SimulatedDisk::new(0);
    write(&disk);
    let (all, places) = (found(&disk).unwrap(), places(&disk));
    assert!(places.len() > 14);
    for keep in [KEEP, None] {
        for (place, epoch) in &places {
            let disk = disk.fork();
            let cut = Cut::plan(&disk, 0, *place).unwrap();
            assert_eq!((cut.place(), cut.end().epoch), (*place, *epoch));
            let before = up_to(&all, *epoch);
            let lost = cut.lost();
            let later = all.len() - before.len();
            // The ghost is lost too, if it is behind the place.
            assert!(
                [later, later + 1].contains(&(lost.commits as usize)),
                "{place}: {lost:?}"
            );
            assert_eq!(lost.unreadable, 0);
            assert_eq!(lost.was_durable, later > 0, "{place}");
            cut.apply(&disk, keep, 777).unwrap();
            goes_on(&disk.lose_power(), &before, LAST);
        }
    }
}

#[test]
fn a_place_is_refused_that_is_none() {
    let disk = SimulatedDisk::new(0);
    write(&disk);
    let refused = |segment, offset| {
        let error = Cut::plan(&disk, 0, Place { segment, offset })
            .map(|_| ())
            .unwrap_err();
        assert!(
            matches!(error, LogError::Refused(_) | LogError::Corrupt(_)),
            "{segment}:{offset}: {error}"
        );
    };
    let block = BLOCK as u64;
    let operations = disk.operations();
    for (segment, offset) in [(1, 0), (0, block), (1, 9 * block), (99, block), (99, 0)] {
        refused(segment, offset);
    }
    // The large value's batch has two blocks.
    let large = places(&disk);
    let inside = large.windows(2).find(|pair| {
        pair[0].0.segment == pair[1].0.segment && pair[1].0.offset - pair[0].0.offset > block
    });
    let inside = inside.expect("a batch of two blocks")[0].0;
    refused(inside.segment, inside.offset + block);
    assert!(
        Cut::plan(
            &SimulatedDisk::new(0),
            0,
            Place {
                segment: 1,
                offset: block
            }
        )
        .is_err()
    );
    assert_eq!(disk.operations(), operations);
}

/// Every byte of the log is damaged; the check says where, and there it is cut.
#[test]
fn damage_is_cut_where_the_check_says() {
    let disk = SimulatedDisk::new(0);
    write(&disk);
    let (all, places) = (found(&disk).unwrap(), places(&disk));
    let (mut cuts, mut beneath) = (0, 0);
    for name in disk.list("log").unwrap() {
        let name = format!("log/{name}");
        for offset in (0..disk.contents(&name).unwrap().len()).step_by(61) {
            let disk = disk.fork();
            disk.flip(&name, offset, (offset % 8) as u8);
            let report = check(&disk, 0).unwrap();
            let Some(fault) = report.fault else {
                assert_eq!(found(&disk).unwrap(), all, "{name} {offset}");
                continue;
            };
            // The very first header: nothing of the log is whole.
            let Some(place) = report.whole_up_to else {
                assert_eq!(
                    (fault.file.as_str(), fault.offset),
                    ("log/0000000000000001.log", 0)
                );
                continue;
            };
            let known = places.iter().find(|known| known.0 == place);
            let (_, epoch) = known.unwrap_or_else(|| panic!("{place} is between batches"));
            let cut = Cut::plan(&disk, 0, place).unwrap();
            cut.apply(&disk, KEEP, 0).unwrap();
            let last = goes_on(&disk.lose_power(), &up_to(&all, *epoch), *epoch);
            // The header of the last batch may be what is damaged.
            beneath += u32::from(last < LAST);
            cuts += 1;
        }
    }
    assert!(cuts > 300 && beneath < 5, "{cuts} {beneath}");
}

/// Power fails, or the process is killed, at every operation of a cut. What is left is what there
/// was, or is corrupt and can be cut again, or is what was wanted.
#[test]
fn a_crash_in_the_middle_is_harmless() {
    let (mut old, mut corrupt, mut new) = (0, 0, 0);
    for chosen in [1, 3, 6] {
        for damaged in [false, true] {
            for keep in [KEEP, None] {
                for nth in 0.. {
                    let disk = SimulatedDisk::new(nth);
                    write(&disk);
                    let (all, places) = (found(&disk).unwrap(), places(&disk));
                    let (place, epoch) = behind_which_there_is_more(&places)[chosen];
                    let before = up_to(&all, epoch);
                    if damaged {
                        let name = bpfdb_log::segment::name(place.segment);
                        disk.flip(&name, place.offset as usize + 100, 1);
                    }
                    let cut = Cut::plan(&disk, 0, place).unwrap();
                    disk.stop_at(nth);
                    let done = cut.apply(&disk, keep, 0).is_ok();
                    let disk = match nth % 2 {
                        0 => disk.lose_power(),
                        _ => disk.kill(),
                    };
                    match found(&disk) {
                        Ok(found) if found == before => new += 1,
                        Ok(found) if !damaged => {
                            assert_eq!(found, all);
                            old += 1;
                        }
                        Ok(found) => panic!("{place} {nth}: {found:?}"),
                        Err(LogError::Corrupt(_)) => corrupt += 1,
                        Err(error) => panic!("{error}"),
                    }
                    let cut = Cut::plan(&disk, 0, place).unwrap();
                    cut.apply(&disk, keep.map(|_| "cut-2"), 0).unwrap();
                    // A crash may have taken what was lost before it could be read again.
                    let least = if done { LAST } else { epoch };
                    goes_on(&disk.lose_power(), &before, least);
                    if done {
                        break;
                    }
                }
            }
        }
    }
    assert!(
        old > 10 && corrupt > 10 && new > 10,
        "{old} {corrupt} {new}"
    );
}

/// With what is kept the old log can be put together again.
#[test]
fn what_goes_away_is_kept() {
    let disk = SimulatedDisk::new(0);
    write(&disk);
    let all = found(&disk).unwrap();
    let (place, _) = places(&disk)[5];
    let cut = Cut::plan(&disk, 0, place).unwrap();
    let segments = cut.lost().segments.clone();
    assert!(segments.len() > 1);
    cut.apply(&disk, KEEP, 0).unwrap();
    let disk = disk.lose_power();
    let put = |from: &str, to: &str| disk.put(to, &disk.contents(from).unwrap());
    put("cut-1/control", "control");
    for number in segments.iter().chain([&place.segment]) {
        let name = bpfdb_log::segment::name(*number);
        put(&name.replace("log/", "cut-1/"), &name);
    }
    assert_eq!(found(&disk).unwrap(), all);
}

#[test]
fn what_is_damaged_is_counted_apart() {
    let disk = SimulatedDisk::new(0);
    write(&disk);
    let places = places(&disk);
    let (place, epoch) = places[2];
    let name = bpfdb_log::segment::name(place.segment);
    disk.flip(&name, place.offset as usize + 100, 1);
    let report = check(&disk, 0).unwrap();
    assert_eq!(report.whole_up_to, Some(place));
    let lost = Cut::plan(&disk, 0, place).unwrap().lost().clone();
    // Large values' batches may have several records.
    assert_eq!((lost.unreadable, lost.unreadable_records), (1, 1));
    assert!(lost.commits >= 6 && lost.batches > 7, "{lost:?}");
    assert_eq!(lost.epochs, Some((epoch + 1, 12)));
    assert_eq!(lost.walls, Some(((epoch + 1) * 10, 120)));
    assert_eq!(lost.greatest_timestamp, 12);
    assert!(lost.was_durable);
}

/// A header that nothing verifies does not use up the clock.
#[test]
fn a_damaged_epoch_is_not_believed() {
    let disk = SimulatedDisk::new(0);
    let mut writer = reopen(&disk, Start::NewRun, options(8, 2)).unwrap();
    for epoch in 1..=3 {
        append_at(&mut writer, epoch, 0, &set(epoch, b"key", b"")).unwrap();
    }
    writer.close().unwrap();
    let place = places(&disk)[2].0;
    // Byte 54 is the highest but one of the epoch.
    disk.flip("log/0000000000000001.log", place.offset as usize + 54, 7);
    let cut = Cut::plan(&disk, 0, place).unwrap();
    assert_eq!(cut.lost().epochs, Some((3 + (1 << 55), 3 + (1 << 55))));
    assert_eq!(cut.lost().greatest_timestamp, 2);
    cut.apply(&disk, None, 0).unwrap();
    assert_eq!(recover(&disk, 0).unwrap().1.greatest_timestamp, 2);
}

/// A spare may have what was in a segment that is cut off, if files were copied.
#[test]
fn a_spare_is_not_used() {
    let disk = SimulatedDisk::new(0);
    write(&disk);
    let (all, places) = (found(&disk).unwrap(), places(&disk));
    let (place, epoch) = places[1];
    let next = bpfdb_log::segment::name(place.segment + 1);
    disk.put("log/spare-77", &disk.contents(&next).unwrap());
    let cut = Cut::plan(&disk, 0, place).unwrap();
    cut.apply(&disk, None, 0).unwrap();
    goes_on(&disk.lose_power(), &up_to(&all, epoch), LAST);
}

#[test]
fn a_real_directory_is_cut() {
    let folder = folder();
    let disk = Directory::own(folder.path()).unwrap();
    write(&disk);
    let (all, places) = (found(&disk).unwrap(), places(&disk));
    let (place, epoch) = places[4];
    let path = folder.path().join(bpfdb_log::segment::name(place.segment));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[place.offset as usize + 20] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(found(&disk), Err(LogError::Corrupt(_))));
    // Who only reads cannot cut.
    let reader = Directory::read_only(folder.path());
    let cut = Cut::plan(&reader, 0, place).unwrap();
    assert!(cut.apply(&reader, KEEP, 0).is_err());
    let cut = Cut::plan(&disk, 0, place).unwrap();
    cut.apply(&disk, KEEP, 0).unwrap();
    goes_on(&disk, &up_to(&all, epoch), LAST);
    assert!(folder.path().join("cut-1/control").exists());
}
