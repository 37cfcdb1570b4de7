//! What is retained for recovery to an earlier time: it is there, and it gives way.

use crate::it::common;

use std::thread;
use std::time::Duration;

use bpfdb::{Engine, Status};
use bpfdb_durability::{Durability, Options, RetentionOptions, State};
use bpfdb_log::reader::read_control;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{Beginning, Beginnings, Disk, Until, check, check_retained, copy_until};
use common::{
    Contents, assert_recovers, contents, engine, quick, segments, space, spares, start, wait_until,
};

const DAY: Duration = Duration::from_secs(86_400);

fn retaining(time: Duration) -> Options {
    Options {
        retention: RetentionOptions { time, bytes: None },
        ..quick()
    }
}

/// Some 6 MiB, of which each round overwrites the one before.
fn write(engine: &Engine, durability: &Durability, round: u8) -> Result<u64, Status> {
    let mut session = engine.session().expect("session");
    for number in 0..300_u32 {
        let key = number.to_le_bytes();
        loop {
            match session.set(&key, &[round; 20_000]) {
                // Writers are faster than the disk.
                Err(Status::LogFull) if durability.state() == State::Writing => {
                    thread::sleep(Duration::from_millis(1));
                }
                written => break written?,
            }
        }
    }
    let now = engine.now();
    durability.settle(now).map_err(|_| Status::LogFull)?;
    Ok(now)
}

fn make_checkpoint(durability: &Durability) -> Result<(), bpfdb_durability::Error> {
    let number = durability.checkpoint()?;
    durability.await_checkpoint(number)
}

fn checkpoints(disk: &SimulatedDisk) -> usize {
    disk.list("checkpoint").expect("listed").len()
}

/// What a new engine has that is recovered as of a point in time.
fn as_of(disk: &SimulatedDisk, timestamp: u64) -> Contents {
    let new = SimulatedDisk::new(9);
    let until = Some(Until::Timestamp(timestamp));
    copy_until(disk, &new, until, quick().files, |_| ()).expect("copied");
    let engine = engine();
    let _durability = start(&engine, &new, quick());
    contents(&engine)
}

#[test]
fn an_engine_is_recovered_as_it_was_before_its_last_checkpoints() {
    let disk = SimulatedDisk::new(1);
    let mut seen = Vec::new();
    for run in 0..2 {
        let engine = engine();
        let durability = start(&engine, &disk, retaining(DAY));
        for round in 0..3 {
            let now = write(&engine, &durability, run * 3 + round).expect("written");
            seen.push((now, contents(&engine)));
            make_checkpoint(&durability).expect("made");
        }
        let status = durability.retention_status();
        assert_eq!(status.earliest.epoch, 0);
        assert!(status.bytes > 12 << 20, "{status:?}");
    }
    for (timestamp, before) in &seen {
        assert!(as_of(&disk, *timestamp) == *before, "{timestamp}");
    }
    let report = check_retained(&disk).expect("read");
    assert_eq!(report.damaged, []);
    assert_eq!(report.earliest.expect("there").epoch, 0);

    // Whoever does not want it gives it up.
    let engine = engine();
    let durability = start(&engine, &disk, quick());
    wait_until("given up", || durability.retention_status().bytes == 0);
    wait_until("removed", || checkpoints(&disk) == 1);
    wait_until("recycled", || segments(&disk) <= 2);
    assert!(durability.retention_status().earliest.epoch >= seen[5].0);
    assert!(contents(&engine) == seen[5].1);
}

/// Nothing was written between the end of a checkpoint and a restart: the log must say all the same
/// that everything up to that end was durable.
#[test]
fn a_checkpoint_of_an_idle_engine_is_retained_beyond_its_run() {
    let disk = SimulatedDisk::new(5);
    let mut seen = Vec::new();
    for run in 0..3 {
        let engine = engine();
        let durability = start(&engine, &disk, retaining(DAY));
        // More than the checkpoint, or it is not worth its bytes.
        write(&engine, &durability, 7).expect("written");
        let now = write(&engine, &durability, run).expect("written");
        // Many groups of nothing.
        thread::sleep(Duration::from_millis(50));
        make_checkpoint(&durability).expect("made");
        seen.push((now, contents(&engine)));
    }
    let control = read_control(&disk).expect("read").expect("there");
    let found = Beginnings::find(&disk, &control).expect("read");
    let numbers: Vec<_> = found.list.iter().map(Beginning::number).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    for (timestamp, before) in &seen {
        assert!(as_of(&disk, *timestamp) == *before, "{timestamp}");
    }
}

#[test]
fn what_is_too_old_or_too_much_is_given_up_while_the_engine_runs() {
    let disk = SimulatedDisk::new(2);
    let engine = engine();
    let durability = start(&engine, &disk, retaining(DAY));
    for round in 0..4 {
        // More than the checkpoint, or it is not worth its bytes, wherever segments end.
        write(&engine, &durability, round).expect("written");
        write(&engine, &durability, round).expect("written");
        make_checkpoint(&durability).expect("made");
    }
    let all = durability.retention_status();
    let most = all.bytes / 2;
    durability.set_retention(RetentionOptions {
        time: DAY,
        bytes: Some(most),
    });
    wait_until("less", || durability.retention_status().bytes <= most);
    let some = durability.retention_status();
    assert!(some.bytes > 0 && some.earliest.epoch > 0, "{some:?}");
    // The last checkpoint gets so old that what is before it is not needed.
    durability.set_retention(RetentionOptions {
        time: Duration::from_millis(1),
        bytes: None,
    });
    wait_until("nothing", || durability.retention_status().bytes == 0);
    wait_until("removed", || checkpoints(&disk) == 1);
    assert_eq!(durability.state(), State::Writing);
    drop(durability);
    assert_eq!(check(&disk, 0).expect("read").fault, None);
}

/// The engine has its data still. Until another checkpoint counts, the older ones are all that the
/// directory has.
#[test]
fn damage_removes_no_other_checkpoint() {
    let disk = SimulatedDisk::new(6);
    let engine = engine();
    let durability = start(&engine, &disk, retaining(DAY));
    for round in 0..4 {
        write(&engine, &durability, round).expect("written");
        write(&engine, &durability, round).expect("written");
        make_checkpoint(&durability).expect("made");
    }
    drop(durability);
    let names = disk.list("checkpoint").expect("listed");
    assert_eq!(names.len(), 4, "{names:?}");
    let name = |n: usize| format!("checkpoint/{:016x}.ckpt", n + 1);
    disk.spoil(&name(1), 0);
    disk.flip(&name(3), 100, 3);
    for _ in 0..2 {
        // A look whether something is old enough.
        let durability = start(&engine, &disk, retaining(DAY));
        thread::sleep(Duration::from_millis(1100));
        assert_eq!(checkpoints(&disk), 4);
        drop(durability);
    }
    let durability = start(&engine, &disk, retaining(DAY));
    let last = contents(&engine);
    make_checkpoint(&durability).expect("made");
    let status = durability.retention_status();
    assert_eq!(status.earliest.epoch, 0);
    durability.set_retention(RetentionOptions::default());
    wait_until("removed", || checkpoints(&disk) == 1);
    drop(durability);
    assert_recovers(&disk, &last);
}

/// The oldest checkpoint that was retained is damaged: nothing can be begun with the log before the
/// next one.
#[test]
fn segments_that_no_checkpoint_makes_use_of_are_given_up() {
    let disk = SimulatedDisk::new(8);
    let engine = engine();
    let durability = start(&engine, &disk, retaining(DAY));
    for round in 0..4 {
        write(&engine, &durability, round).expect("written");
        write(&engine, &durability, round).expect("written");
        make_checkpoint(&durability).expect("made");
    }
    // Without the log's very beginning, with which everything can be begun.
    let bytes = Some(durability.retention_status().bytes - 1);
    durability.set_retention(RetentionOptions { time: DAY, bytes });
    wait_until("less", || durability.retention_status().earliest.epoch > 0);
    drop(durability);
    let found = || {
        let control = read_control(&disk).expect("read").expect("there");
        let list = Beginnings::find(&disk, &control).expect("read").list;
        (control.first_kept(), list[0])
    };
    let (first, oldest) = found();
    assert_eq!(first, oldest.first_segment);
    disk.flip(&format!("checkpoint/{:016x}.ckpt", oldest.number()), 100, 3);
    let (_, oldest) = found();
    assert!(oldest.first_segment > first);

    let durability = start(&engine, &disk, retaining(DAY));
    wait_until("given up", || found().0 == oldest.first_segment);
    assert_eq!(durability.retention_status().earliest, oldest.earliest);
    assert!(durability.retention_status().bytes > 0);
}

/// Writers are not refused as long as something is retained.
#[test]
fn a_full_disk_gives_up_what_is_retained_before_it_refuses() {
    let disk = SimulatedDisk::new(3);
    let engine = engine();
    let durability = start(&engine, &disk, retaining(DAY));
    for round in 0..4 {
        write(&engine, &durability, round).expect("written");
        make_checkpoint(&durability).expect("made");
    }
    let before = durability.retention_status();
    disk.set_capacity(space(&disk));
    let mut earliest = before.earliest;
    let mut rounds = 0;
    while let Ok(now) = write(&engine, &durability, 4) {
        let status = durability.retention_status();
        assert!(status.earliest >= earliest, "oldest first");
        earliest = status.earliest;
        assert!(as_of(&disk, now) == contents(&engine));
        rounds += 1;
        assert!(rounds < 100, "it is never full");
    }
    // All was given up first; and that was enough for some time.
    assert!(rounds > 2, "{rounds}");
    assert!(matches!(durability.state(), State::Full(_)));
    let after = durability.retention_status();
    assert_eq!(after.bytes, 0);
    assert!(after.earliest > before.earliest);
    disk.set_capacity(usize::MAX);
    wait_until("healed", || durability.state() == State::Writing);
    write(&engine, &durability, 5).expect("written");
    let last = contents(&engine);
    drop(durability);
    assert_recovers(&disk, &last);
}

/// There is space for the log, and none for a checkpoint.
#[test]
fn a_checkpoint_takes_the_place_of_what_is_retained() {
    let disk = SimulatedDisk::new(4);
    let engine = engine();
    let durability = start(&engine, &disk, retaining(DAY));
    for round in 0..4 {
        write(&engine, &durability, round).expect("written");
        make_checkpoint(&durability).expect("made");
    }
    let before = durability.retention_status();
    // The thread that prepares the next segment is done.
    wait_until("a spare is there", || spares(&disk) > 0);
    disk.set_capacity(space(&disk) + (1 << 20));
    make_checkpoint(&durability).expect("made");
    let after = durability.retention_status();
    assert!(after.earliest > before.earliest, "{after:?}");
    assert_eq!(durability.checkpoint_status().failed, 0);
    let last = contents(&engine);
    drop(durability);
    assert_recovers(&disk, &last);
}

/// The oldest goes, and nothing else: its segments become free space, not spares of a log that has
/// needed many of them once.
#[test]
fn no_more_is_given_up_than_a_checkpoint_needs() {
    let disk = SimulatedDisk::new(10);
    let engine = engine();
    let durability = start(&engine, &disk, retaining(DAY));
    for writes in [2, 6, 2, 2] {
        for _ in 0..writes {
            write(&engine, &durability, writes).expect("written");
        }
        make_checkpoint(&durability).expect("made");
    }
    wait_until("two spares are there", || spares(&disk) == 2);
    let control = read_control(&disk).expect("read").expect("there");
    let before = Beginnings::find(&disk, &control).expect("read").list;
    assert_eq!(durability.retention_status().earliest, before[0].earliest);
    disk.set_capacity(space(&disk));
    make_checkpoint(&durability).expect("made");
    assert_eq!(durability.retention_status().earliest, before[1].earliest);
    assert_eq!(durability.checkpoint_status().failed, 0);
    wait_until("they are not taken for it", || spares(&disk) == 2);
    assert!(as_of(&disk, engine.now()) == contents(&engine));
}

/// Spares go first. They are there because the log has needed many segments once.
#[test]
fn a_checkpoint_takes_the_place_of_spares_before_anything_is_given_up() {
    let disk = SimulatedDisk::new(11);
    let engine = engine();
    let durability = start(&engine, &disk, quick());
    for _ in 0..6 {
        write(&engine, &durability, 1).expect("written");
    }
    make_checkpoint(&durability).expect("made");
    wait_until("recycled", || spares(&disk) > 5);
    durability.set_retention(retaining(DAY).retention);
    write(&engine, &durability, 2).expect("written");
    write(&engine, &durability, 3).expect("written");
    make_checkpoint(&durability).expect("made");
    let before = durability.retention_status();
    assert!(before.bytes > 0);
    disk.set_capacity(space(&disk));
    make_checkpoint(&durability).expect("made");
    let after = durability.retention_status();
    assert_eq!(after.earliest, before.earliest);
    assert_eq!(durability.checkpoint_status().failed, 0);
}

/// A server that is started on a full disk gives up what is retained too, before it refuses.
#[test]
fn a_start_on_a_full_disk_gives_up_what_is_retained() {
    start_on_a_full_disk(0);
}

/// The only spare becomes the first segment: there is none in reserve.
#[test]
fn the_reserve_takes_the_place_of_what_is_retained() {
    start_on_a_full_disk(1);
}

fn start_on_a_full_disk(spares: usize) {
    let disk = SimulatedDisk::new(7);
    let old = engine();
    let durability = start(&old, &disk, retaining(DAY));
    for round in 0..4 {
        write(&old, &durability, round).expect("written");
        write(&old, &durability, round).expect("written");
        make_checkpoint(&durability).expect("made");
    }
    let last = contents(&old);
    let before = durability.retention_status();
    durability.close().expect("written");
    let names = disk.list("log").expect("listed");
    for name in names
        .iter()
        .filter(|name| name.starts_with("spare"))
        .skip(spares)
    {
        disk.remove(&format!("log/{name}")).expect("removed");
    }
    disk.flush_folder("log").expect("flushed");
    disk.set_capacity(space(&disk));

    let new = engine();
    let durability = start(&new, &disk, retaining(DAY));
    wait_until("room", || durability.state() == State::Writing);
    wait_until("given up", || {
        durability.retention_status().bytes < before.bytes
    });
    let after = durability.retention_status();
    assert!(
        after.bytes > 0 && after.earliest > before.earliest,
        "{after:?}"
    );
    assert!(contents(&new) == last);
    let mut session = new.session().expect("session");
    session.set(b"key", b"value").expect("set");
    durability.settle(new.now()).expect("durable");
    let last = contents(&new);
    let disk = disk.lose_power();
    drop(durability);
    let report = check_retained(&disk).expect("read");
    assert_eq!(report.damaged, []);
    assert_eq!(report.earliest.expect("there").epoch, after.earliest.epoch);
    assert_recovers(&disk, &last);
}
