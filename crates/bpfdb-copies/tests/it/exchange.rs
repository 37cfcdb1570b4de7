//! An engine's data to Redis and back, into a log, and a million keys of it.

use crate::it::common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bpfdb::Engine;
use bpfdb_copies::{
    Error, Existing, Format, Loaded, Options, Snapshot, VerifiedCopy, dump_file, load_rdb, save_rdb,
};
use common::engine::{all, engine, file, keys, load, set_all};
use common::redis::{Redis, servers};
use common::{FORMS, boundaries, noise, written};

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
fn files_of_redis_with_more_than_there_is_here() {
    let engine = engine();
    let mut redis = Redis::start_with(Path::new("redis-server"), None, &["--databases", "20"]);
    redis.say("SET string 1");
    redis.say("XADD stream 1-1 field value");
    redis.say("SELECT 2");
    redis.say("SET two 2");
    redis.say("SELECT 16");
    redis.say("SET more 3");
    // Compressed in the file.
    redis.say("SELECT 3");
    redis.say(&format!("SET {} long", "k".repeat(100_000)));
    redis.say("SET short 4");
    let (_folder, path) = file(&redis.saved());
    let outcome = |skip_long_keys, database| {
        let options = Options {
            existing: Existing::Flush,
            skip_long_keys,
            database,
            ..Options::default()
        };
        VerifiedCopy::open(&path, options)?.load(&engine, &mut |_| Ok(()))
    };
    let refused = |outcome: Result<Loaded, Error>| match outcome {
        Err(Error::Refused(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(refused(outcome(true, None)).contains("1 keys in databases beyond 15"));
    let text = refused(outcome(false, Some(3)));
    assert!(text.contains("100000 bytes, in database 3"), "{text}");
    for (database, keys) in [
        (0, &[&b"stream"[..], b"string"][..]),
        (2, &[b"two"]),
        (3, &[b"short"]),
    ] {
        outcome(true, Some(database)).expect("loaded");
        assert!(all(&engine).into_keys().eq(keys.iter().copied()));
    }
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
