//! Hashes and sets where a table of requests and replies (`tests/replies`) does not say it: transactions,
//! clients that meet, chance, pieces of large ones, and what is counted.

use std::collections::BTreeSet;
use std::thread;

use bpfdb_tests::server::lent::plain;
use bpfdb_tests::server::procedures::back_to_kernel;
use bpfdb_tests::server::{Client, Reply, TestServer, kernel_calls, wait_until, words};

use crate::operation::number;

/// Elements of a collection that is listed in pieces.
const MANY: usize = 1500;

fn asked(client: &mut Client, command: &str) -> Reply {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let bytes = client.ask(&words);
    let (reply, _) = Reply::parse(&bytes).expect("a reply");
    reply
}

/// The bulk strings of an array.
fn texts(reply: &Reply) -> Vec<String> {
    let texts = reply.items.iter().map(|item| item.text.clone());
    texts
        .map(|text| String::from_utf8(text).expect("text"))
        .collect()
}

#[test]
fn a_rollback_leaves_nothing_behind() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    for command in ["DEL rb:h rb:s rb:t", "HSET rb:h f 1", "SADD rb:s 1 2"] {
        client.say(command);
    }
    for command in [
        "BEGIN",
        "HSET rb:h f 2 g 3",
        "HDEL rb:h f",
        "SREM rb:s 1",
        "SMOVE rb:s rb:t 2",
    ] {
        let reply = client.say(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
    assert_eq!(texts(&asked(&mut client, "HGETALL rb:h")), ["g", "3"]);
    assert_eq!(client.say("EXISTS rb:s"), ":0\r\n");
    assert_eq!(texts(&asked(&mut other, "HGETALL rb:h")), ["f", "1"]);
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    for client in [&mut client, &mut other] {
        assert_eq!(texts(&asked(client, "HGETALL rb:h")), ["f", "1"]);
        assert_eq!(texts(&asked(client, "SMEMBERS rb:s")), ["1", "2"]);
        assert_eq!(client.say("EXISTS rb:t"), ":0\r\n");
    }
}

#[test]
fn what_is_refused_in_a_block_leaves_the_rest_alone() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("DEL block:h block:s");
    for command in [
        "MULTI",
        "HSET block:h f text",
        "HINCRBY block:h f 1",
        "SADD block:h 1",
        "SADD block:s 1",
    ] {
        client.say(command);
    }
    assert_eq!(
        client.say("EXEC"),
        "*4\r\n:1\r\n-ERR hash value is not an integer\r\n\
         -WRONGTYPE Operation against a key holding the wrong kind of value\r\n:1\r\n"
    );
}

#[test]
fn a_watched_collection_is_noticed() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    client.say("DEL watched:h");
    client.say("HSET watched:h f 1");
    for (change, outcome) in [
        ("HGET watched:h f", "*1\r\n$1\r\n1\r\n"),
        // Nothing is removed.
        ("HDEL watched:h absent", "*1\r\n$1\r\n1\r\n"),
        ("HINCRBY watched:h f 1", "*-1\r\n"),
        ("HDEL watched:h f", "*-1\r\n"),
    ] {
        client.say("WATCH watched:h");
        other.say(change);
        client.say("MULTI");
        client.say("HGET watched:h f");
        assert_eq!(client.say("EXEC"), outcome, "{change}");
    }
}

/// Clients move members between sets: none is lost, and none is in two sets.
#[test]
fn members_that_are_moved_stay() {
    const MEMBERS: usize = 8;
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("DEL moved:0 moved:1 moved:2");
    client.say("SADD moved:0 0 1 2 3 4 5 6 7");
    thread::scope(|scope| {
        for mover in 0..3 {
            let mut client = server.client();
            scope.spawn(move || {
                for round in 0..200 {
                    let member = (round + mover) % MEMBERS;
                    let (from, to) = ((round + mover) % 3, (round + 2 * mover + 1) % 3);
                    // A conflict has done nothing.
                    client.say(&format!("SMOVE moved:{from} moved:{to} {member}"));
                }
            });
        }
    });
    let all = texts(&asked(&mut client, "SUNION moved:0 moved:1 moved:2"));
    assert_eq!(all.len(), MEMBERS, "{all:?}");
    let sizes = (0..3).map(|set| asked(&mut client, &format!("SCARD moved:{set}")).number());
    assert_eq!(sizes.sum::<Option<i64>>(), Some(MEMBERS as i64));
}

/// Increments of one hash by several clients are all there.
#[test]
fn increments_add_up() {
    let server = TestServer::shared();
    server.client().say("DEL sums");
    let done: i64 = thread::scope(|scope| {
        let counting = |field: usize| {
            let mut client = server.client();
            move || {
                let command = format!("HINCRBY sums {field} 1");
                let replies = (0..200).map(|_| client.say(&command));
                replies.filter(|reply| reply.starts_with(':')).count() as i64
            }
        };
        let clients: Vec<_> = [0, 1, 1].map(|field| scope.spawn(counting(field))).into();
        let done = clients
            .into_iter()
            .map(|client| client.join().expect("done"));
        done.sum()
    });
    let sums = texts(&asked(&mut server.client(), "HVALS sums"));
    let sums = sums.iter().map(|sum| sum.parse::<i64>().expect("a number"));
    assert!(done > 0);
    assert_eq!(sums.sum::<i64>(), done);
}

#[test]
fn a_large_collection_is_listed_in_pieces() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("DEL pieces:h pieces:s");
    for n in 0..MANY {
        client.say(&format!("HSET pieces:h f{n} {n}"));
        client.say(&format!("SADD pieces:s m{n}"));
    }
    for (command, width) in [("HSCAN pieces:h", 2), ("SSCAN pieces:s", 1)] {
        let (mut cursor, mut calls, mut listed) = ("0".to_owned(), 0, Vec::new());
        loop {
            let reply = asked(&mut client, &format!("{command} {cursor} COUNT 3"));
            let elements = texts(&reply.items[1]);
            listed.extend(elements.chunks(width).map(|element| element[0].clone()));
            cursor = String::from_utf8(reply.items[0].text.clone()).expect("a cursor");
            calls += 1;
            if cursor == "0" {
                break;
            }
        }
        // Of a run or of pages, which have many elements each.
        assert!((2..MANY / 20).contains(&calls), "{command}: {calls} calls");
        assert_eq!(listed.len(), MANY, "{command}");
        assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), MANY);
    }
    assert_eq!(
        client.say("OBJECT ENCODING pieces:h"),
        "$9\r\nhashtable\r\n"
    );
    assert_eq!(
        client.say("OBJECT ENCODING pieces:s"),
        "$9\r\nhashtable\r\n"
    );
}

#[test]
fn chance_meets_every_element() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("DEL chance:h chance:s");
    client.say("HSET chance:h a 1 b 2 c 3");
    client.say("SADD chance:s a b c d");
    for (command, elements) in [("HRANDFIELD chance:h", 3), ("SRANDMEMBER chance:s", 4)] {
        let mut met = BTreeSet::new();
        // One in a million times one of four would not be met.
        for _ in 0..60 {
            met.insert(asked(&mut client, command).text);
        }
        assert_eq!(met.len(), elements, "{command}");
        let different = texts(&asked(&mut client, &format!("{command} 2")));
        assert_eq!(different.iter().collect::<BTreeSet<_>>().len(), 2);
        let repeated = texts(&asked(&mut client, &format!("{command} -100")));
        assert_eq!(repeated.len(), 100);
    }
    let mut popped = BTreeSet::new();
    for _ in 0..4 {
        popped.insert(asked(&mut client, "SPOP chance:s").text);
    }
    assert_eq!(popped.len(), 4);
    assert_eq!(client.say("EXISTS chance:s"), ":0\r\n");
}

/// As in Redis, reads of a key count as hits and misses, and writes do not.
#[test]
fn hits_are_counted() {
    let server = plain();
    let mut client = server.client();
    client.say("HSET hits:h f 1");
    client.say("SADD hits:s 1");
    client.say("CONFIG RESETSTAT");
    for command in [
        "HGET hits:h f",
        "HGET hits:h absent",
        "SMEMBERS hits:s",
        "SCARD hits:s",
    ] {
        client.say(command);
    }
    client.say("HLEN absent");
    client.say("HINCRBY hits:h f 1");
    client.say("SREM absent 1");
    assert_eq!(number(&mut client, "stats", "keyspace_hits"), 4);
    assert_eq!(number(&mut client, "stats", "keyspace_misses"), 1);
}

/// An entry of a set or of a list has no value, whatever the request before had: it takes no memory for
/// one.
#[test]
fn entries_without_values_have_none() {
    let server = plain();
    let mut client = server.client();
    let hash = format!("HSET ev:h f {}", "v".repeat(250));
    wait_until("the kernel answers the commands", || {
        let before = kernel_calls(&mut client, "sadd");
        back_to_kernel(&mut client);
        client.say("DEL ev:a1 ev:a2 ev:l1 ev:l2");
        client.say("SADD ev:a1 x");
        client.say("RPUSH ev:l1 x");
        let pipeline = [&hash, "SADD ev:a2 x", &hash, "RPUSH ev:l2 x"];
        client.send(&pipeline.map(words).concat());
        for command in pipeline {
            assert!(client.reply().starts_with(b":"), "{command}");
        }
        kernel_calls(&mut client, "sadd") - before >= 2
    });
    for (one, other) in [("ev:a1", "ev:a2"), ("ev:l1", "ev:l2")] {
        let usage = [one, other].map(|key| asked(&mut client, &format!("MEMORY USAGE {key}")));
        assert!(usage[0].number() > Some(0), "{}", usage[0]);
        assert_eq!(usage[0], usage[1], "{other}");
    }
}

/// The kernel says when a small collection expires, which stays as it is otherwise.
#[test]
fn the_kernel_lets_small_collections_expire() {
    let server = plain();
    let mut client = server.client();
    for (fill, look) in [
        ("HSET ke f v", "HGET ke f"),
        ("RPUSH ke v", "LINDEX ke 0"),
        ("SADD ke v", "SMEMBERS ke"),
        ("ZADD ke 7 v", "ZRANGE ke 0 -1"),
    ] {
        wait_until("the kernel answers both", || {
            client.say("DEL ke");
            client.say(fill);
            let looked = client.say(look);
            let counted = |client: &mut Client| {
                kernel_calls(client, "expire") + kernel_calls(client, "persist")
            };
            let before = counted(&mut client);
            back_to_kernel(&mut client);
            assert_eq!(client.say("EXPIRE ke 100"), ":1\r\n", "{fill}");
            assert!(asked(&mut client, "TTL ke").number() > Some(0), "{fill}");
            assert_eq!(client.say(look), looked);
            assert_eq!(client.say("PERSIST ke"), ":1\r\n", "{fill}");
            assert_eq!(client.say("TTL ke"), ":-1\r\n", "{fill}");
            assert_eq!(client.say(look), looked);
            counted(&mut client) - before == 2
        });
    }
}
