//! Files of Redis: what it saves is read, and what is written it loads. With the redis-server
//! that is installed, and with Redis 8 if there is one ([`common::redis::servers`]).

use crate::it::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use bpfdb::ValueType;
use bpfdb_copies::rdb::payload;
use bpfdb_copies::{Choice, Format, read};
use bpfdb_values::run;
use common::redis::{Redis, Reply, redis_8, servers};
use common::{
    Collected, Typed, Value, boundaries, collect, collect_typed, entries, noise, written,
    written_typed,
};

fn fill(redis: &mut Redis, data: &BTreeMap<Vec<u8>, Value>) {
    for (key, (value, expires_at)) in data {
        redis.ask(&[b"SET", key, value]);
        if let Some(time) = expires_at {
            redis.ask(&[b"PEXPIREAT", key, time.to_string().as_bytes()]);
        }
    }
}

fn compare(redis: &mut Redis, data: &BTreeMap<Vec<u8>, Value>) {
    assert_eq!(redis.say("DBSIZE"), Reply::Number(data.len() as i64));
    for (key, (value, expires_at)) in data {
        let name = key.escape_ascii();
        assert!(
            redis.ask(&[b"GET", key]) == Reply::Bytes(value.clone()),
            "{name}"
        );
        let time = expires_at.map_or(-1, |time| time as i64);
        assert_eq!(
            redis.ask(&[b"PEXPIRETIME", key]),
            Reply::Number(time),
            "{name}"
        );
    }
}

/// Values that Redis compresses: long, of different kinds, some with little to gain.
fn compressible() -> BTreeMap<Vec<u8>, Value> {
    let far = Some(4_000_000_000_000);
    let words: Vec<u8> = (0..40_000_u32)
        .flat_map(|i| format!("word{} ", i % 700).into_bytes())
        .collect();
    let mut mixed = noise(9000, 5);
    mixed.extend_from_slice(&b"z".repeat(20_000));
    mixed.extend_from_slice(&noise(9000, 5));
    mixed.extend_from_slice(&b"ab".repeat(200_000));
    BTreeMap::from([
        (b"zeros".to_vec(), (vec![0; 1_000_000], None)),
        (b"21".repeat(200), (b"21".repeat(20), far)),
        (b"words".to_vec(), (words, None)),
        (b"mixed".to_vec(), (mixed, far)),
    ])
}

#[test]
fn what_redis_saves_is_read() {
    let mut data = boundaries();
    data.extend(compressible());
    for server in servers() {
        for compression in ["yes", "no"] {
            let mut redis = Redis::start(&server);
            redis.say(&format!("CONFIG SET rdbcompression {compression}"));
            fill(&mut redis, &data);
            let bytes = redis.saved();
            assert_eq!(
                bytes.len() < 4_000_000,
                compression == "yes",
                "{}",
                bytes.len()
            );
            let (read, contents) = collect(&bytes).expect("right");
            assert!(read == data);
            assert!(!contents.is_unchecked);
            assert!(contents.time > Some(1_600_000_000_000));
        }
    }
}

#[test]
fn what_is_written_redis_loads() {
    let mut data = boundaries();
    data.extend(compressible());
    let bytes = written(Format::Rdb, &data, 5000);
    for server in servers() {
        let mut redis = Redis::start_with(&server, Some(&bytes), &[]);
        compare(&mut redis, &data);
        // And again as Redis writes it.
        let (read, _) = collect(&redis.saved()).expect("right");
        assert!(read == data);
    }
}

#[test]
fn redis_check_rdb_finds_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("copy.rdb");
    fs::write(&file, written(Format::Rdb, &boundaries(), 5000)).expect("written");
    let output = Command::new("redis-check-rdb")
        .arg(&file)
        .output()
        .expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\\o/ RDB looks OK! \\o/"), "{text}");
}

/// Keys of every type, in every encoding that the settings lead to.
fn every_type(redis: &mut Redis, prefix: &str) {
    let mut say = |command: &str| redis.say(&command.replace('@', prefix));
    say("RPUSH @list a 2 300 70000 -1");
    say("SADD @numbers 1 2 70000");
    say("SADD @set a b 1");
    say("ZADD @sorted 1 a 2.5 b inf c -inf d");
    say("HSET @hash field value other 12");
    say("XADD @stream 1-1 field value");
    say("XADD @stream 2-1 field other");
    say("XGROUP CREATE @stream group 0");
    say("XREADGROUP GROUP group consumer COUNT 1 STREAMS @stream >");
    say("XDEL @stream 2-1");
    let long: String = noise(4000, 11)
        .iter()
        .map(|byte| (b'a' + byte % 26) as char)
        .collect();
    say(&format!("RPUSH @long {long} {long} b"));
    for i in 0..300 {
        say(&format!("HSET @large f{i} {i}"));
        say(&format!("ZADD @scores {i}.25 m{i}"));
        say(&format!("SADD @members m{i}"));
        say(&format!("RPUSH @elements e{i}"));
    }
}

/// Settings after which small values are no lists of bytes.
const TABLES: [&str; 5] = [
    "CONFIG SET hash-max-listpack-entries 0",
    "CONFIG SET zset-max-listpack-entries 0",
    "CONFIG SET set-max-intset-entries 0",
    "CONFIG SET list-max-listpack-size 1",
    "CONFIG SET list-compress-depth 1",
];

/// Everything that a file can have beside strings, and two of these around it.
fn everything(server: &Path, is_8: bool) -> Redis {
    let mut redis = Redis::start(server);
    redis.say("SET first 1");
    redis.say("CONFIG SET maxmemory-policy allkeys-lfu");
    every_type(&mut redis, "small-");
    redis.ask(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=library\nredis.register_function('f', function() return 1 end)",
    ]);
    if is_8 {
        redis.say("HPEXPIREAT small-hash 4000000000000 FIELDS 1 field");
    }
    for setting in TABLES {
        redis.say(setting);
    }
    every_type(&mut redis, "table-");
    if is_8 {
        redis.say("HPEXPIREAT table-hash 4000000000000 FIELDS 1 field");
    }
    redis.say("CONFIG SET maxmemory-policy allkeys-lru");
    redis.say("SET last 2");
    redis.say("PEXPIREAT last 4000000000000");
    redis
}

fn strings() -> BTreeMap<Vec<u8>, Value> {
    BTreeMap::from([
        (b"first".to_vec(), (b"1".to_vec(), None)),
        (b"last".to_vec(), (b"2".to_vec(), Some(4_000_000_000_000))),
    ])
}

/// What Redis has under a key, as a run has it; `None`: a type that bpfdb does not have.
fn of_redis(redis: &mut Redis, key: &[u8]) -> Option<(ValueType, Entries)> {
    let Reply::Bytes(name) = redis.ask(&[b"TYPE", key]) else {
        panic!("a type");
    };
    let mut strings = |words: &[&[u8]]| match redis.ask(words) {
        Reply::Many(all) => all
            .into_iter()
            .map(|one| match one {
                Reply::Bytes(bytes) => bytes,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>(),
        Reply::Bytes(value) => vec![value],
        other => panic!("{other:?}"),
    };
    let alone = |all: Vec<Vec<u8>>| all.into_iter().map(|one| (one, Vec::new())).collect();
    let pairs = |all: Vec<Vec<u8>>| {
        let pairs = all.chunks_exact(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect::<Entries>()
    };
    Some(match &name[..] {
        b"string" => (ValueType::STRING, alone(strings(&[b"GET", key]))),
        b"list" => (
            ValueType::LIST,
            alone(strings(&[b"LRANGE", key, b"0", b"-1"])),
        ),
        b"set" => (ValueType::SET, alone(strings(&[b"SMEMBERS", key]))),
        b"hash" => (ValueType::HASH, pairs(strings(&[b"HGETALL", key]))),
        b"zset" => {
            let mut members = pairs(strings(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]));
            for (_, score) in &mut members {
                let text = std::str::from_utf8(score).expect("text");
                let number: f64 = text.parse().expect("a score");
                *score = run::stored(number).to_le_bytes().into();
            }
            (ValueType::SORTED_SET, members)
        }
        _ => return None,
    })
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The same of what was read. Tables have no order.
fn in_order(kind: ValueType, mut entries: Entries) -> Entries {
    if matches!(kind, ValueType::HASH | ValueType::SET) {
        entries.sort();
    }
    entries
}

fn compare_typed(redis: &mut Redis, read: &BTreeMap<Vec<u8>, Typed>) {
    for (key, (kind, value, _)) in read {
        if *kind == ValueType::STREAM {
            let state = bpfdb_values::stream::value::read_state(value).expect("a stream");
            let length = Reply::Number(state.length as i64);
            assert_eq!(redis.ask(&[b"XLEN", key]), length);
            continue;
        }
        let (of_redis, wanted) = of_redis(redis, key).expect("a type of ours");
        let found = match *kind {
            ValueType::STRING => vec![(value.clone(), Vec::new())],
            _ => entries(value),
        };
        let name = key.escape_ascii();
        assert_eq!(*kind, of_redis, "{name}");
        assert!(in_order(*kind, found) == in_order(*kind, wanted), "{name}");
    }
}

#[test]
fn every_type_is_read_or_counted() {
    for server in servers() {
        let is_8 = Some(&server) == redis_8().as_ref();
        let mut redis = everything(&server, is_8);
        for policy in ["allkeys-lru", "allkeys-lfu", "noeviction"] {
            redis.say(&format!("CONFIG SET maxmemory-policy {policy}"));
            let (mut read, contents) = collect_typed(&redis.saved()).expect("right");
            let (_, functions, _) = read.remove(bpfdb::FUNCTIONS_KEY).expect("functions");
            let texts = bpfdb_copies::rdb::functions::decode(&functions).expect("libraries");
            assert_eq!((texts.len(), contents.functions), (1, 1));
            let mut others = BTreeMap::new();
            if is_8 {
                others.insert("hash with fields that expire", 2);
            }
            let left_out: u64 = others.values().sum();
            assert_eq!(contents.other_types, others);
            // Eleven keys with either prefix, and two strings.
            assert_eq!(read.len() as u64, 2 * 11 + 2 - left_out);
            compare_typed(&mut redis, &read);
            for (key, value) in strings() {
                assert_eq!(read[&key], (ValueType::STRING, value.0, value.1));
            }
        }
    }
}

/// As keys of the same value and encoding, by a file and by RESTORE.
#[test]
fn every_type_comes_back_to_redis() {
    for server in servers() {
        let mut redis = everything(Path::new("redis-server"), false);
        let (mut read, _) = collect_typed(&redis.saved()).expect("right");
        read.remove(bpfdb::FUNCTIONS_KEY);
        let bytes = written_typed(Format::Rdb, &read, 1000);
        let mut loaded = Redis::start_with(&server, Some(&bytes), &[]);
        let mut restored = Redis::start(&server);
        for (key, (kind, value, _)) in &read {
            let payload = payload::encode_typed(*kind, value).expect("a run");
            restored.ask(&[b"RESTORE", key, b"0", &payload]);
        }
        for other in [&mut loaded, &mut restored] {
            assert_eq!(other.say("DBSIZE"), Reply::Number(read.len() as i64));
            compare_typed(other, &read);
        }
        // Those whose settings are the defaults have the encoding that they had.
        for key in read.keys().filter(|key| key.starts_with(b"small-")) {
            let ask = |redis: &mut Redis| redis.ask(&[b"OBJECT", b"ENCODING", key]);
            let (one, two) = (ask(&mut loaded), ask(&mut restored));
            assert_eq!(one, two, "{}", key.escape_ascii());
            if server == Path::new("redis-server") {
                assert_eq!(one, ask(&mut redis), "{}", key.escape_ascii());
            }
        }
    }
}

/// A list whose nodes end where those of RPUSH do, and all that DUMP gives without compression.
#[test]
fn payloads_are_those_of_redis() {
    let mut redis = Redis::start(Path::new("redis-server"));
    redis.say("CONFIG SET rdbcompression no");
    every_type(&mut redis, "");
    for number in 0..5000 {
        redis.say(&format!("RPUSH numbers-in-a-list {}", number * 37));
    }
    for len in [8000, 150, 9000, 1, 8192] {
        redis.ask(&[b"RPUSH", b"long-elements", &vec![b'x'; len]]);
    }
    let keys = [
        "list",
        "long",
        "elements",
        "numbers-in-a-list",
        "long-elements",
        "numbers",
        "set",
        "members",
        "hash",
        "large",
        "sorted",
        "scores",
    ];
    for key in keys {
        let Reply::Bytes(wanted) = redis.say(&format!("DUMP {key}")) else {
            panic!("{key}");
        };
        let (kind, value) = payload::decode(&wanted).expect("right");
        let found = payload::encode_typed(kind, &value).expect("a run");
        assert!(found == wanted, "{key}");
        redis.ask(&[b"RESTORE", b"again", b"0", &found, b"REPLACE"]);
        let digest = |redis: &mut Redis, key: &str| redis.say(&format!("DEBUG DIGEST-VALUE {key}"));
        assert_eq!(
            digest(&mut redis, "again"),
            digest(&mut redis, key),
            "{key}"
        );
    }
}

#[test]
fn one_database_is_taken() {
    for server in servers() {
        let mut redis = Redis::start(&server);
        redis.say("SET zero 0");
        redis.say("SELECT 3");
        redis.say("SET three 3");
        redis.say("PEXPIREAT three 4000000000000");
        redis.say("XADD stream 1-1 field value");
        let bytes = redis.saved();
        let names = [(0, &["zero"][..], 2), (3, &["stream", "three"], 1)];
        for (database, expected, others) in names {
            let mut collected = Collected::default();
            let (_, contents) = read(
                &bytes[..],
                Choice {
                    database: Some(database),
                    ..Choice::default()
                },
                &mut collected,
            )
            .expect("right");
            let names: Vec<_> = collected.whole().into_keys().collect();
            let expected = expected.iter().map(|name| name.as_bytes());
            assert!(names.iter().map(Vec::as_slice).eq(expected), "{names:?}");
            assert_eq!(contents.other_databases, others);
            assert!(contents.other_types.is_empty());
        }
    }
}

#[test]
fn a_file_without_a_checksum_says_so() {
    let mut redis = Redis::start_with(Path::new("redis-server"), None, &["--rdbchecksum", "no"]);
    redis.say("SET a 1");
    let (_, contents) = collect(&redis.saved()).expect("right");
    assert!(contents.is_unchecked);
}

/// Makes the files of tests/corpus anew.
#[test]
#[ignore = "writes into the source"]
fn write_the_corpus() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus"));
    fs::create_dir_all(folder).expect("a folder");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).expect("written");
    let mut data = strings();
    data.insert(vec![0xff, 0xfe], (b"compress me ".repeat(20), None));
    data.insert(b"number".to_vec(), (b"-70000".to_vec(), Some(1)));
    for (form, name) in [
        (Format::Jsonl, "own.jsonl"),
        (Format::Binary, "own.bpfdb"),
        (Format::Rdb, "own.rdb"),
    ] {
        write(name, &written(form, &data, 7));
    }
    let redis_8 = redis_8().expect("Redis 8: make bench installs it, or BPFDB_REDIS_8 names it");
    for (server, version) in [(Path::new("redis-server"), 7), (&redis_8, 8)] {
        let mut redis = Redis::start(server);
        fill(&mut redis, &data);
        redis.say("SET number -70000");
        write(&format!("strings-{version}.rdb"), &redis.saved());
        let mut redis = everything(server, version == 8);
        for key in ["large", "scores", "members", "elements", "long"] {
            redis.say(&format!("DEL small-{key} table-{key}"));
        }
        write(&format!("types-{version}.rdb"), &redis.saved());
        redis.say("CONFIG SET maxmemory-policy allkeys-lfu");
        redis.say("SELECT 5");
        redis.say("SET five 5");
        write(&format!("databases-{version}.rdb"), &redis.saved());
    }
}
