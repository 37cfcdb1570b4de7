//! Ordered tables: rows and index come back together, from the log, from checkpoints, and after a loss of power.

use crate::it::common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::{Engine, Status};
use bpfdb_durability::Durability;
use bpfdb_log::simulation::SimulatedDisk;
use common::{engine, quick, random, start};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// By the index: what it has not is not there.
fn rows(engine: &Engine) -> Rows {
    let table = engine.ordered_table(0).expect("declared");
    let mut session = engine.session().expect("session");
    let found = table.scan::<&[u8]>(&mut session, .., usize::MAX);
    found.expect("scan").rows.into_iter().collect()
}

/// By the records: what is there, in the index or not.
fn records(engine: &Engine) -> Rows {
    let prefix = engine.ordered_table(0).expect("declared").stored(b"");
    let all = common::contents(engine).into_iter();
    let row = |(key, (value, _)): (Vec<u8>, (Vec<u8>, _))| {
        Some((key.strip_prefix(&prefix[..])?.to_vec(), value))
    };
    all.filter_map(row).collect()
}

/// Rows come and go, one by one and several in a transaction.
fn change(engine: &Engine, seed: u64, turns: usize, stop: &AtomicBool) {
    let table = engine.ordered_table(0).expect("declared");
    let mut session = engine.session().expect("session");
    let mut random = random(seed);
    for _ in 0..turns {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{:0width$}", random(3_000), width = 4 + random(2) * 30).into_bytes();
        let value = vec![b'v'; random(200)];
        let outcome = match random(5) {
            0 => table.delete(&mut session, &key).map(drop),
            1 => session.begin().and_then(|()| {
                let both = table
                    .set(&mut session, &key, &value)
                    .and_then(|()| table.set(&mut session, &[&key[..], b"'"].concat(), &value));
                match both {
                    Ok(()) => session.commit(),
                    Err(status) => session.rollback().and(Err(status)),
                }
            }),
            _ => table.set(&mut session, &key, &value),
        };
        match outcome {
            Ok(()) | Err(Status::Conflict | Status::LogFull | Status::LogClosed) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn rows_come_back_with_their_index() {
    let disk = SimulatedDisk::new(1);
    let mut before = Rows::new();
    for run in 0..3 {
        let engine = engine();
        let (durability, _) = Durability::start(&engine, disk.clone(), quick()).expect("started");
        assert_eq!(rows(&engine), before, "run {run}");
        assert_eq!(records(&engine), before, "run {run}");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..2 {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || change(engine, run * 10 + seed, 1_200, stop));
            }
            // While rows come and go.
            let number = durability.checkpoint().expect("begun");
            durability.await_checkpoint(number).expect("a checkpoint");
        });
        before = rows(&engine);
        assert_eq!(records(&engine), before);
        durability.close().expect("everything is durable");
    }
    assert!(before.len() > 500, "{} rows", before.len());
}

/// An engine that has not the table keeps its rows for one that has.
#[test]
fn rows_of_a_table_that_is_not_declared_stay() {
    let disk = SimulatedDisk::new(2);
    let begun = engine();
    let durability = start(&begun, &disk, quick());
    change(&begun, 5, 300, &AtomicBool::new(false));
    let before = rows(&begun);
    assert_eq!(begun.undeclared_tables().expect("figures"), [0; 0]);
    durability.close().expect("everything is durable");

    let without = common::engine_with_tables(0);
    let durability = start(&without, &disk, quick());
    assert_eq!(without.undeclared_tables().expect("figures"), [0]);
    durability.close().expect("everything is durable");

    let again = engine();
    let _durability = start(&again, &disk, quick());
    assert_eq!(rows(&again), before);
    assert_eq!(records(&again), before);
}

#[test]
fn a_loss_of_power_leaves_no_row_without_its_entry() {
    for seed in 0..3 {
        let disk = SimulatedDisk::new(seed);
        let engine = engine();
        let durability = start(&engine, &disk, quick());
        let stop = AtomicBool::new(false);
        let survivor = thread::scope(|scope| {
            for client in 0..2 {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || change(engine, seed * 10 + client, usize::MAX, stop));
            }
            let table = engine
                .ordered_table(0)
                .expect("declared")
                .keyspace()
                .number();
            common::wait_until("rows", || {
                engine.stats().expect("figures").keyspaces[table] > 400
            });
            let number = durability.checkpoint().expect("begun");
            durability.await_checkpoint(number).expect("a checkpoint");
            thread::sleep(std::time::Duration::from_millis(20));
            let survivor = disk.lose_power();
            stop.store(true, Ordering::Relaxed);
            survivor
        });
        drop(durability);
        let engine = common::engine();
        let _durability = start(&engine, &survivor, quick());
        let found = rows(&engine);
        assert!(found.len() > 200, "{} rows", found.len());
        assert_eq!(found, records(&engine), "seed {seed}");
        // It goes on.
        change(&engine, 99, 300, &AtomicBool::new(false));
        assert_eq!(rows(&engine), records(&engine));
    }
}
