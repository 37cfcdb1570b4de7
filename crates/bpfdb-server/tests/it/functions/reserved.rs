//! The key that has the functions, and all with its prefix: clients do not meet them.

use bpfdb::FUNCTIONS_KEY;

use super::common::show;
use super::{alone, ask, load};

const OTHER: &[u8] = b"\0bpfdb\0\0other";

/// Of the kernel and of the daemon, with one key or more.
const REQUESTS: &[&[&str]] = &[
    &["GET", "KEY"],
    &["SET", "KEY", "v"],
    &["SET", "KEY", "v", "EX", "10", "GET"],
    &["SETNX", "KEY", "v"],
    &["APPEND", "KEY", "v"],
    &["INCR", "KEY"],
    &["DEL", "KEY"],
    &["UNLINK", "KEY"],
    &["DEL", "a", "KEY"],
    &["EXISTS", "KEY"],
    &["EXISTS", "a", "KEY"],
    &["TOUCH", "KEY"],
    &["TTL", "KEY"],
    &["TYPE", "KEY"],
    &["STRLEN", "KEY"],
    &["EXPIRE", "KEY", "10"],
    &["PERSIST", "KEY"],
    &["GETDEL", "KEY"],
    &["GETEX", "KEY"],
    &["GETRANGE", "KEY", "0", "-1"],
    &["SETRANGE", "KEY", "0", "x"],
    &["SETBIT", "KEY", "0", "1"],
    &["GETBIT", "KEY", "0"],
    &["MGET", "a", "KEY"],
    &["MSET", "a", "1", "KEY", "v"],
    &["MSETNX", "a", "1", "KEY", "v"],
    &["RENAME", "a", "KEY"],
    &["RENAME", "KEY", "a"],
    &["COPY", "KEY", "a"],
    &["COPY", "a", "KEY"],
    &["BITOP", "NOT", "a", "KEY"],
    &["PFCOUNT", "KEY"],
    &["SORT", "KEY"],
    &["SORT", "l", "STORE", "KEY"],
    &["GEORADIUS", "z", "1", "2", "3", "m", "STORE", "KEY"],
    &["LCS", "KEY", "a"],
    &["DUMP", "KEY"],
    &["RESTORE", "KEY", "0", "x"],
    &["OBJECT", "ENCODING", "KEY"],
    &["MEMORY", "USAGE", "KEY"],
    &["WATCH", "KEY"],
    &["LOCKS", "KEY"],
    &["EVAL", "return 1", "1", "KEY"],
    &["EVAL", "return redis.call('get', ARGV[1])", "0", "KEY"],
    &["EVAL", "return redis.call('del', 'a', ARGV[1])", "0", "KEY"],
];

#[test]
fn every_path_refuses_reserved_keys() {
    let server = alone();
    let mut client = server.client();
    load(&mut client, "lib", "return 1");
    client.say("set a 1");
    for key in [FUNCTIONS_KEY, OTHER] {
        for request in REQUESTS {
            let words: Vec<&[u8]> = request
                .iter()
                .map(|&word| if word == "KEY" { key } else { word.as_bytes() })
                .collect();
            // By the kernel, if it knows the command; by the daemon, after one of its own; as a
            // part of a pipeline; queued.
            for way in ["", "dbsize", "begin", "multi"] {
                let names_it = request[0] != "EVAL" || request[2] == "1";
                if way == "multi" && !names_it {
                    // Queued: the script is refused the key when it runs.
                    continue;
                }
                if !way.is_empty() {
                    client.say(way);
                }
                let reply = show(&client.ask(&words));
                let refused = reply.starts_with("-") && reply.contains("reserved for bpfdb");
                assert!(refused, "{way} {request:?}: {reply}");
                client.say("rollback");
                if way == "multi" {
                    assert!(client.say("exec").starts_with("-EXECABORT"), "{request:?}");
                }
            }
        }
        let pipeline = super::common::request(&[b"GET", key]).repeat(5);
        client.send(&pipeline);
        for _ in 0..5 {
            assert!(show(&client.reply()).contains("reserved for bpfdb"));
        }
    }
    assert_eq!(client.say("fcall lib 0"), ":1\r\n");
    assert_eq!(client.say("get a"), "$1\r\n1\r\n");
    // What is alike is a key as any other.
    for key in [&b"\0bpfdb"[..], b"\0bpfdbx\0", b"bpfdb\0\0x"] {
        assert_eq!(client.ask(&[b"SET", key, b"v"]), b"+OK\r\n");
        assert_eq!(client.ask(&[b"GET", key]), b"$1\r\nv\r\n");
    }
}

#[test]
fn no_pattern_of_sort_reaches_them() {
    let server = alone();
    let mut client = server.client();
    load(&mut client, "lib", "return 1");
    client.ask(&[b"RPUSH", b"l", FUNCTIONS_KEY]);
    let request: [&[u8]; 7] = [b"SORT", b"l", b"BY", b"*", b"ALPHA", b"GET", b"*"];
    assert_eq!(client.ask(&request), b"*1\r\n$-1\r\n");
}

#[test]
fn no_listing_has_them() {
    let server = alone();
    let mut client = server.client();
    load(&mut client, "lib", "return 1");
    assert_eq!(client.say("dbsize"), ":0\r\n");
    assert_eq!(client.say("keys *"), "*0\r\n");
    assert_eq!(client.say("randomkey"), "$-1\r\n");
    assert!(!client.say("info keyspace").contains("db0"));
    assert_eq!(client.say("scan 0 count 1000"), "*2\r\n$1\r\n0\r\n*0\r\n");
    client.say("set a 1");
    for _ in 0..20 {
        assert_eq!(client.say("randomkey"), "$1\r\na\r\n");
    }
    assert_eq!(client.say("dbsize"), ":1\r\n");
    assert!(client.say("info keyspace").contains("keys=1,"));
    assert_eq!(
        client.say("eval return(redis.call('keys','*')) 0"),
        "*1\r\n$1\r\na\r\n"
    );
    for flush in ["flushall", "flushdb", "flushall async"] {
        client.say("set b 1");
        assert_eq!(client.say(flush), "+OK\r\n");
        assert_eq!(client.say("dbsize"), ":0\r\n");
        assert_eq!(client.say("fcall lib 0"), ":1\r\n");
    }
    client.say("multi");
    client.say("flushall");
    client.say("exec");
    assert_eq!(client.say("fcall lib 0"), ":1\r\n");
    assert_eq!(ask(&mut client, &["FUNCTION", "FLUSH"]), "+OK\r\n");
    assert_eq!(client.say("dbsize"), ":0\r\n");
}
