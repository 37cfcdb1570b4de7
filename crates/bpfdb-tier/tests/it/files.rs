//! Runs and the manifest on a disk that loses power and fails: what is read is right, or an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use bpfdb::{ColdPlace, RunUse, Status};
use bpfdb_log::Disk;
use bpfdb_log::simulation::{Fault, Operation, Random, SimulatedDisk};
use bpfdb_tier::{NewValue, RunWriter, Runs, check, run_name};

const ENGINE: u64 = 77;
const RUN_SIZE: u64 = 64 << 10;

fn unused() -> Vec<RunUse> {
    vec![RunUse::default(); bpfdb::abi::BPFDB_RUNS_MAX as usize]
}

fn value(random: &mut Random, key: u64) -> NewValue {
    let len = 65 + random.below(3000) as usize;
    NewValue {
        key: format!("key {key}").into_bytes(),
        kind: (key % 6) as u8,
        value: (0..len).map(|_| random.below(256) as u8).collect(),
        timestamp: key,
    }
}

fn disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed)
}

fn open(disk: &SimulatedDisk) -> Arc<Runs<SimulatedDisk>> {
    Arc::new(Runs::open(disk.clone(), ENGINE).expect("runs"))
}

fn faults(disk: &SimulatedDisk) -> Vec<String> {
    check(disk).expect("read").faults
}

type Written = BTreeMap<Vec<u8>, (NewValue, ColdPlace)>;

/// Every value that was written is there.
fn assert_there(runs: &Runs<SimulatedDisk>, written: &Written) {
    for (new, place) in written.values() {
        let found = runs.read_value(&new.key, new.value.len() as u64, *place);
        assert_eq!(found.as_deref(), Ok(&new.value[..]), "{place:?}");
    }
}

/// What is read is right, or an error.
fn assert_never_wrong(runs: &Runs<SimulatedDisk>, written: &Written) -> usize {
    let mut lost = 0;
    for (new, place) in written.values() {
        match runs.read_value(&new.key, new.value.len() as u64, *place) {
            Ok(found) => assert_eq!(found, new.value),
            Err(Status::TierCorrupt | Status::TierUnavailable) => lost += 1,
            Err(status) => panic!("{status:?}"),
        }
    }
    lost
}

fn append(
    writer: &mut RunWriter<SimulatedDisk>,
    random: &mut Random,
    keys: std::ops::Range<u64>,
    written: &mut Written,
) -> std::io::Result<()> {
    let values: Vec<NewValue> = keys.map(|key| value(random, key)).collect();
    let places = writer.append(&values, &unused())?;
    for (new, place) in values.into_iter().zip(places) {
        written.insert(new.key.clone(), (new, place));
    }
    Ok(())
}

#[test]
fn what_was_written_is_there_after_a_loss_of_power() {
    for seed in 0..20 {
        let (mut disk, mut random) = (disk(seed), Random::new(seed));
        let mut written = Written::new();
        for life in 0..3 {
            let runs = open(&disk);
            assert_there(&runs, &written);
            let mut writer = RunWriter::new(Arc::clone(&runs), RUN_SIZE);
            for batch in 0..4 {
                let first = (life * 4 + batch) * 20;
                append(&mut writer, &mut random, first..first + 20, &mut written).expect("written");
            }
            assert_there(&runs, &written);
            disk = disk.lose_power();
        }
        assert_there(&open(&disk), &written);
        assert_eq!(faults(&disk), Vec::<String>::new());
    }
}

/// Whatever operation of the disk is the last: what is in it is right.
#[test]
fn a_loss_of_power_at_any_operation_leaves_no_wrong_value() {
    for nth in 1..60 {
        let (disk, mut random) = (disk(nth), Random::new(nth));
        disk.stop_at(nth);
        let mut written = Written::new();
        if let Ok(runs) = Runs::open(disk.clone(), ENGINE) {
            let mut writer = RunWriter::new(Arc::new(runs), RUN_SIZE);
            for batch in 0..6 {
                if append(
                    &mut writer,
                    &mut random,
                    batch * 20..batch * 20 + 20,
                    &mut written,
                )
                .is_err()
                {
                    break;
                }
            }
        }
        let disk = disk.lose_power();
        assert_there(&open(&disk), &written);
    }
}

#[test]
fn an_operation_that_fails_is_an_error_and_the_next_batch_goes_elsewhere() {
    for operation in [
        Operation::Create,
        Operation::Allocate,
        Operation::Write,
        Operation::Flush,
    ] {
        for fault in [Fault::Error, Fault::Full] {
            for nth in 1..6 {
                let (disk, mut random) = (disk(nth), Random::new(nth));
                let runs = open(&disk);
                let mut writer = RunWriter::new(Arc::clone(&runs), RUN_SIZE);
                disk.fail(operation, nth, fault);
                let mut written = Written::new();
                let mut failed = 0;
                for batch in 0..8 {
                    let keys = batch * 20..batch * 20 + 20;
                    failed +=
                        u32::from(append(&mut writer, &mut random, keys, &mut written).is_err());
                }
                assert!(failed <= 1, "{operation:?} {fault:?} {nth}: {failed}");
                assert_there(&runs, &written);
                let disk = disk.lose_power();
                assert_there(&open(&disk), &written);
            }
        }
    }
}

#[test]
fn a_flipped_bit_is_found() {
    let (disk, mut random) = (disk(5), Random::new(5));
    let runs = open(&disk);
    let mut writer = RunWriter::new(Arc::clone(&runs), RUN_SIZE);
    let mut written = Written::new();
    append(&mut writer, &mut random, 0..20, &mut written).expect("written");
    let (new, place) = written.values().next().expect("one").clone();
    let within = random.below(new.value.len() as u64) + 48 + new.key.len() as u64;
    disk.flip(&run_name(place.run), (place.offset + within) as usize, 3);
    let len = new.value.len() as u64;
    assert_eq!(
        runs.read_value(&new.key, len, place),
        Err(Status::TierCorrupt)
    );
    assert_eq!(assert_never_wrong(&runs, &written), 1);
}

#[test]
fn runs_of_another_engine_stay_until_they_are_removed_and_those_without_a_manifest_go_by_their_headers()
 {
    let (disk, mut random) = (disk(6), Random::new(6));
    let runs = open(&disk);
    let mut writer = RunWriter::new(Arc::clone(&runs), RUN_SIZE);
    let mut written = Written::new();
    append(&mut writer, &mut random, 0..20, &mut written).expect("written");
    disk.flip(bpfdb_tier::MANIFEST, 20, 1);
    assert_eq!(faults(&disk).len(), 1);
    let damaged = open(&disk);
    assert_there(&damaged, &written);
    damaged.remove_foreign().expect("a new manifest");
    assert_eq!(faults(&disk), Vec::<String>::new());
    disk.remove(bpfdb_tier::MANIFEST).expect("removed");
    let damaged = open(&disk);
    assert_there(&damaged, &written);
    // A run that is made now has another number.
    let mut writer = RunWriter::new(Arc::clone(&damaged), RUN_SIZE);
    let mut more = Written::new();
    append(&mut writer, &mut random, 0..20, &mut more).expect("written");
    assert!(more.values().all(|(_, place)| place.run > 1));

    // Whose disk it is shows later.
    let before = disk.contents(bpfdb_tier::MANIFEST);
    let other = Runs::open(disk.clone(), ENGINE + 1).expect("runs");
    assert_eq!(disk.contents(bpfdb_tier::MANIFEST), before);
    assert_there(&open(&disk), &more);
    other.remove_foreign().expect("removed");
    assert!(
        more.values()
            .all(|(_, place)| disk.contents(&run_name(place.run)).is_none())
    );
    assert_eq!(open(&disk).sizes(), (0, 0));
}

#[test]
fn a_full_disk_is_opened_and_lets_runs_go() {
    let (disk, mut random) = (disk(10), Random::new(10));
    let mut writer = RunWriter::new(open(&disk), RUN_SIZE);
    let mut written = Written::new();
    append(&mut writer, &mut random, 0..80, &mut written).expect("written");
    disk.set_capacity(0);
    let runs = open(&disk);
    assert_there(&runs, &written);
    runs.remove_foreign().expect("nothing is to be written");
    // Another engine's, which has no room for its manifest before these have gone.
    let other = Runs::open(disk.clone(), ENGINE + 1).expect("runs");
    assert!(other.remove_foreign().is_err());
    assert!(disk.contents(&run_name(1)).is_none());
    disk.set_capacity(1 << 20);
    other.remove_foreign().expect("a manifest");
}

#[test]
fn what_is_left_of_a_run_that_could_not_be_made_stops_no_other() {
    let (disk, mut random) = (disk(11), Random::new(11));
    let mut writer = RunWriter::new(open(&disk), RUN_SIZE);
    let mut written = Written::new();
    disk.fail(Operation::Write, 1, Fault::Error);
    disk.fail(Operation::Remove, 1, Fault::Error);
    assert!(append(&mut writer, &mut random, 0..20, &mut written).is_err());
    assert!(disk.contents(&run_name(1)).is_some());
    append(&mut writer, &mut random, 0..20, &mut written).expect("another");
    assert!(written.values().all(|(_, place)| place.run == 2));
}

#[test]
fn a_check_finds_what_is_damaged_and_counts_what_is_whole() {
    let (disk, mut random) = (disk(8), Random::new(8));
    let mut writer = RunWriter::new(open(&disk), RUN_SIZE);
    let mut written = Written::new();
    // The second run is open then.
    while written.values().all(|(_, place)| place.run == 1) {
        let first = written.len() as u64;
        append(&mut writer, &mut random, first..first + 20, &mut written).expect("written");
    }
    let all = written.len() as u64;
    let whole = check(&disk).expect("read");
    let bytes: usize = written.values().map(|(new, _)| new.value.len()).sum();
    assert_eq!(whole.faults, Vec::<String>::new());
    let found = (whole.runs, whole.values, whole.bytes);
    assert_eq!(found, (2, all, bytes as u64));
    for (new, place) in written.values() {
        let name = run_name(place.run);
        let bit = random.below(8) as u8;
        let inside = 48 + random.below((new.key.len() + new.value.len()) as u64);
        let at = (place.offset + inside) as usize;
        disk.flip(&name, at, bit);
        let damaged = check(&disk).expect("read");
        assert_eq!(damaged.values, all - 1);
        assert_eq!(damaged.faults.len(), 1, "{damaged:?}");
        disk.flip(&name, at, bit);
    }
    assert_eq!(check(&disk).expect("read"), whole);
}

#[test]
fn a_run_that_cannot_be_read_at_a_start_is_there_at_the_next_one() {
    let (disk, mut random) = (disk(7), Random::new(7));
    let mut writer = RunWriter::new(open(&disk), RUN_SIZE);
    let mut written = Written::new();
    append(&mut writer, &mut random, 0..20, &mut written).expect("written");
    // Of the header, which names the engine.
    disk.flip(&run_name(1), 17, 0);
    for _ in 0..2 {
        let unusable = open(&disk);
        for (new, place) in written.values() {
            let found = unusable.read_value(&new.key, new.value.len() as u64, *place);
            assert_eq!(found, Err(Status::TierUnavailable));
        }
    }
    disk.flip(&run_name(1), 17, 0);
    assert_there(&open(&disk), &written);
}

#[test]
fn runs_leave_room_to_other_files() {
    let (disk, mut random) = (disk(9), Random::new(9));
    let mut writer = RunWriter::new(open(&disk), RUN_SIZE);
    let mut written = Written::new();
    append(&mut writer, &mut random, 0..80, &mut written).expect("written");
    disk.set_capacity(1 << 20);
    let free = disk.free().expect("a figure");
    assert!(free < 1 << 20);
    writer.keep_free(free - RUN_SIZE / 2);
    let refused = append(&mut writer, &mut random, 80..160, &mut written);
    let refused = refused.expect_err("the next run");
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    writer.keep_free(free - RUN_SIZE);
    append(&mut writer, &mut random, 80..160, &mut written).expect("written");
}
