//! Several groups under way to the disk at once.

use crate::it::common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb::{Engine, Session, Status};
use bpfdb_durability::{Durability, Options, State};
use bpfdb_log::simulation::{Fault, Operation, Random, SimulatedDisk};
use common::{contents, quick, wait_until, wait_until_steady};

/// However quick a flush is.
fn overlapping() -> Options {
    Options {
        flushes: 3,
        flush_spacing: Duration::ZERO,
        ..quick()
    }
}

/// An engine whose log writes nothing by itself for a while.
fn settled(disk: &SimulatedDisk, options: Options) -> (Engine, Durability) {
    let engine = common::engine();
    let durability = common::start(&engine, disk, options);
    let mut session = engine.session().expect("session");
    session.set(b"first", b"1").expect("set");
    durability.settle(engine.now()).expect("it is written");
    wait_until_steady(|| disk.operations());
    (engine, durability)
}

fn set(session: &mut Session, key: &[u8], value: &[u8]) {
    session.set(key, value).expect("set");
}

/// Whoever comes while a group is written does not wait for its end.
#[test]
fn groups_are_written_at_once() {
    let disk = SimulatedDisk::new(1);
    let (engine, durability) = settled(&disk, overlapping());
    let mut session = engine.session().expect("session");
    let before = durability.figures();
    disk.hold(true);
    for number in 1..=3 {
        set(&mut session, b"key", &[number as u8]);
        durability.want(engine.now(), 1);
        wait_until("it is written", || disk.waiting() == number);
    }
    set(&mut session, b"key", b"4");
    durability.want(engine.now(), 1);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(disk.waiting(), 3, "no more than that");
    assert!(!engine.await_durable(engine.now(), Duration::ZERO));
    disk.hold(false);
    assert!(engine.await_durable(engine.now(), Duration::from_secs(60)));
    let overlapping = durability.figures().overlapping - before.overlapping;
    assert!((2..=3).contains(&overlapping), "{overlapping}");
    let expected = contents(&engine);
    drop(durability);
    common::assert_recovers(&disk.lose_power(), &expected);
}

/// The same, one after the other, where that was asked for, where nobody waits, and where a flush is
/// quick.
#[test]
fn groups_are_written_one_after_the_other() {
    let quick_disk = Options {
        flush_spacing: Duration::from_secs(3600),
        ..overlapping()
    };
    for (options, waiters) in [(quick(), 1), (quick_disk, 1), (overlapping(), 0)] {
        let disk = SimulatedDisk::new(2);
        let (engine, durability) = settled(&disk, options);
        let mut session = engine.session().expect("session");
        disk.hold(true);
        for number in 0..3 {
            set(&mut session, b"key", &[number]);
            if waiters > 0 {
                durability.want(engine.now(), waiters);
            }
            wait_until("it is written", || disk.waiting() == 1);
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(disk.waiting(), 1);
        disk.hold(false);
        durability.settle(engine.now()).expect("it is written");
        assert_eq!(durability.figures().overlapping, 0);
    }
}

/// Of several flushes one fails: what had not ended before is not durable, and nothing will be.
#[test]
fn a_failed_flush_beside_others_is_the_end() {
    for nth in 0..3 {
        let disk = SimulatedDisk::new(3);
        let (engine, durability) = settled(&disk, overlapping());
        let mut session = engine.session().expect("session");
        disk.hold(true);
        let mut times = Vec::new();
        for number in 1..=3 {
            set(&mut session, &[number as u8], b"value");
            times.push(engine.now());
            durability.want(engine.now(), 1);
            wait_until("it is written", || disk.waiting() == number);
        }
        disk.fail(Operation::Flush, nth, Fault::Error);
        disk.hold(false);
        wait_until("failed", || matches!(durability.state(), State::Failed(_)));
        let durable = durability.durable();
        assert!(durable < times[2], "one of the three has failed");
        session.never_wait();
        assert_eq!(session.set(b"late", b"value"), Err(Status::LogClosed));
        drop(durability);
        let next = common::engine();
        let _durability = common::start(&next, &disk.lose_power(), quick());
        let found = contents(&next);
        for (number, time) in times.iter().enumerate() {
            let is_there = found.contains_key(&vec![number as u8 + 1]);
            assert!(
                is_there || *time > durable,
                "{number} of {times:?}, {durable}"
            );
        }
    }
}

/// Clients that count, each when the number before is durable: a loss of power takes nothing from them.
#[test]
fn nothing_that_was_promised_is_lost() {
    promises(0..2);
}

#[test]
#[ignore = "long: make soak"]
fn soak_nothing_that_was_promised_is_lost() {
    promises(0..200);
}

fn promises(seeds: std::ops::Range<u64>) {
    const CLIENTS: u8 = 5;
    let mut overlapped = 0;
    for seed in seeds {
        let disk = SimulatedDisk::new(seed);
        let (engine, durability) = settled(&disk, overlapping());
        let promised: Vec<AtomicU32> = (0..CLIENTS).map(|_| AtomicU32::new(0)).collect();
        let most = 20 + Random::new(seed).below(200) as u32;
        let survivor = thread::scope(|scope| {
            for (client, promised) in promised.iter().enumerate() {
                let (engine, durability) = (&engine, &durability);
                scope.spawn(move || count(engine, durability, client as u8, promised));
            }
            // However quick the machine is: at least once two groups are under way together.
            disk.hold(true);
            wait_until("a group is written", || disk.waiting() > 0);
            set(&mut engine.session().expect("session"), b"beside", b"1");
            durability.want(engine.now(), 1);
            wait_until("another one is, too", || disk.waiting() > 1);
            disk.hold(false);
            wait_until("they count", || promised[0].load(Ordering::SeqCst) >= most);
            disk.lose_power()
        });
        overlapped += durability.figures().overlapping;
        drop(durability);
        let next = common::engine();
        let _durability = common::start(&next, &survivor, quick());
        let found = contents(&next);
        for (client, promised) in promised.iter().enumerate() {
            let promised = promised.load(Ordering::SeqCst);
            let value = found
                .get(&vec![client as u8])
                .map(|(value, _)| value.clone());
            let value = value.map_or(0, |value| {
                u32::from_le_bytes(value.try_into().expect("a number"))
            });
            assert!(
                value == promised || value == promised + 1,
                "seed {seed}: {promised} was durable, and there is {value}"
            );
        }
    }
    assert!(overlapped > 0);
}

/// Until the log has failed.
fn count(engine: &Engine, durability: &Durability, client: u8, promised: &AtomicU32) {
    let mut session = engine.session().expect("session");
    session.never_wait();
    session.keep_depends(true);
    for number in 1_u32.. {
        // A log that is late for a second takes nothing until it is not.
        while session.set(&[client], &number.to_le_bytes()).is_err() {
            if matches!(durability.state(), State::Failed(_)) {
                return;
            }
            thread::yield_now();
        }
        let time = session.depends();
        durability.want(time, 1);
        while durability.durable() < time {
            if matches!(durability.state(), State::Failed(_)) {
                return;
            }
            thread::yield_now();
        }
        promised.store(number, Ordering::SeqCst);
    }
}

/// Groups that find no space, together, and find it a moment later.
#[test]
fn nothing_is_lost_for_lack_of_space() {
    // Each of the three writes fails once.
    finds_space_later(0..3);
}

#[test]
#[ignore = "long: make soak"]
fn soak_nothing_is_lost_for_lack_of_space() {
    finds_space_later(0..60);
}

fn finds_space_later(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let disk = SimulatedDisk::new(seed);
        let (engine, durability) = settled(&disk, overlapping());
        let mut session = engine.session().expect("session");
        disk.hold(true);
        for number in 1..=3 {
            set(&mut session, &[number as u8], b"value");
            durability.want(engine.now(), 1);
            wait_until("it is written", || disk.waiting() == number);
        }
        let before = disk.count(Operation::Write);
        disk.fail(Operation::Write, seed % 3, Fault::Full);
        disk.hold(false);
        let now = engine.now();
        assert!(engine.await_durable(now, Duration::from_secs(60)));
        // Three batches, if nothing is written again.
        assert!(disk.count(Operation::Write) > before + 3, "seed {seed}");
        let expected = contents(&engine);
        assert_eq!(expected.len(), 4);
        drop(durability);
        common::assert_recovers(&disk.lose_power(), &expected);
    }
}
