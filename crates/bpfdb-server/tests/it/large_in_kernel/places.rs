//! Locks of pages, databases, and scores in other spellings than the server's own.

use std::collections::BTreeSet;

use bpfdb_tests::server::procedures::back_to_kernel;
use bpfdb_tests::server::{Client, Redis, kernel_answers, kernel_calls, words};

use crate::large_collections::page_keys;

use super::{Both, MANY, fill, filling};

/// Another transaction has the pages, and not the head: so it is a page that a command cannot lock.
#[test]
fn a_page_is_locked() {
    let both = Both::start();
    let (mut client, mut blocks) = (both.kernel(), both.kernel());
    fill(&mut client);
    let engine = &both.server.engine;
    let mut holder = engine.session().expect("a session");
    holder.begin().expect("begun");
    for key in page_keys(engine) {
        assert!(holder.get_for_update(&key).expect("locked").is_some());
    }
    // Whoever reads without a transaction takes no lock.
    assert_eq!(client.say("HGET h f7"), "$1\r\n7\r\n");
    for read in ["HGET h f7", "HEXISTS h f7", "SISMEMBER s m7", "ZSCORE z m7"] {
        assert_eq!(client.say("BEGIN"), "+OK\r\n");
        let refused = client.say(read);
        assert!(refused.starts_with("-CONFLICT"), "{read}: {refused}");
        let failed = client.say("HLEN h");
        assert!(failed.contains("the transaction has failed"), "{failed}");
        assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    }
    for write in ["HSET h f7 new", "SREM s m7", "LPUSH l e", "ZADD z 5 m7"] {
        let refused = client.say(write);
        assert!(refused.starts_with("-CONFLICT"), "{write}: {refused}");
        assert_eq!(client.say("BEGIN"), "+OK\r\n");
        let refused = client.say(write);
        assert!(refused.starts_with("-CONFLICT"), "{write}: {refused}");
        assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    }
    let block = ["MULTI", "SET k v", "HINCRBY h f7 1", "EXEC"];
    blocks.send(&block.map(words).concat());
    let replies: Vec<Vec<u8>> = block.iter().map(|_| blocks.reply()).collect();
    assert!(replies[3].starts_with(b"-CONFLICT"), "{replies:?}");
    holder.rollback().expect("rolled back");
    assert_eq!(client.say("EXISTS k"), ":0\r\n");
    assert_eq!(client.say("HINCRBY h f7 1"), ":8\r\n");
    assert_eq!(client.say("LLEN l"), format!(":{MANY}\r\n"));
    assert_eq!(client.say("SISMEMBER s m7"), ":1\r\n");
    assert_eq!(client.say("ZSCORE z m7"), "$1\r\n7\r\n");
}

/// Collections of the same names in two databases.
#[test]
fn each_database_has_its_own() {
    let both = Both::start();
    let (mut first, mut second, mut daemon) = (both.kernel(), both.kernel(), both.daemon());
    assert_eq!(second.say("SELECT 1"), "+OK\r\n");
    assert_eq!(daemon.say("SELECT 1"), "+OK\r\n");
    fill(&mut first);
    fill(&mut second);
    let before = kernel_calls(&mut second, "hset");
    for n in 0..20 {
        back_to_kernel(&mut second);
        let (command, reply) = match n % 4 {
            0 => (format!("HSET h f{n} second"), ":0\r\n".to_owned()),
            1 => (format!("SREM s m{n}"), ":1\r\n".to_owned()),
            2 => (
                format!("RPUSH l more{n}"),
                format!(":{}\r\n", MANY + 1 + n / 4),
            ),
            _ => (format!("ZADD z 4711 m{n}"), ":0\r\n".to_owned()),
        };
        assert_eq!(second.say(&command), reply, "{command}");
    }
    let calls = kernel_calls(&mut second, "hset") - before;
    assert_eq!(calls, if kernel_answers() { 5 } else { 0 });
    for client in [&mut second, &mut daemon] {
        assert_eq!(client.say("HGET h f4"), "$6\r\nsecond\r\n");
        assert_eq!(client.say("SISMEMBER s m1"), ":0\r\n");
        assert_eq!(client.say("LINDEX l -1"), "$6\r\nmore18\r\n");
        assert_eq!(client.say("ZSCORE z m3"), "$4\r\n4711\r\n");
    }
    assert_eq!(first.say("HGET h f4"), "$1\r\n4\r\n");
    assert_eq!(first.say("SISMEMBER s m1"), ":1\r\n");
    assert_eq!(first.say("LLEN l"), format!(":{MANY}\r\n"));
    assert_eq!(first.say("ZSCORE z m3"), "$1\r\n3\r\n");
    assert_eq!(second.say("FLUSHDB"), "+OK\r\n");
    assert_eq!(second.say("HGET h f4"), "$-1\r\n");
    assert_eq!(first.say("HLEN h"), format!(":{MANY}\r\n"));
}

/// As scores, and as increments.
const NUMBERS: &[&str] = &[
    "000123",
    "1e3",
    "1E3",
    "+5",
    "0",
    "-0",
    "-0.0",
    "5.",
    ".5",
    "5.0",
    "0x10",
    "1e-2",
    "inf",
    "-inf",
    "+inf",
    "Infinity",
    "nan",
    "",
    "1_000",
    "--1",
    "12a",
    "999999999999999",
    "9007199254740993",
    "-9007199254740992",
    "123456789012345678",
    "1e400",
    "00000000000000000000000000000000001",
];

/// Kernel, daemon and Redis say the same of them, and have the same score then.
#[test]
fn scores_are_spelled_in_other_ways() {
    let both = Both::start();
    let redis = Redis::start();
    let mut clients = [both.kernel(), Client::connect(redis.address)];
    for command in filling(MANY) {
        clients
            .iter_mut()
            .for_each(|client| assert!(!client.say(&command).starts_with('-')));
    }
    let mut daemon = both.daemon();
    for (n, number) in NUMBERS.iter().enumerate() {
        for name in ["ZADD", "ZINCRBY"] {
            let member = format!("m{n}");
            let request = [name.as_bytes(), b"z", number.as_bytes(), member.as_bytes()];
            back_to_kernel(&mut clients[0]);
            let [ours, theirs] = clients.each_mut().map(|client| client.ask(&request));
            let shown = |reply: &[u8]| String::from_utf8_lossy(reply).into_owned();
            assert_eq!(shown(&ours), shown(&theirs), "{name} {number:?}");
            let [ours, theirs] = clients
                .each_mut()
                .map(|client| client.say(&format!("ZSCORE z {member}")));
            assert_eq!(ours, theirs, "{name} {number:?}");
            assert_eq!(
                daemon.say(&format!("ZSCORE z {member}")),
                theirs,
                "{name} {number:?}"
            );
        }
        // The same by the daemon alone.
        let request = [b"ZADD".as_slice(), b"z", number.as_bytes(), b"other"];
        let [_, redis] = &mut clients;
        assert_eq!(daemon.ask(&request), redis.ask(&request), "ZADD {number:?}");
    }
    let all = "ZRANGE z 0 -1 WITHSCORES";
    assert_eq!(clients[0].say(all), clients[1].say(all));
}

/// A connection that has met a large collection tries the next one as such: small ones, and none, are met all the same.
const IN_TURN: &[(&str, &str)] = &[
    ("HSET h f7 large", ":0\r\n"),
    ("HSET small f 1", ":1\r\n"),
    ("HGET h f7", "$5\r\nlarge\r\n"),
    ("HGET small f", "$1\r\n1\r\n"),
    ("HGET absent f", "$-1\r\n"),
    ("SADD s m7", ":0\r\n"),
    ("SADD few m7", ":1\r\n"),
    ("SISMEMBER s m7", ":1\r\n"),
    ("SMEMBERS few", "*1\r\n$2\r\nm7\r\n"),
    ("ZADD z 4711 m7", ":0\r\n"),
    ("ZADD short 4711 m7", ":1\r\n"),
    ("ZSCORE z m7", "$4\r\n4711\r\n"),
    ("ZRANGE short 0 -1", "*1\r\n$2\r\nm7\r\n"),
    ("RPUSH l last", ":4001\r\n"),
    ("LPUSH queue first", ":1\r\n"),
    ("RPOP l", "$4\r\nlast\r\n"),
    ("LPOP queue", "$5\r\nfirst\r\n"),
    ("LPOP queue", "$-1\r\n"),
    ("HLEN h", ":4000\r\n"),
    ("HDEL small f", ":1\r\n"),
    ("LLEN l", ":4000\r\n"),
    ("HEXISTS small f", ":0\r\n"),
];

#[test]
fn small_and_large_ones_in_turn() {
    let both = Both::start();
    let mut client = both.kernel();
    fill(&mut client);
    let names: BTreeSet<String> = IN_TURN
        .iter()
        .map(|(command, _)| super::name(command))
        .collect();
    let all =
        |client: &mut Client| -> u64 { names.iter().map(|name| kernel_calls(client, name)).sum() };
    let before = all(&mut client);
    for (command, reply) in IN_TURN {
        back_to_kernel(&mut client);
        assert_eq!(client.say(command), *reply, "{command}");
    }
    // As one message.
    assert_eq!(client.say("DEL few short"), ":2\r\n");
    back_to_kernel(&mut client);
    let requests: Vec<Vec<u8>> = IN_TURN.iter().map(|(command, _)| words(command)).collect();
    client.send(&requests.concat());
    for (command, reply) in IN_TURN {
        assert_eq!(
            String::from_utf8_lossy(&client.reply()),
            *reply,
            "{command}"
        );
    }
    let expected = if kernel_answers() {
        2 * IN_TURN.len() as u64
    } else {
        0
    };
    assert_eq!(all(&mut client) - before, expected);
    for wrong in [
        "HSET z f v",
        "HGET l f",
        "LPUSH h e",
        "ZADD s 1 m",
        "SADD z m",
    ] {
        back_to_kernel(&mut client);
        assert_eq!(client.say("HGET h f7"), "$5\r\nlarge\r\n");
        let refused = client.say(wrong);
        assert!(refused.starts_with("-WRONGTYPE"), "{wrong}: {refused}");
    }
}

/// Each takes one of the tail calls that a run has.
#[test]
fn a_block_of_many_commands() {
    const COMMANDS: usize = 25;
    let both = Both::start();
    let mut client = both.kernel();
    fill(&mut client);
    let before = kernel_calls(&mut client, "hincrby");
    back_to_kernel(&mut client);
    assert_eq!(client.say("HINCRBY h f7 1"), ":8\r\n");
    let mut requests = vec![words("MULTI")];
    requests.extend((0..COMMANDS).map(|n| words(&format!("HINCRBY h f7 {n}"))));
    requests.push(words("EXEC"));
    client.send(&requests.concat());
    let replies: Vec<Vec<u8>> = requests.iter().map(|_| client.reply()).collect();
    let last = format!(":{}\r\n", 8 + COMMANDS * (COMMANDS - 1) / 2);
    assert!(replies[COMMANDS + 1].ends_with(last.as_bytes()));
    let calls = kernel_calls(&mut client, "hincrby") - before;
    let expected = if kernel_answers() {
        COMMANDS as u64 + 1
    } else {
        0
    };
    assert_eq!(calls, expected);
}
