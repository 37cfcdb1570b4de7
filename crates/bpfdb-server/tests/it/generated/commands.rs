//! Every command that Redis and bpfdb both know: how its arguments are made, and
//! how two replies to it are compared.

use super::compare::Compare::{self, *};
use super::words::*;

use super::collections;

pub struct Command {
    pub name: &'static str,
    /// How often it is chosen, next to the others.
    pub weight: u32,
    pub arguments: fn() -> Part,
    pub compare: Compare,
}

pub const fn command(
    name: &'static str,
    weight: u32,
    compare: Compare,
    arguments: fn() -> Part,
) -> Command {
    Command {
        name,
        weight,
        arguments,
        compare,
    }
}

/// Names in the order of Redis's documentation: connection, keys, server,
/// strings, transactions.
pub static COMMANDS: &[Command] = &[
    command("client", 2, Exact, client),
    command("echo", 2, Exact, value),
    command("hello", 1, Hello, hello),
    command("ping", 4, Exact, || some_of(2, [value()])),
    command("reset", 1, Exact, none),
    command("select", 1, Exact, || {
        one_of([word("0"), word("0"), word("16"), word("x")])
    }),
    // ---- Keys ----
    command("copy", 4, Exact, || {
        seq([
            key(),
            key(),
            some_of(2, [option("REPLACE"), seq([option("DB"), database()])]),
        ])
    }),
    command("del", 6, Exact, || many(key(), 1..=3)),
    command("dump", 2, Dump, key),
    command("exists", 4, Exact, || many(key(), 1..=4)),
    command("expire", 4, Exact, || expiry(seconds())),
    command("expireat", 3, Exact, || expiry(at_second())),
    command("expiretime", 3, Time(1), key),
    command("keys", 2, Unordered, pattern),
    command("object", 3, Encoding, object),
    command("persist", 3, Exact, key),
    command("pexpire", 3, Exact, || expiry(milliseconds())),
    command("pexpireat", 3, Exact, || expiry(at_millisecond())),
    command("pexpiretime", 3, Time(1000), key),
    command("pttl", 4, Time(1000), key),
    command("randomkey", 1, Shape, none),
    command("rename", 4, Exact, || seq([key(), key()])),
    command("renamenx", 4, Exact, || seq([key(), key()])),
    command("restore", 4, Exact, restore),
    command("scan", 3, Scan, scan),
    command("touch", 2, Exact, || many(key(), 1..=4)),
    command("ttl", 4, Time(1), key),
    command("type", 4, Exact, key),
    command("unlink", 3, Exact, || many(key(), 1..=3)),
    // ---- Server ----
    command("command", 1, GetKeys, || {
        seq([option("GETKEYS"), getkeys()])
    }),
    command("dbsize", 2, AtLeast, none),
    command("flushall", 1, Exact, flush),
    command("flushdb", 1, Exact, flush),
    command("lastsave", 1, Shape, none),
    command("memory", 1, Shape, || {
        seq([
            option("USAGE"),
            key(),
            some_of(1, [seq([option("SAMPLES"), integer()])]),
        ])
    }),
    command("role", 1, Exact, none),
    command("time", 1, Now, none),
    // ---- Strings ----
    command("append", 6, Exact, || seq([key(), piece()])),
    command("bitop", 3, Exact, || {
        seq([
            one_of([option("AND"), option("OR"), option("XOR"), option("NOT")]),
            key(),
            many(key(), 1..=3),
        ])
    }),
    command("bitpos", 4, Exact, || {
        seq([
            key(),
            one_of([word("0"), word("1"), integer()]),
            some_of(
                1,
                [
                    offset(),
                    seq([offset(), offset()]),
                    seq([offset(), offset(), one_of([option("BYTE"), option("BIT")])]),
                ],
            ),
        ])
    }),
    command("bitcount", 4, Exact, || {
        seq([
            key(),
            some_of(
                1,
                [
                    seq([offset(), offset()]),
                    seq([offset(), offset(), one_of([option("BYTE"), option("BIT")])]),
                ],
            ),
        ])
    }),
    command("decr", 4, Exact, key),
    command("decrby", 4, Exact, || seq([key(), integer()])),
    command("get", 10, Exact, key),
    command("getbit", 4, Exact, || seq([key(), offset()])),
    command("getdel", 4, Exact, key),
    command("getex", 5, Exact, || {
        seq([key(), some_of(2, [lifetime(), option("PERSIST")])])
    }),
    command("getrange", 5, Exact, || seq([key(), offset(), offset()])),
    command("getset", 4, Exact, || seq([key(), value()])),
    command("incr", 4, Exact, key),
    command("incrby", 4, Exact, || seq([key(), integer()])),
    command("incrbyfloat", 4, Exact, || seq([key(), float()])),
    command("lcs", 4, Exact, || {
        seq([
            short_key(),
            short_key(),
            some_of(
                3,
                [
                    option("LEN"),
                    option("IDX"),
                    seq([option("MINMATCHLEN"), integer()]),
                    option("WITHMATCHLEN"),
                ],
            ),
        ])
    }),
    command("mget", 5, Exact, || many(key(), 1..=4)),
    command("mset", 5, Exact, || many(seq([key(), value()]), 1..=3)),
    command("msetnx", 4, Exact, || many(seq([key(), value()]), 1..=3)),
    command("psetex", 3, Exact, || seq([key(), milliseconds(), value()])),
    command("set", 20, Exact, || {
        one_of([
            seq([key(), value()]),
            seq([key(), value(), set_options()]),
            seq([short_key(), short_value()]),
        ])
    }),
    command("setbit", 4, Exact, || {
        seq([key(), bit(), one_of([word("0"), word("1"), integer()])])
    }),
    command("setex", 3, Exact, || seq([key(), seconds(), value()])),
    command("setnx", 4, Exact, || seq([key(), value()])),
    command("setrange", 4, Exact, || seq([key(), offset(), piece()])),
    command("strlen", 4, Exact, key),
    command("substr", 1, Exact, || seq([key(), offset(), offset()])),
    // ---- Transactions ----
    command("discard", 2, Exact, none),
    command("exec", 8, Exec, none),
    command("multi", 6, Exact, none),
    command("unwatch", 2, Exact, none),
    command("watch", 4, Exact, || many(key(), 1..=3)),
    // ---- No command ----
    command("nonsense", 1, Exact, || many(value(), 0..=3)),
];

/// Commands of the server that are not compared, and why.
pub static NOT_COMPARED: &[(&str, &str)] = &[
    ("acl", "see replies/single.txt: there is no such thing here"),
    (
        "asking",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "cluster",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "failover",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "lolwut",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "module",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "psync",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "readonly",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "readwrite",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "replconf",
        "see replies/single.txt: there is no such thing here",
    ),
    (
        "sync",
        "see replies/single.txt: there is no such thing here",
    ),
    ("restore-asking", "is RESTORE by another name"),
    ("pfadd", "compared in replies/hyperloglog.txt"),
    ("pfcount", "compared in replies/hyperloglog.txt"),
    ("pfmerge", "compared in replies/hyperloglog.txt"),
    ("begin", "bpfdb's own: see transactions.rs"),
    ("commit", "bpfdb's own: see transactions.rs"),
    ("rollback", "bpfdb's own: see transactions.rs"),
    ("locks", "bpfdb's own: see conflicts.rs"),
    ("procedures", "bpfdb's own: see operation/procedures.rs"),
    ("blmove", "compared in replies/blocking.txt; see blocking/"),
    ("blmpop", "compared in replies/blocking.txt; see blocking/"),
    ("blpop", "compared in replies/blocking.txt; see blocking/"),
    ("brpop", "compared in replies/blocking.txt; see blocking/"),
    (
        "brpoplpush",
        "compared in replies/blocking.txt; see blocking/",
    ),
    ("bzmpop", "compared in replies/blocking.txt; see blocking/"),
    (
        "bzpopmax",
        "compared in replies/blocking.txt; see blocking/",
    ),
    (
        "bzpopmin",
        "compared in replies/blocking.txt; see blocking/",
    ),
    ("move", "compared in replies/databases.txt"),
    ("swapdb", "compared in replies/databases.txt"),
    ("psubscribe", "compared in replies/publish.txt and publish/"),
    ("publish", "compared in replies/publish.txt and publish/"),
    ("pubsub", "compared in replies/publish.txt and publish/"),
    (
        "punsubscribe",
        "compared in replies/publish.txt and publish/",
    ),
    ("spublish", "compared in replies/publish.txt and publish/"),
    ("ssubscribe", "compared in replies/publish.txt and publish/"),
    ("subscribe", "compared in replies/publish.txt and publish/"),
    (
        "sunsubscribe",
        "compared in replies/publish.txt and publish/",
    ),
    (
        "unsubscribe",
        "compared in replies/publish.txt and publish/",
    ),
    ("monitor", "see publish/monitor.rs"),
    ("eval", "compared in scripts.rs"),
    ("eval_ro", "compared in scripts.rs"),
    ("evalsha", "compared in scripts.rs"),
    ("evalsha_ro", "compared in scripts.rs"),
    ("script", "compared in scripts.rs"),
    ("fcall", "compared in functions/redis.rs"),
    ("fcall_ro", "compared in functions/redis.rs"),
    ("function", "compared in functions/redis.rs"),
    ("auth", "asks for a password that both must have"),
    ("quit", "ends the connection: see protocol.rs"),
    ("info", "tells of the server itself"),
    ("config", "tells of the server itself"),
    ("slowlog", "depends on how long commands took"),
    ("latency", "depends on how long commands took"),
    ("debug", "is refused, with other words"),
    ("replicaof", "would make a copy of redis-server"),
    ("shutdown", "ends the server: see the tests of bpfdb serve"),
    ("slaveof", "would make a copy of redis-server"),
    ("wait", "waits, in redis-server"),
    ("table", "of bpfdb alone: see tables.rs"),
    ("waitaof", "not in redis-server 7.0: see durability.rs"),
    ("save", "asks for a log: see the tests of bpfdb serve"),
    ("bgsave", "asks for a log: see the tests of bpfdb serve"),
    (
        "bgrewriteaof",
        "asks for a log: see the tests of bpfdb serve",
    ),
    ("role", "tells of the server itself"),
];

pub fn all() -> impl Iterator<Item = &'static Command> {
    let others = collections::OTHERS.into_iter().flatten();
    COMMANDS.iter().chain(collections::all()).chain(others)
}

pub fn find(name: &[u8]) -> Option<&'static Command> {
    all().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The command that a script calls ([`super::case`]); a command by itself.
pub fn inner(words: &Words) -> &[Vec<u8>] {
    match words.as_slice() {
        [eval, _, _, words @ ..] if eval == b"eval" && !words.is_empty() => words,
        words => words,
    }
}

// ---- Arguments of commands that have many ----------------------------------------

fn database() -> Part {
    one_of([word("0"), word("0"), word("1"), integer()])
}

fn lifetime() -> Part {
    one_of([
        seq([option("EX"), seconds()]),
        seq([option("PX"), milliseconds()]),
        seq([option("EXAT"), at_second()]),
        seq([option("PXAT"), at_millisecond()]),
    ])
}

fn set_options() -> Part {
    some_of(
        3,
        [
            option("NX"),
            option("XX"),
            option("GET"),
            option("KEEPTTL"),
            lifetime(),
            lifetime(),
        ],
    )
}

fn expiry(time: Part) -> Part {
    seq([
        key(),
        time,
        some_of(2, [option("NX"), option("XX"), option("GT"), option("LT")]),
    ])
}

fn pattern() -> Part {
    let patterns = [
        "*",
        "a",
        "k*",
        "*:*",
        "?",
        "key:[0-9]",
        "[^a]*",
        "\\*\\[*",
        "seventeen*3",
        "*[",
        "",
        "[a-",
        "s[!e]*",
        "**k**",
        "[z-a]",
    ];
    one_of(patterns.map(word))
}

fn scan() -> Part {
    let start = seq([
        word("0"),
        some_of(
            3,
            [
                seq([option("MATCH"), pattern()]),
                seq([option("COUNT"), count()]),
                seq([
                    option("TYPE"),
                    one_of([
                        option("string"),
                        word_of(&["list", "hash", "set", "zset", "nothing"]),
                    ]),
                ]),
            ],
        ),
    ]);
    let invalid = one_of([
        word("x"),
        word("-1"),
        word("1.5"),
        word("18446744073709551616"),
        seq([word("0"), option("MATCH")]),
        seq([word("0"), word("limit"), word("1")]),
    ]);
    one_of([start.clone(), start.clone(), start, invalid])
}

fn count() -> Part {
    one_of([word("1"), word("3"), word("1000"), word("0"), integer()])
}

fn object() -> Part {
    one_of([
        seq([option("ENCODING"), key()]),
        seq([option("ENCODING"), any_home()]),
        seq([option("REFCOUNT"), key()]),
        seq([option("IDLETIME"), key()]),
        seq([option("FREQ"), key()]),
        seq([word("nonsense"), key()]),
        option("ENCODING"),
    ])
}

fn client() -> Part {
    one_of([
        seq([
            option("SETNAME"),
            one_of([word("me"), word(""), word("a b"), word("\n")]),
        ]),
        option("GETNAME"),
        seq([
            option("NO-EVICT"),
            one_of([option("ON"), option("OFF"), word("x")]),
        ]),
        option("NO-EVICT"),
        seq([option("SETNAME"), word("one"), word("two")]),
        seq([word("nonsense"), word("x")]),
    ])
}

fn hello() -> Part {
    one_of([
        none(),
        word("2"),
        word("3"),
        word("3"),
        one_of([word("1"), word("4"), word("x"), word("3.0")]),
        seq([
            word("3"),
            option("SETNAME"),
            one_of([word("you"), word("a b")]),
        ]),
        seq([word("2"), option("SETNAME")]),
        seq([word("2"), word("nonsense")]),
        seq([word("3"), option("AUTH"), word("default")]),
    ])
}

fn flush() -> Part {
    some_of(1, [option("ASYNC"), option("SYNC"), word("now")])
}

fn getkeys() -> Part {
    one_of([
        seq([word("get"), key()]),
        seq([word("mset"), many(seq([key(), value()]), 1..=2)]),
        seq([word("del"), many(key(), 1..=3)]),
        seq([word("set"), key(), value(), set_options()]),
        seq([word("copy"), key(), key()]),
        seq([word("get"), key(), key()]),
        seq([word("hset"), key(), value(), value()]),
        seq([word("lmove"), key(), key(), word("left"), word("right")]),
        seq([word("zunionstore"), key(), counted(key(), 1..=3)]),
        seq([
            word_of(&["sintercard", "zinter", "zdiff"]),
            counted(key(), 1..=3),
        ]),
        seq([
            word_of(&["lmpop", "zmpop"]),
            counted(key(), 1..=3),
            word("left"),
        ]),
        word("ping"),
        word("nonsense"),
        none(),
    ])
}

fn restore() -> Part {
    seq([
        key(),
        one_of([word("0"), word("0"), milliseconds()]),
        payload(),
        some_of(
            2,
            [
                option("REPLACE"),
                option("REPLACE"),
                option("ABSTTL"),
                seq([option("IDLETIME"), integer()]),
                seq([option("FREQ"), integer()]),
            ],
        ),
    ])
}

/// What Redis 7.0 said to DUMP of strings: short, an integer in one byte, in
/// four, compressed; and what was not given.
fn payload() -> Part {
    let short = b"\x00\x05hello\x0a\x00";
    let small = b"\x00\xc0\x07\x0a\x00";
    let large = b"\x00\xc2\x87\xd6\x12\x00\x0a\x00";
    let compressed = b"\x00\xc3\x09\x40\x64\x01xx\xe0\x57\x00\x01xx\x0a\x00";
    one_of([
        word(sealed(short)),
        word(sealed(small)),
        word(sealed(large)),
        word(sealed(compressed)),
        word(short),
        word("x"),
        word(""),
    ])
}

/// With the checksum that belongs to it: CRC-64 of Jones, reflected.
fn sealed(payload: &[u8]) -> Vec<u8> {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    let mut crc = 0u64;
    for &byte in payload {
        crc ^= u64::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
        }
    }
    [payload, &crc.to_le_bytes()].concat()
}
