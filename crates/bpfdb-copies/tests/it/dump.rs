//! Copies of an engine's data are of one moment, whatever others do meanwhile.

use crate::it::common;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status};
use bpfdb_copies::{Error, Snapshot, dump_file};
use common::engine::{all, dumped, engine, keys, set_all};
use common::{Collected, FORMS, collect, noise};

#[test]
fn a_snapshot_is_one_moment() {
    const ACCOUNTS: u64 = 3000;
    const EACH: u64 = 1000;
    let engine = engine();
    let name = |number: u64| format!("account {number}").into_bytes();
    let data = (0..ACCOUNTS).map(|n| (name(n), (EACH.to_string().into_bytes(), None)));
    set_all(&engine, &data.collect());
    let (over, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..2 {
            let (engine, over, moved) = (&engine, &over, &moved);
            scope.spawn(move || {
                let mut session = engine.session().expect("a session");
                let mut random = noise(1 << 16, seed + 5).into_iter().cycle();
                while !over.load(Ordering::Relaxed) {
                    let mut next = || u64::from(random.next().unwrap_or(0)) * 131;
                    let (from, to) = (next() % ACCOUNTS, next() % ACCOUNTS);
                    let done = transfer(&mut session, &name(from), &name(to));
                    moved.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
                }
            });
        }
        let _end = AtEnd(&over);
        for round in 0..30 {
            let before = moved.load(Ordering::Relaxed);
            let bytes = dumped(&engine, FORMS[round % FORMS.len()]);
            let (copy, _) = collect(&bytes).expect("right");
            let sum = copy.values().map(|(value, _)| number(value));
            assert_eq!((copy.len() as u64, sum.sum()), (ACCOUNTS, ACCOUNTS * EACH));
            // Others did write meanwhile.
            while moved.load(Ordering::Relaxed) == before {
                thread::yield_now();
            }
        }
    });
}

/// Between two batches of keys, and between two parts of a large value.
#[test]
fn a_dump_is_stopped_soon() {
    let engine = engine();
    for (count, len) in [(200, 30_000), (3, 3 << 20)] {
        let name = |number: usize| format!("{len} {number}").into_bytes();
        let data = (0..count).map(|n| (name(n), (vec![b'v'; len], None)));
        set_all(&engine, &data.collect());
        let mut collected = Collected::default();
        let snapshot = Snapshot::take(&engine).expect("taken");
        let stopped = snapshot.copy_to(&mut collected, &mut |_| Err(Error::Interrupted));
        assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
        assert!(collected.bytes() <= 2 << 20, "{}", collected.bytes());
        let mut session = engine.session().expect("a session");
        for number in 0..count {
            session.delete(&name(number)).expect("deleted");
        }
    }
}

/// Raises a flag, also after a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value)
        .expect("text")
        .parse()
        .expect("a number")
}

fn transfer(session: &mut Session, from: &[u8], to: &[u8]) -> Result<(), Status> {
    if from == to {
        return Ok(());
    }
    let outcome = try_transfer(session, from, to);
    if outcome.is_err() {
        let _ = session.rollback();
    }
    outcome
}

fn try_transfer(session: &mut Session, from: &[u8], to: &[u8]) -> Result<(), Status> {
    session.begin()?;
    let one = number(&session.get_for_update(from)?.expect("an account"));
    let other = number(&session.get_for_update(to)?.expect("an account"));
    let amount = one.min(7);
    session.set(from, (one - amount).to_string().as_bytes())?;
    session.set(to, (other + amount).to_string().as_bytes())?;
    session.commit()
}

fn page_merges(engine: &Engine) -> u64 {
    engine.counters().expect("counters").page_merges
}

fn delete_all<'a>(engine: &Engine, keys: impl Iterator<Item = &'a Vec<u8>>) {
    let mut session = engine.session().expect("a session");
    for key in keys {
        session.delete(key).expect("deleted");
    }
}

/// Pages that are merged under the cursor bring keys again ([`Collected`] takes none twice).
#[test]
fn keys_that_come_again_are_given_once() {
    keys_come_again(&[1, 4]);
}

#[test]
#[ignore = "long: make soak"]
fn soak_keys_that_come_again_are_given_once() {
    keys_come_again(&[0, 1, 2, 3, 4, 5, 6, 7]);
}

/// At these steps of a copy pages are merged.
fn keys_come_again(at: &[u32]) {
    let engine = engine();
    // So many that steps end after so many keys, in the middle of what becomes one bucket.
    let (stay, go) = (keys(0, 60_000), keys(60_000, 200_000));
    set_all(&engine, &stay);
    for &step in at {
        set_all(&engine, &go);
        delete_all(&engine, go.keys());
        let before = page_merges(&engine);
        let mut collected = Collected::default();
        let mut steps = 0;
        let snapshot = Snapshot::take(&engine).expect("a snapshot");
        let outcome = snapshot.copy_to(&mut collected, &mut |_| {
            if steps == step {
                engine.sweep().expect("swept");
            }
            steps += 1;
            Ok(())
        });
        outcome.expect("a copy");
        assert!(page_merges(&engine) > before + 50, "pages are merged");
        assert!(collected.whole() == stay);
    }
}

/// No key is lost while pages of the index are split and merged.
#[test]
fn splits_and_merges_do_not_matter() {
    splits_and_merges(200);
}

#[test]
#[ignore = "long: make soak"]
fn soak_splits_and_merges_do_not_matter() {
    splits_and_merges(5000);
}

/// Copies are made until so many pages were merged.
fn splits_and_merges(merges: u64) {
    let engine = engine();
    let (stay, go) = (keys(0, 20_000), keys(20_000, 100_000));
    set_all(&engine, &stay);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (of_thread, over, go) = (&engine, &over, &go);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                set_all(of_thread, go);
                delete_all(of_thread, go.keys());
                of_thread.sweep().expect("swept");
            }
        });
        let _end = AtEnd(over);
        let (begin, before) = (Instant::now(), page_merges(&engine));
        while page_merges(&engine) < before + merges {
            assert!(
                begin.elapsed() < Duration::from_secs(merges),
                "pages are merged"
            );
            let mut copy = all(&engine);
            copy.retain(|key, _| !go.contains_key(key));
            assert!(copy == stay);
        }
    });
}

#[test]
fn a_snapshot_that_ends_leaves_no_file() {
    let engine = Engine::create(&bpfdb::Options {
        memory_limit: 128 << 20,
        versions: 1,
        snapshot_max_age: Duration::from_millis(1),
        ..bpfdb::Options::default()
    })
    .expect("an engine");
    let data = (0..10_000_u32).map(|n| (n.to_le_bytes().to_vec(), (vec![1], None)));
    set_all(&engine, &data.collect());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("copy");
    for form in FORMS {
        let snapshot = Snapshot::take(&engine).expect("a snapshot");
        let mut session = engine.session().expect("a session");
        let outcome = dump_file(snapshot, form, &path, &mut |_| {
            // In the way of the snapshot, until it is old enough.
            let begin = Instant::now();
            for key in 0..10_000_u32 {
                while session.set(&key.to_le_bytes(), &[2]).is_err() {
                    assert!(begin.elapsed() < Duration::from_secs(60), "it ends");
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(())
        });
        assert!(
            matches!(outcome, Err(Error::Snapshot(Status::SnapshotTooOld))),
            "{outcome:?}"
        );
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    }
}
