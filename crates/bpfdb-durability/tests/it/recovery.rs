//! What recovery reports while it goes on, which threads do it, and that it can be stopped.

use crate::it::common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::Session;
use bpfdb_durability::{Durability, Error, RecoveryProgress};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_tests::process::alone_in_a_process;
use common::{Contents, contents, quick};

/// Commits before the checkpoint, and after it: enough for several calls of `tell`.
const BEFORE: usize = 10_000;
const AFTER: usize = 20_000;
/// Each is written many times: the last value must stay, whichever worker writes it.
const KEYS: usize = 500;

fn key(number: usize) -> Vec<u8> {
    format!("key:{}", number % KEYS).into_bytes()
}

fn write(session: &mut Session, range: std::ops::Range<usize>) {
    for number in range {
        let value = number.to_string().repeat(1 + number % 5);
        while session.set(&key(number), value.as_bytes()).is_err() {
            thread::yield_now();
        }
    }
}

/// A directory with a checkpoint and a log after it, and what they have.
fn written() -> (SimulatedDisk, Contents) {
    let (engine, disk) = (common::engine(), SimulatedDisk::new(1));
    let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
    let mut session = engine.session().expect("a session");
    write(&mut session, 0..BEFORE);
    // What is not durable yet is replayed from the log, and not in the checkpoint.
    durability.settle(engine.now()).expect("durable");
    let number = durability.checkpoint().expect("begun");
    durability.await_checkpoint(number).expect("a checkpoint");
    write(&mut session, BEFORE..BEFORE + AFTER);
    durability.close().expect("everything is durable");
    (disk, contents(&engine))
}

/// Threads of this process that load.
fn loaders() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("a list").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("bpfdb-load-")).count()
}

/// In a process of its own, since those that load for other tests would be counted too.
#[test]
fn recovery_tells_how_far_it_is_and_uses_all_processors() {
    let name = "it::recovery::recovery_tells_how_far_it_is_and_uses_all_processors";
    alone_in_a_process(name, recovery_tells_and_uses_processors);
}

fn recovery_tells_and_uses_processors() {
    let (disk, expected) = written();
    let engine = common::engine();
    let (mut told, mut workers) = (Vec::<RecoveryProgress>::new(), 0);
    let tell = |progress| {
        told.push(progress);
        workers = workers.max(loaders());
        ControlFlow::Continue(())
    };
    let started = Durability::start_telling(&engine, disk, quick(), tell);
    let (durability, restored) = started.expect("recovered");
    assert_eq!(contents(&engine), expected);
    assert_eq!(restored.checkpoint_entries, KEYS as u64);
    assert!(restored.commits >= AFTER as u64, "{restored:?}");
    assert_eq!(durability.restored(), restored);

    assert!(told.len() > 4, "{told:?}");
    for pair in told.windows(2) {
        assert!(pair[0].bytes <= pair[1].bytes, "{pair:?}");
        assert!(pair[0].records <= pair[1].records, "{pair:?}");
    }
    assert!(
        told.iter()
            .all(|progress| progress.bytes <= progress.bytes_in_all)
    );
    let last = told.last().expect("some");
    assert_eq!(last.bytes, last.bytes_in_all);
    assert_eq!(last.records, restored.checkpoint_entries + restored.writes);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    // The engine of this test has eight sessions for user space.
    assert!(workers >= processors.min(4), "{workers} of {processors}");
}

fn files(disk: &SimulatedDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.names().into_iter();
    names
        .map(|name| {
            let contents = disk.contents(&name).expect("listed");
            (name, contents)
        })
        .collect()
}

#[test]
fn recovery_that_is_stopped_changes_no_file() {
    let (disk, expected) = written();
    let before = files(&disk);
    // During the checkpoint, and during the log after it.
    for calls in [0, 3] {
        let mut left = calls;
        let tell = |_| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        };
        let stopped = Durability::start_telling(&common::engine(), disk.clone(), quick(), tell);
        assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
        assert!(files(&disk) == before, "after {calls} calls");
    }
    let engine = common::engine();
    let (_durability, _) = Durability::start(&engine, disk, quick()).expect("recovered");
    assert_eq!(contents(&engine), expected);
}

/// Decision 19: the engine clears away what is deleted and expired while workers recover, also
/// a record whose key another worker is about to write an older or a newer version of.
#[test]
fn what_is_cleared_away_meanwhile_stays_away_and_nothing_else_goes() {
    let (old, disk) = (common::engine(), SimulatedDisk::new(15));
    let now = old.now_ms();
    old.stop_clock(now);
    let durability = common::start(&old, &disk, quick());
    let mut session = old.session().expect("session");
    for round in 0..4 {
        for number in 0..5000 {
            let key = format!("key:{number}").into_bytes();
            let value = format!("{round}:{number}").into_bytes();
            // Expired by the end; deleted at the end; deleted and there again; there for long.
            let written = match (number % 4, round) {
                (0, _) => session.set_entry(&key, &value, Some(now + 1000)),
                (1, 3) | (2, 0..3) if number % 3 > 0 => session.delete(&key).map(drop),
                (3, _) => session.set_entry(&key, &value, Some(now + 1_000_000)),
                _ => session.set(&key, &value),
            };
            written.expect("there is room in time");
        }
        if round == 1 {
            durability.checkpoint().expect("begun");
        }
    }
    durability.settle(old.now()).expect("durable");
    durability.close().expect("closed");
    old.stop_clock(now + 2000);
    let before = contents(&old);
    assert!(
        before.len() > 2500 && before.len() < 5000,
        "{}",
        before.len()
    );

    let new = common::engine();
    new.stop_clock(now + 2000);
    let over = AtomicBool::new(false);
    let sweeps = thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            let (mut page, mut sweeps) = (0, 0_u32);
            while !over.load(Ordering::Relaxed) {
                page = new.clear_away(page).expect("cleared");
                sweeps += u32::from(page == 0);
            }
            sweeps
        });
        let durability = common::start(&new, &disk, quick());
        over.store(true, Ordering::Relaxed);
        drop(durability);
        sweeper.join().expect("no panic")
    });
    assert!(sweeps > 3, "{sweeps}");
    assert!(contents(&new) == before);
}
