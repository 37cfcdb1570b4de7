//! Elements that are looked up in large collections, of which the process keeps heads and pages: every reply is as
//! of the moment of its request, whoever writes, and pipelines take few calls of the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb_tests::server::{Client, Lent, Reply, TestServer, request, words};

use super::groups::{figure, pipeline, text};

/// More than a page has, and many pages.
const MANY: usize = 6000;
/// Requests of a pipeline.
const DEPTH: usize = 16;

fn shared() -> Lent {
    TestServer::shared()
}

/// `count` elements, each of the words that `words_of` says.
fn fill(client: &mut Client, command: &str, count: usize, words_of: impl Fn(usize) -> String) {
    for start in (0..count).step_by(500) {
        let all = (start..count.min(start + 500)).map(&words_of);
        let all: Vec<String> = all.collect();
        let reply = client.say(&format!("{command} {}", all.join(" ")));
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

/// One of each type: `h`, `s`, `l` and `z`, with the elements 0 to [`MANY`] - 1.
fn fill_all(client: &mut Client) {
    fill(client, "HSET h", MANY, |n| format!("f{n} v{n}"));
    fill(client, "SADD s", MANY, |n| format!("m{n}"));
    fill(client, "RPUSH l", MANY, |n| format!("e{n}"));
    fill(client, "ZADD z", MANY, |n| format!("{n} m{n}"));
}

/// A look-up of each kind, and what it finds in what [`fill_all`] has made.
const LOOK_UPS: [(&str, &str); 16] = [
    ("HGET h f3000", "$5\r\nv3000\r\n"),
    ("HEXISTS h f2999", ":1\r\n"),
    ("HSTRLEN h f1", ":2\r\n"),
    (
        "HMGET h f7 none f5999",
        "*3\r\n$2\r\nv7\r\n$-1\r\n$5\r\nv5999\r\n",
    ),
    ("HLEN h", ":6000\r\n"),
    ("SISMEMBER s m1234", ":1\r\n"),
    ("SMISMEMBER s m0 other m5", "*3\r\n:1\r\n:0\r\n:1\r\n"),
    ("SCARD s", ":6000\r\n"),
    ("LINDEX l 3001", "$5\r\ne3001\r\n"),
    ("LRANGE l 2999 3000", "*2\r\n$5\r\ne2999\r\n$5\r\ne3000\r\n"),
    ("LLEN l", ":6000\r\n"),
    ("ZSCORE z m17", "$2\r\n17\r\n"),
    ("ZRANK z m4321", ":4321\r\n"),
    ("ZREVRANK z m4321", ":1678\r\n"),
    ("ZRANGE z 3000 3001", "*2\r\n$5\r\nm3000\r\n$5\r\nm3001\r\n"),
    ("ZCOUNT z 10 (20", ":10\r\n"),
];

fn all_are_found(client: &mut Client) {
    for (command, reply) in LOOK_UPS {
        assert_eq!(client.say(command), reply, "{command}");
    }
    let replies = pipeline(client, LOOK_UPS.map(|(command, _)| command));
    for ((command, expected), reply) in LOOK_UPS.iter().zip(replies) {
        assert_eq!(reply, *expected, "{command} in a pipeline");
    }
}

#[test]
fn alone_and_in_pipelines_the_same_is_found() {
    let server = shared();
    let mut client = server.client();
    fill_all(&mut client);
    for _ in 0..3 {
        all_are_found(&mut client);
    }
    // In a transaction they are read in another way.
    client.say("BEGIN");
    all_are_found(&mut client);
    client.say("COMMIT");
    client.say("BEGIN READ ONLY");
    all_are_found(&mut client);
    client.say("COMMIT");
}

/// After `change` by another client, alone and in a pipeline.
fn sees(reader: &mut Client, command: &str, before: &str, change: impl FnOnce(), after: &str) {
    assert_eq!(reader.say(command), before, "{command}");
    change();
    let replies = pipeline(reader, [command; DEPTH]);
    assert!(
        replies.iter().all(|reply| reply == after),
        "{command}: {replies:?}"
    );
    assert_eq!(reader.say(command), after, "{command}");
}

#[test]
fn what_others_write_is_seen() {
    let server = shared();
    let (mut a, mut b) = (server.client(), server.client());
    fill_all(&mut b);
    let mut say = |command: &'static str| b.say(command);
    // The head is the same but for its timestamp.
    sees(
        &mut a,
        "HGET h f10",
        "$3\r\nv10\r\n",
        || drop(say("HSET h f10 w10")),
        "$3\r\nw10\r\n",
    );
    sees(
        &mut a,
        "LINDEX l 10",
        "$3\r\ne10\r\n",
        || drop(say("LSET l 10 d10")),
        "$3\r\nd10\r\n",
    );
    sees(
        &mut a,
        "ZRANK z m10",
        ":10\r\n",
        || drop(say("ZADD z 5999.5 m10")),
        ":5999\r\n",
    );
    sees(
        &mut a,
        "ZRANK z m11",
        ":10\r\n",
        || drop(say("ZREM z m0")),
        ":9\r\n",
    );
    sees(
        &mut a,
        "SISMEMBER s m9",
        ":1\r\n",
        || drop(say("SREM s m9")),
        ":0\r\n",
    );
    sees(
        &mut a,
        "LRANGE l 0 0",
        "*1\r\n$2\r\ne0\r\n",
        || drop(say("LPUSH l new")),
        "*1\r\n$3\r\nnew\r\n",
    );
    // The head goes, comes, and is that of another collection: some of it by the kernel.
    sees(
        &mut a,
        "HLEN h",
        ":6000\r\n",
        || drop(say("DEL h")),
        ":0\r\n",
    );
    sees(
        &mut a,
        "HGET h f1",
        "$-1\r\n",
        || drop(say("HSET h f1 small")),
        "$5\r\nsmall\r\n",
    );
    sees(
        &mut a,
        "SCARD s",
        ":5999\r\n",
        || drop(say("SET s text")),
        a_wrong_type(),
    );
    sees(
        &mut a,
        "ZCARD z",
        ":5999\r\n",
        || drop(say("RENAME l z")),
        a_wrong_type(),
    );
    sees(
        &mut a,
        "LLEN l",
        ":0\r\n",
        || drop(say("COPY z l")),
        ":6001\r\n",
    );
    sees(
        &mut a,
        "LINDEX l 1",
        "$2\r\ne0\r\n",
        || drop(say("PEXPIREAT l 1")),
        "$-1\r\n",
    );
    sees(
        &mut a,
        "LLEN z",
        ":6001\r\n",
        || drop(say("FLUSHDB")),
        ":0\r\n",
    );
}

fn a_wrong_type() -> &'static str {
    "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
}

#[test]
fn keys_of_other_databases_are_others() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "ZADD z", MANY, |n| format!("{n} m{n}"));
    assert_eq!(client.say("ZRANK z m100"), ":100\r\n");
    client.say("SELECT 1");
    assert_eq!(client.say("ZRANK z m100"), "$-1\r\n");
    fill(&mut client, "ZADD z", MANY, |n| format!("-{n} m{n}"));
    assert_eq!(client.say("ZRANK z m100"), ":5899\r\n");
    client.say("SWAPDB 0 1");
    let replies = pipeline(&mut client, ["ZRANK z m100", "ZRANK z m101"]);
    assert_eq!(replies, [":100\r\n", ":101\r\n"]);
    client.say("SELECT 0");
    assert_eq!(client.say("ZRANK z m100"), ":5899\r\n");
    // The server is lent to others as well.
    client.say("SWAPDB 0 1");
}

/// What embedded programs do to the head.
#[test]
fn the_head_is_taken_away_by_the_engine() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "HSET h", MANY, |n| format!("f{n} v{n}"));
    assert_eq!(client.say("HGET h f5"), text("v5"));
    let mut session = server.engine.session().expect("a session");
    let head = session
        .entry_of_any_type(b"h")
        .expect("read")
        .expect("a head");
    session.delete(b"h").expect("deleted");
    assert_eq!(client.say("HGET h f5"), "$-1\r\n");
    assert!(head.value.len() < 100);
}

/// Errors and values of all kinds stand between look-ups.
#[test]
fn each_has_its_own_reply() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "ZADD z", MANY, |n| format!("{n} m{n}"));
    client.say("SET text some");
    client.say("HSET small f v");
    client.ask(&[b"HSET", b"long", b"f", &[b'x'; 9000]]);
    let replies = pipeline(
        &mut client,
        [
            "ZRANK z m5",
            "ZRANK text m5",
            "ZRANK none m5",
            "ZRANGE z a b",
            "HGET small f",
            "HSTRLEN long f",
            "ZRANGE z 5 4",
            "ZCOUNT z - +",
            "ZRANK z m6",
            "PING",
            "ZRANK z",
            "ZRANK z m7",
        ],
    );
    let wrong = a_wrong_type();
    let expected = [
        ":5\r\n",
        wrong,
        "$-1\r\n",
        "-ERR value is not an integer or out of range\r\n",
        "$1\r\nv\r\n",
        ":9000\r\n",
        "*0\r\n",
        "-ERR min or max is not a float\r\n",
        ":6\r\n",
        "+PONG\r\n",
        "-ERR wrong number of arguments for 'zrank' command\r\n",
        ":7\r\n",
    ];
    assert_eq!(replies, expected);
}

/// Transactions that look-ups in a pipeline take: they begin one for each call of the engine.
#[test]
fn a_pipeline_takes_few_calls() {
    let server = shared();
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client, "ZADD z", 20_000, |n| format!("{n} m{n}"));
    // The kernel does not answer these.
    let counts: Vec<String> = (0..DEPTH)
        .map(|n| format!("ZCOUNT z {} +inf", n * 1200))
        .collect();
    let counts = || counts.iter().map(String::as_str);
    let expected: Vec<String> = (0..DEPTH)
        .map(|n| format!(":{}\r\n", 20_000 - n * 1200))
        .collect();
    // The pages are kept from here on.
    assert_eq!(pipeline(&mut client, counts()), expected);
    let (begun, hits) = (
        figure(&mut other, "bpfdb_operations_begin_read_only"),
        figure(&mut other, "keyspace_hits"),
    );
    for _ in 0..10 {
        assert_eq!(pipeline(&mut client, counts()), expected);
    }
    let calls = figure(&mut other, "bpfdb_operations_begin_read_only") - begun;
    // A message may come in parts.
    assert!((10..=40).contains(&calls), "{calls} calls");
    // As in Redis, one for each request.
    assert_eq!(
        figure(&mut other, "keyspace_hits") - hits,
        10 * DEPTH as u64
    );
}

/// Ranges of more pages than are kept for one look-up are read in the old way at once, however many of their pages are
/// kept: no attempt walks through these first. Another client is served in between.
#[test]
fn long_ranges_make_no_attempts() {
    const REQUESTS: u64 = 32;
    let server = shared();
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client, "RPUSH l", 40_000, |n| {
        format!("element-{n:06}")
    });
    // Two parts of three are kept from here on.
    for start in (0..27_000).step_by(3000) {
        client.say(&format!("LRANGE l {start} {}", start + 2999));
    }
    let begun = figure(&mut other, "bpfdb_operations_begin_read_only");
    client.send(&words("LRANGE l 0 -1").repeat(REQUESTS as usize));
    assert_eq!(other.say("PING"), "+PONG\r\n");
    for _ in 0..REQUESTS {
        let (reply, _) = Reply::parse(&client.reply()).expect("a reply");
        assert_eq!(reply.items.len(), 40_000);
    }
    let calls = figure(&mut other, "bpfdb_operations_begin_read_only") - begun;
    // One for the transaction that reads, and sometimes one that asks for the head.
    assert!(calls <= 3 * REQUESTS, "{calls} calls");
}

/// A collection that was not seen before spoils nothing that was found in others: each takes a head and one page.
#[test]
fn new_keys_of_a_pipeline_spoil_no_other() {
    let server = shared();
    let (mut client, mut other) = (server.client(), server.client());
    for number in 0..DEPTH {
        fill(&mut client, &format!("HSET h{number}"), 2000, |n| {
            format!("f{n} v{number}")
        });
    }
    let asked: Vec<String> = (0..DEPTH).map(|n| format!("HGET h{n} f1000")).collect();
    let begun = figure(&mut other, "bpfdb_operations_begin_read_only");
    let hits = figure(&mut other, "keyspace_hits");
    let replies = pipeline(&mut client, asked.iter().map(String::as_str));
    let expected: Vec<String> = (0..DEPTH).map(|n| text(&format!("v{n}"))).collect();
    assert_eq!(replies, expected);
    let calls = figure(&mut other, "bpfdb_operations_begin_read_only") - begun;
    // A message may come in parts.
    assert!(calls <= DEPTH as u64, "{calls} calls");
    // Once, by the one that answers. The kernel has counted a few more if it was about to answer, and handed over.
    let counted = figure(&mut other, "keyspace_hits") - hits;
    let depth = DEPTH as u64;
    assert!((depth..=2 * depth).contains(&counted), "{counted} hits");
    // Alone they are counted in the same way.
    let hits = figure(&mut other, "keyspace_hits");
    for (command, reply) in asked.iter().zip(&expected) {
        assert_eq!(client.say(command), *reply);
        assert_eq!(client.say(&command.replace("HGET", "HEXISTS")), ":1\r\n");
    }
    let counted = figure(&mut other, "keyspace_hits") - hits;
    assert!((2 * depth..=4 * depth).contains(&counted), "{counted} hits");
}

/// Two fields, and two members, that are always written together, with numbers that rise: nobody sees one of them
/// without the other, nor an earlier number after a later one.
#[test]
fn nobody_sees_half_of_a_write() {
    const ROUNDS: usize = 300;
    let server = shared();
    let mut writer = server.client();
    fill(&mut writer, "HSET h", MANY, |n| format!("f{n} 0"));
    fill(&mut writer, "ZADD z", MANY, |n| format!("0 m{n}"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for depth in [1, DEPTH] {
            let (is_over, mut reader) = (&is_over, server.client());
            scope.spawn(move || {
                let asked = [
                    request(&[b"HMGET", b"h", b"f17", b"f4711"]),
                    request(&[b"ZMSCORE", b"z", b"m17", b"m4711"]),
                ]
                .concat();
                let mut last = [0, 0];
                while !is_over.load(Ordering::Relaxed) {
                    reader.send(&asked.repeat(depth));
                    for number in 0..2 * depth {
                        let bytes = reader.reply();
                        let (reply, _) = Reply::parse(&bytes).expect("a reply");
                        let values = reply.items.iter().map(|item| {
                            let text = String::from_utf8_lossy(&item.text);
                            text.parse::<usize>().expect("a number")
                        });
                        let values: Vec<usize> = values.collect();
                        assert_eq!(values[0], values[1]);
                        let last = &mut last[number % 2];
                        assert!(values[0] >= *last, "{values:?} after {last}");
                        *last = values[0];
                    }
                }
            });
        }
        for number in 1..=ROUNDS {
            writer.say(&format!("HSET h f17 {number} f4711 {number}"));
            writer.say(&format!("ZADD z {number} m17 {number} m4711"));
            // What was written is there at once, for whoever asks after that.
            assert_eq!(writer.say("HGET h f17"), text(&number.to_string()));
            assert_eq!(writer.say("ZSCORE z m4711"), text(&number.to_string()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// More pages than are fetched at a time.
#[test]
fn long_ranges() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "RPUSH l", 40_000, |n| {
        format!("element-{n:06}")
    });
    for (first, last) in [(0, 39_999), (20_000, 22_000), (39_000, 39_999), (7, 7)] {
        let command = format!("LRANGE l {first} {last}");
        let replies = pipeline(&mut client, [&*command, "LLEN l", &*command]);
        for reply in [&replies[0], &replies[2]] {
            let (reply, _) = Reply::parse(reply.as_bytes()).expect("a reply");
            assert_eq!(reply.items.len(), last - first + 1);
            for (number, item) in (first..).zip(&reply.items) {
                assert_eq!(item.text, format!("element-{number:06}").into_bytes());
            }
        }
        assert_eq!(replies[1], ":40000\r\n");
    }
}

/// Pages of one long element: some are longer than what a fetch has room for at first, or than any has.
#[test]
fn long_elements() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "HSET h", MANY, |n| format!("f{n} v{n}"));
    let lengths = [5000, 9000, 31_000, 33_000, 100_000];
    for length in lengths {
        let field = format!("long{length}");
        client.ask(&[b"HSET", b"h", field.as_bytes(), &vec![b'x'; length]]);
    }
    for _ in 0..2 {
        for length in lengths {
            let commands = [
                format!("HSTRLEN h long{length}"),
                "HGET h f77".to_owned(),
                format!("HSTRLEN h long{length}"),
            ];
            let expected = [
                format!(":{length}\r\n"),
                text("v77"),
                format!(":{length}\r\n"),
            ];
            let replies = pipeline(&mut client, commands.iter().map(String::as_str));
            assert_eq!(replies, expected);
            assert_eq!(client.say(&commands[0]), expected[0]);
        }
    }
}
