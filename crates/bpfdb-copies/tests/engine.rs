//! Copies of an engine's data: at one moment, whatever others do meanwhile.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status};
use bpfdb_copies::{
    Error, Existing, Format, Loaded, Options, Snapshot, VerifiedCopy, dump_file, dump_to, load_rdb,
    save_rdb,
};
use common::redis::{Redis, servers};
use common::{Collected, FORMS, Value, boundaries, collect, noise, written};

fn engine() -> Engine {
    Engine::create(&bpfdb::Options {
        memory_limit: 512 << 20,
        ..bpfdb::Options::default()
    })
    .expect("an engine")
}

fn set_all(engine: &Engine, data: &BTreeMap<Vec<u8>, Value>) {
    let mut session = engine.session().expect("a session");
    for (key, (value, expires_at)) in data {
        session.set_entry(key, value, *expires_at).expect("set");
    }
}

/// Everything, as a snapshot gives it.
fn all(engine: &Engine) -> BTreeMap<Vec<u8>, Value> {
    let mut collected = Collected::default();
    let snapshot = Snapshot::take(engine).expect("a snapshot");
    let keys = snapshot
        .copy_to(&mut collected, &mut |_| Ok(()))
        .expect("a copy");
    let data = collected.whole();
    assert_eq!(keys, data.len() as u64);
    data
}

fn dumped(engine: &Engine, form: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    let snapshot = Snapshot::take(engine).expect("a snapshot");
    dump_to(snapshot, form, &mut bytes, &mut |_| Ok(())).expect("a copy");
    bytes
}

fn load(engine: &Engine, path: &Path, existing: Existing) -> Result<Loaded, Error> {
    let options = Options {
        existing,
        ..Options::default()
    };
    VerifiedCopy::open(path, options)?.load(engine, &mut |_| Ok(()))
}

/// A file with these bytes, as long as the folder is there.
fn file(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("copy");
    fs::write(&path, bytes).expect("written");
    (folder, path)
}

#[test]
fn what_is_dumped_is_restored() {
    let mut data = boundaries();
    data.insert(b"large".to_vec(), (noise(5_000_001, 2), None));
    let (from, to) = (engine(), engine());
    set_all(&from, &data);
    for form in FORMS {
        let (_folder, path) = file(&dumped(&from, form));
        let loaded = load(&to, &path, Existing::Flush).expect("loaded");
        assert_eq!(loaded.written, data.len() as u64);
        assert!(all(&to) == data, "{form:?}");
    }
}

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

/// So many keys from `first` on.
fn keys(first: u32, count: u32) -> BTreeMap<Vec<u8>, Value> {
    let names = (first..first + count).map(|n| n.to_string().into_bytes());
    names.map(|name| (name.clone(), (name, None))).collect()
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
    let engine = engine();
    // So many that steps end after so many keys, in the middle of what becomes one bucket.
    let (stay, go) = (keys(0, 60_000), keys(60_000, 200_000));
    set_all(&engine, &stay);
    for step in 0..8 {
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
    const MERGES: u64 = 200;
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
        while page_merges(&engine) < before + MERGES {
            assert!(
                begin.elapsed() < Duration::from_secs(120),
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

#[test]
fn what_an_interrupt_leaves() {
    let engine = engine();
    let data: BTreeMap<_, _> = (0..10_000_u32)
        .map(|n| (n.to_le_bytes().to_vec(), (vec![1], None)))
        .collect();
    set_all(&engine, &data);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("copy");
    let snapshot = Snapshot::take(&engine).expect("a snapshot");
    let mut stop = |_| Err(Error::Interrupted);
    let outcome = dump_file(snapshot, Format::Binary, &path, &mut stop);
    assert!(matches!(outcome, Err(Error::Interrupted)));
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);

    let (_folder, path) = file(&dumped(&engine, Format::Jsonl));
    let options = Options {
        existing: Existing::Flush,
        ..Options::default()
    };
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    match copy.load(&engine, &mut stop) {
        Err(Error::Unfinished { written, cause }) => {
            assert!(matches!(*cause, Error::Interrupted));
            assert_eq!(all(&engine).len() as u64, written);
            assert!((1..10_000).contains(&written));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_there_stays_or_gives_way() {
    let engine = engine();
    let value = |text: &str| (text.as_bytes().to_vec(), None);
    let old = BTreeMap::from([(b"a".to_vec(), value("old")), (b"b".to_vec(), value("old"))]);
    let new = BTreeMap::from([(b"b".to_vec(), value("new")), (b"c".to_vec(), value("new"))]);
    let (_folder, path) = file(&written(Format::Jsonl, &new, 9));

    set_all(&engine, &old);
    assert!(matches!(
        load(&engine, &path, Existing::Refuse),
        Err(Error::Refused(_))
    ));
    assert!(all(&engine) == old);

    load(&engine, &path, Existing::Replace).expect("loaded");
    let mut both = old;
    both.extend(new.clone());
    assert!(all(&engine) == both);

    load(&engine, &path, Existing::Flush).expect("loaded");
    assert!(all(&engine) == new);
}

#[test]
fn nothing_happens_with_a_file_that_is_not_right() {
    let engine = engine();
    let old = BTreeMap::from([(b"a".to_vec(), (b"old".to_vec(), None))]);
    set_all(&engine, &old);
    for form in FORMS {
        let bytes = written(form, &boundaries(), usize::MAX);
        let mut damaged = bytes.clone();
        damaged[bytes.len() - 40] ^= 4;
        for bad in [&bytes[..bytes.len() - 1], &damaged] {
            let (_folder, path) = file(bad);
            for existing in [Existing::Flush, Existing::Replace, Existing::Refuse] {
                let outcome = load(&engine, &path, existing);
                assert!(matches!(
                    outcome,
                    Err(Error::Cut { .. } | Error::Damaged { .. })
                ));
                assert!(all(&engine) == old);
            }
        }
    }
}

#[test]
fn what_was_verified_is_what_is_loaded() {
    let engine = engine();
    let (one, other) = (keys(0, 1000), keys(1000, 1000));
    let (folder, path) = file(&written(Format::Binary, &one, usize::MAX));
    let options = Options::default();
    // Another file takes its name.
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    let new = folder.path().join("new");
    fs::write(&new, written(Format::Binary, &other, usize::MAX)).expect("written");
    fs::rename(&new, &path).expect("renamed");
    copy.load(&engine, &mut |_| Ok(())).expect("loaded");
    assert!(all(&engine) == one);

    // It is written over: nothing of a damaged block is loaded.
    let options = Options {
        existing: Existing::Flush,
        ..options
    };
    let mut copy = VerifiedCopy::open(&path, options).expect("right");
    let mut bytes = fs::read(&path).expect("read");
    bytes[100] ^= 1;
    fs::write(&path, bytes).expect("written");
    match copy.load(&engine, &mut |_| Ok(())) {
        Err(Error::Unfinished { written: 0, cause }) => {
            assert!(matches!(*cause, Error::Damaged { offset: 64, .. }));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_has_expired_is_left_out() {
    let engine = engine();
    let now = engine.now_ms();
    let data = BTreeMap::from([
        (b"over".to_vec(), (b"1".to_vec(), Some(now - 1))),
        (b"long over".to_vec(), (noise(100_000, 1), Some(1))),
        (b"lasts".to_vec(), (b"1".to_vec(), Some(now + 3_600_000))),
        (b"stays".to_vec(), (b"1".to_vec(), None)),
    ]);
    for form in FORMS {
        let (_folder, path) = file(&written(form, &data, 9));
        let loaded = load(&engine, &path, Existing::Flush).expect("loaded");
        assert_eq!((loaded.written, loaded.expired), (2, 2));
        let mut left = data.clone();
        left.retain(|key, _| !key.ends_with(b"over"));
        assert!(all(&engine) == left);
    }
}

/// A key that somebody has locked is written when the lock is gone; others are not kept back.
#[test]
fn locks_are_waited_for() {
    let engine = engine();
    let data: BTreeMap<_, _> = (0..100_u8).map(|n| (vec![n], (vec![n], None))).collect();
    let (_folder, path) = file(&written(Format::Binary, &data, 9));
    let mut session = engine.session().expect("a session");
    session.begin().expect("begun");
    session.set(&[50], b"locked").expect("set");
    thread::scope(|scope| {
        let loading = scope.spawn(|| load(&engine, &path, Existing::Replace));
        thread::sleep(Duration::from_millis(200));
        assert!(!loading.is_finished());
        session.commit().expect("committed");
        assert_eq!(
            loading.join().expect("no panic").expect("loaded").written,
            100
        );
    });
    assert!(all(&engine) == data);
}

/// The log's rings are small, so that a restore has to wait for the disk.
#[test]
fn what_is_restored_is_in_the_log() {
    let with_log = || {
        Engine::create(&bpfdb::Options {
            memory_limit: 256 << 20,
            log_ring: 1 << 20,
            ..bpfdb::Options::default()
        })
        .expect("an engine")
    };
    let mut data = keys(0, 60_000);
    data.extend(boundaries());
    data.insert(b"large".to_vec(), (noise(5_000_000, 2), None));
    let (folder, path) = file(&written(Format::Binary, &data, usize::MAX));
    let log = folder.path().join("log");
    let start = |engine: &Engine| {
        let directory = bpfdb_log::Directory::own(&log).expect("nobody else has it");
        let options = bpfdb_durability::Options {
            interval: Duration::from_millis(5),
            ..bpfdb_durability::Options::default()
        };
        let (durability, _) =
            bpfdb_durability::Durability::start(engine, directory, options).expect("a log");
        durability
    };
    let first = with_log();
    let durability = start(&first);
    load(&first, &path, Existing::Refuse).expect("loaded");
    drop(durability);
    let second = with_log();
    let _durability = start(&second);
    assert!(all(&second) == data);
}

#[test]
fn memory_that_runs_out_is_told() {
    let engine = Engine::create(&bpfdb::Options {
        memory_limit: 32 << 20,
        ..bpfdb::Options::default()
    })
    .expect("an engine");
    let data: BTreeMap<_, _> = (0..100_u8)
        .map(|n| (vec![n], (noise(1 << 20, 3), None)))
        .collect();
    let (_folder, path) = file(&written(Format::Rdb, &data, usize::MAX));
    match load(&engine, &path, Existing::Refuse) {
        Err(Error::Unfinished { written, cause }) => {
            assert!(matches!(
                *cause,
                Error::Write {
                    status: Status::OutOfMemory,
                    ..
                }
            ));
            assert_eq!(all(&engine).len() as u64, written);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn redis_and_back() {
    let mut data = boundaries();
    data.insert(b"large".to_vec(), (noise(3_000_000, 2), None));
    for server in servers() {
        let (from, to) = (engine(), engine());
        set_all(&from, &data);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ours.rdb");
        save_rdb(&from, &path).expect("saved");
        let bytes = fs::read(&path).expect("read");
        let mut redis = Redis::start_with(&server, Some(&bytes), &[]);
        redis.say("APPEND text-of-redis it-has-everything");
        fs::write(&path, redis.saved()).expect("written");
        load_rdb(&to, &path).expect("loaded");
        let mut wanted = data.clone();
        wanted.insert(
            b"text-of-redis".to_vec(),
            (b"it-has-everything".to_vec(), None),
        );
        assert!(all(&to) == wanted);
    }
}

#[test]
fn files_of_redis_with_more_than_strings() {
    let engine = engine();
    let mut redis = Redis::start(Path::new("redis-server"));
    redis.say("SET string 1");
    redis.say("RPUSH list 1 2");
    redis.say("SELECT 2");
    redis.say("SET two 2");
    let (_folder, path) = file(&redis.saved());
    let outcome = |skip_other_types, database| {
        let options = Options {
            existing: Existing::Flush,
            skip_other_types,
            database,
        };
        VerifiedCopy::open(&path, options)?.load(&engine, &mut |_| Ok(()))
    };
    let refused = |outcome: Result<Loaded, Error>| match outcome {
        Err(Error::Refused(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(refused(outcome(false, Some(0))).contains("1 of list"));
    assert!(refused(outcome(true, None)).contains("1 keys in databases other than 0"));
    for (database, key) in [(0, &b"string"[..]), (2, b"two")] {
        outcome(true, Some(database)).expect("loaded");
        assert!(all(&engine).into_keys().eq([key]));
    }
}

/// A million keys, and 100 MiB in large values; figures go to standard error.
#[test]
#[ignore = "soak: a minute"]
fn soak_a_million_keys() {
    const KEYS: u32 = 1_000_000;
    let new = || {
        Engine::create(&bpfdb::Options {
            memory_limit: 2 << 30,
            ..bpfdb::Options::default()
        })
        .expect("an engine")
    };
    let from = new();
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = from.session().expect("a session");
    for n in 0..KEYS {
        let key = format!("key:{n:012}");
        session
            .set(key.as_bytes(), format!("value {n}").as_bytes())
            .expect("set");
    }
    for n in 0..4_u8 {
        session.set(&[n], &noise(25 << 20, n.into())).expect("set");
    }
    let wanted = all(&from);
    assert_eq!(wanted.len(), KEYS as usize + 4);
    for form in FORMS {
        let path = folder.path().join("copy");
        let begin = Instant::now();
        let snapshot = Snapshot::take(&from).expect("a snapshot");
        dump_file(snapshot, form, &path, &mut |_| Ok(())).expect("a copy");
        let dumped = begin.elapsed();
        let bytes = fs::metadata(&path).expect("a file").len();
        let to = new();
        let begin = Instant::now();
        load(&to, &path, Existing::Refuse).expect("loaded");
        eprintln!(
            "{form:?}: {bytes} bytes, dump {dumped:?}, restore {:?}",
            begin.elapsed()
        );
        assert!(all(&to) == wanted);
    }
}
