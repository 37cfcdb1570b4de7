//! Collections that grow beyond each limit there is, step by step, and shrink again: 128 entries, 64
//! bytes, 512 integers (Redis's compact encodings), 255 bytes (of bpfdb's narrow runs), 32 KiB (what
//! lies in a slot) and 1 MiB. What both servers say is the same all the way.

use std::ops::Range;

use super::case::{CONNECTIONS, Case, Step};
use super::words::Words;
use super::{Pair, Redis, Rival};

struct Growing {
    name: &'static str,
    /// Writes the element of this number, of so many bytes.
    put: fn(number: usize, len: usize) -> String,
    drop: fn(number: usize) -> String,
    /// What is asked again and again; some of it writes.
    looks: &'static [&'static str],
}

const KINDS: &[Growing] = &[
    Growing {
        name: "hash",
        put: |number, len| format!("HSET hash:1 f{number} {}", filler(number, len)),
        drop: |number| format!("HDEL hash:1 f{number}"),
        looks: &[
            "HLEN hash:1",
            "OBJECT ENCODING hash:1",
            "HGETALL hash:1",
            "HKEYS hash:1",
            "HMGET hash:1 f0 f1 f127 f128 f129 absent",
            "HSTRLEN hash:1 f3",
            "HINCRBY hash:1 count 7",
            "HINCRBYFLOAT hash:1 float 0.25",
            "HSETNX hash:1 f1 other",
            "HEXISTS hash:1 f130",
            "COPY hash:1 hash:2 REPLACE",
            "HDEL hash:2 f0 f1",
            "HLEN hash:2",
        ],
    },
    Growing {
        name: "list",
        put: |number, len| {
            let end = if number.is_multiple_of(3) { "L" } else { "R" };
            format!("{end}PUSH list:1 {}", filler(number, len))
        },
        drop: |number| {
            let end = if number.is_multiple_of(2) { "L" } else { "R" };
            format!("{end}POP list:1")
        },
        looks: &[
            "LLEN list:1",
            "OBJECT ENCODING list:1",
            "LRANGE list:1 0 -1",
            "LRANGE list:1 -7 -2",
            "LINDEX list:1 64",
            "LINDEX list:1 -1",
            "LPOS list:1 5 COUNT 0",
            "LPOS list:1 5 RANK -1",
            "LINSERT list:1 BEFORE 5 inserted",
            "LSET list:1 1 replaced",
            "LREM list:1 -1 inserted",
            "LMOVE list:1 list:1 LEFT RIGHT",
            "RPOPLPUSH list:1 list:2",
            "LRANGE list:2 0 -1",
        ],
    },
    Growing {
        name: "set",
        put: |number, len| format!("SADD set:1 {}", filler(number, len)),
        drop: |number| format!("SREM set:1 {}", filler(number, 0)),
        looks: &[
            "SCARD set:1",
            "OBJECT ENCODING set:1",
            "SMEMBERS set:1",
            "SMISMEMBER set:1 0 1 127 128 129 512 absent",
            "SADD set:2 1 2 3 600 other",
            "SINTER set:1 set:2",
            "SDIFFSTORE set:2 set:1 set:2",
            "SINTERCARD 2 set:1 set:2 LIMIT 100",
            "SMOVE set:1 set:2 1",
            "SMOVE set:2 set:1 1",
            "OBJECT ENCODING set:2",
        ],
    },
    Growing {
        name: "sorted set",
        put: |number, len| {
            let score = (number * 7 % 50) as f64 / 4.0;
            format!("ZADD zset:1 {score} {}", filler(number, len))
        },
        drop: |number| format!("ZREM zset:1 {}", filler(number, 0)),
        looks: &[
            "ZCARD zset:1",
            "OBJECT ENCODING zset:1",
            "ZRANGE zset:1 0 -1 WITHSCORES",
            "ZRANGE zset:1 (3 +inf BYSCORE LIMIT 5 10 WITHSCORES",
            "ZREVRANGE zset:1 3 9",
            "ZREVRANGEBYSCORE zset:1 9.5 (2 LIMIT 3 4",
            "ZCOUNT zset:1 2 (9",
            "ZRANK zset:1 64",
            "ZREVRANK zset:1 64",
            "ZSCORE zset:1 128",
            "ZINCRBY zset:1 -0.5 count",
            "ZUNIONSTORE zset:2 2 zset:1 zset:2 WEIGHTS 1 0.5",
            "ZREMRANGEBYRANK zset:2 10 20",
            "OBJECT ENCODING zset:2",
            "ZPOPMIN zset:2 2",
        ],
    },
];

/// The number alone, or made longer.
fn filler(number: usize, len: usize) -> String {
    let number = number.to_string();
    let rest = len.saturating_sub(number.len());
    number + &"x".repeat(rest)
}

/// Numbers of elements and their bytes (0: those of the number alone), on both sides of each limit.
fn phases() -> Vec<(Range<usize>, usize)> {
    vec![
        (0..127, 0),
        (127..128, 0),
        (128..129, 0),
        (129..511, 0),
        (511..512, 0),
        (512..514, 0),
        (514..515, 64),
        (515..516, 65),
        (516..517, 255),
        (517..518, 256),
        (518..1000, 70),
        (1000..1060, 20_000),
    ]
}

/// Long elements in a collection that is small in number.
fn few_and_long() -> Vec<(Range<usize>, usize)> {
    vec![
        (0..2, 0),
        (2..3, 64),
        (3..4, 65),
        (4..5, 255),
        (5..6, 256),
        (6..7, 40_000),
        (7..8, 1_200_000),
    ]
}

fn step(line: &str) -> Step {
    Step::new(line.split(' ').map(|word| word.into()).collect::<Words>())
}

fn grown(kind: &Growing, phases: Vec<(Range<usize>, usize)>, resp3: bool) -> Case {
    let mut steps = Vec::new();
    let looks = || kind.looks.iter().map(|look| step(look));
    let mut last = 0;
    for (numbers, len) in phases {
        last = numbers.end;
        steps.extend(numbers.map(|number| step(&(kind.put)(number, len))));
        steps.extend(looks());
    }
    // Of a set and a sorted set, those go whose names are numbers.
    for numbers in [0..last / 2, last / 2..last - 1, last - 1..last] {
        steps.extend(numbers.map(|number| step(&(kind.drop)(number))));
        steps.extend(looks());
    }
    Case {
        resp3: [resp3; CONNECTIONS],
        pipelines: vec![20; steps.len()],
        pieces: Vec::new(),
        steps,
    }
}

fn compare(mut pair: Pair) {
    for kind in KINDS {
        for (phases, resp3) in [(phases(), false), (few_and_long(), true)] {
            let checked = pair.check(&grown(kind, phases, resp3));
            if let Err(failure) = checked {
                panic!("{}, RESP3 {resp3}: {}", kind.name, failure.message);
            }
        }
    }
    // Nothing that is compared here differs on purpose.
    assert!(pair.met.is_empty(), "{:?}", pair.met);
}

#[test]
fn collections_grow_and_shrink() {
    compare(Pair::start());
}

/// A test of the test.
#[test]
fn redis_and_redis_grow_and_shrink() {
    compare(Pair::with(Rival::Redis(Redis::start())));
}

/// As long as a hash is compact, its fields have the order in which they came; integers of a set have
/// their own.
#[test]
fn what_is_compact_has_an_order() {
    let mut pair = Pair::start();
    let lines = [
        "HSET hash:1 z 1 a 2 m 3 b 4",
        "HGETALL hash:1",
        "HSET hash:1 a 5 c 6",
        "HDEL hash:1 m",
        "HGETALL hash:1",
        "HKEYS hash:1",
        "HVALS hash:1",
        "HSCAN hash:1 0",
        "HINCRBY hash:1 a 10",
        "HGETALL hash:1",
        "SADD set:ints 30 -4 9 12 0",
        "SMEMBERS set:ints",
        "SREM set:ints 9",
        "SADD set:ints 8 9223372036854775807 -9223372036854775808",
        "SMEMBERS set:ints",
        "SSCAN set:ints 0",
    ];
    for server in [&mut pair.aside.redis, &mut pair.aside.bpfdb] {
        server.say("FLUSHALL");
    }
    for line in lines {
        let [redis, bpfdb] =
            [&mut pair.aside.redis, &mut pair.aside.bpfdb].map(|server| server.say(line));
        assert_eq!(redis, bpfdb, "{line}");
    }
}
