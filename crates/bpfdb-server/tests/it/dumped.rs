//! DUMP and RESTORE of hashes, lists, sets and sorted sets, between Redis and here.

use bpfdb_server::settings::Settings;
use bpfdb_tests::server as common;

use bpfdb::ValueType;
use common::{Client, Redis, TestServer};

/// A type, and a command that makes a key of it; `@` is the key. One for each encoding.
const COLLECTIONS: [(&str, &[&str]); 9] = [
    ("hash", &["HSET", "@", "f", "v", "n", "12", "m", "-70000"]),
    ("list", &["RPUSH", "@", "a", "1", "300", "70000", "a"]),
    ("set", &["SADD", "@", "3", "1", "2", "9223372036854775807"]),
    ("set", &["SADD", "@", "a", "1", "b"]),
    (
        "zset",
        &[
            "ZADD", "@", "1", "a", "2.5", "b", "inf", "c", "-inf", "d", "0.1", "e",
        ],
    ),
    (
        "hash",
        &[
            "EVAL",
            "for i = 1, 600 do redis.call('HSET', KEYS[1], i, i) end",
            "1",
            "@",
        ],
    ),
    (
        "list",
        &[
            "EVAL",
            "for i = 1, 3000 do redis.call('RPUSH', KEYS[1], i * 37) end",
            "1",
            "@",
        ],
    ),
    (
        "set",
        &[
            "EVAL",
            "for i = 1, 600 do redis.call('SADD', KEYS[1], i) end",
            "1",
            "@",
        ],
    ),
    (
        "zset",
        &[
            "EVAL",
            "for i = 1, 200 do redis.call('ZADD', KEYS[1], i / 7, i) end",
            "1",
            "@",
        ],
    ),
];

fn options() -> bpfdb::Options {
    bpfdb::Options {
        memory_limit: 128 << 20,
        ..bpfdb::Options::default()
    }
}

fn payload(reply: Vec<u8>) -> Vec<u8> {
    let start = reply.iter().position(|&byte| byte == b'\n');
    let start = start.expect("a header") + 1;
    reply[start..reply.len() - 2].to_vec()
}

fn make(client: &mut Client, command: &[&str], key: &str) {
    let words = command
        .iter()
        .map(|&word| if word == "@" { key } else { word });
    let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
    let reply = client.ask(&words);
    assert!(
        !reply.starts_with(b"-"),
        "{command:?}: {}",
        reply.escape_ascii()
    );
}

#[test]
fn collections_go_both_ways() {
    let redis = Redis::start();
    let server = TestServer::lent(&options(), Settings::default());
    let (mut there, mut here) = (Client::connect(redis.address), server.client());
    for compression in ["yes", "no"] {
        there.say(&format!("CONFIG SET rdbcompression {compression}"));
        for (number, (kind, command)) in COLLECTIONS.into_iter().enumerate() {
            let key = format!("dumped-{compression}-{number}");
            make(&mut there, command, &key);
            let of_redis = payload(there.ask(&[b"DUMP", key.as_bytes()]));
            let restored = here.ask(&[b"RESTORE", key.as_bytes(), b"0", &of_redis]);
            assert_eq!(restored, b"+OK\r\n", "{command:?}");
            assert_eq!(here.say(&format!("TYPE {key}")), format!("+{kind}\r\n"));
            let ours = payload(here.ask(&[b"DUMP", key.as_bytes()]));
            // Not compressed, they are the same.
            assert!(compression == "yes" || ours == of_redis, "{command:?}");
            let restored = there.ask(&[b"RESTORE", b"again", b"0", &ours, b"REPLACE"]);
            assert_eq!(restored, b"+OK\r\n", "{command:?}");
            let encoding = there.say(&format!("OBJECT ENCODING {key}"));
            assert_eq!(there.say("OBJECT ENCODING again"), encoding, "{command:?}");
            let again = payload(there.ask(&[b"DUMP", b"again"]));
            // The elements of a table may be in another order, and are compressed in it.
            if encoding.contains("hashtable") {
                assert!(
                    compression == "yes" || again.len() == of_redis.len(),
                    "{command:?}"
                );
            } else {
                assert!(again == of_redis, "{command:?}");
            }
        }
    }
}

#[test]
fn a_collection_is_a_value_as_any_other() {
    let redis = Redis::start();
    let server = TestServer::lent(&options(), Settings::default());
    let (mut there, mut here) = (Client::connect(redis.address), server.client());
    there.say("HSET hash field value");
    let dumped = payload(there.ask(&[b"DUMP", b"hash"]));
    let restore: [&[u8]; 4] = [b"RESTORE", b"whole", b"4000000000000", &dumped];
    assert_eq!(
        here.ask(&[&restore[..], &[&b"ABSTTL"[..]]].concat()),
        b"+OK\r\n"
    );
    assert_eq!(here.say("PEXPIRETIME whole"), ":4000000000000\r\n");
    let busy = b"-BUSYKEY Target key name already exists.\r\n";
    assert_eq!(here.ask(&restore), busy);
    let mut session = server.engine.session().expect("a session");
    let head = session.head(b"whole").expect("read").expect("a value");
    assert_eq!(head.value_type, ValueType::HASH);
    // In a transaction of the client, and over a string.
    assert_eq!(here.say("SET whole string"), "+OK\r\n");
    assert_eq!(here.say("MULTI"), "+OK\r\n");
    here.ask(&[b"RESTORE", b"whole", b"0", &dumped, b"REPLACE"]);
    here.say("DUMP whole");
    let reply = here.ask(&[b"EXEC"]);
    assert!(
        reply.starts_with(b"*2\r\n+OK\r\n$"),
        "{}",
        reply.escape_ascii()
    );
    assert_eq!(here.say("TYPE whole"), "+hash\r\n");
}
