//! Databases where a table of requests and replies (`tests/replies/databases.txt`) does not say it: what
//! the kernel answers, compiled functions, clients that meet, restarts, and what is counted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use bpfdb_server::settings::Settings;
use bpfdb_tests::server::procedures::{ask, back_to_kernel, load};
use bpfdb_tests::server::{Client, TestServer, kernel_calls, wait_until};

fn select(client: &mut Client, number: usize) {
    assert_eq!(client.say(&format!("SELECT {number}")), "+OK\r\n");
}

/// Asks until the kernel has answered one of these requests more.
fn kernel_says(client: &mut Client, command: &str, request: &str) -> String {
    let mut reply = String::new();
    wait_until("the kernel answers", || {
        let before = kernel_calls(client, command);
        // The connection was the daemon's for INFO.
        client.say("GET nothing");
        reply = client.say(request);
        kernel_calls(client, command) > before
    });
    reply
}

#[test]
fn the_kernel_answers_in_the_database_that_was_chosen() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    select(&mut client, 3);
    for key in ["db:k", "db:key-of-some-length"] {
        other.say(&format!("SET {key} zero"));
        assert_eq!(
            kernel_says(&mut client, "set", &format!("SET {key} three")),
            "+OK\r\n"
        );
        let get = format!("GET {key}");
        assert_eq!(kernel_says(&mut client, "get", &get), "$5\r\nthree\r\n");
        assert_eq!(kernel_says(&mut other, "get", &get), "$4\r\nzero\r\n");
    }
    // It may be asked more than once.
    kernel_says(&mut client, "hset", "HSET db:h f 1");
    assert_eq!(
        kernel_says(&mut client, "hget", "HGET db:h f"),
        "$1\r\n1\r\n"
    );
    assert_eq!(other.say("EXISTS db:h"), ":0\r\n");
}

#[test]
fn compiled_functions_work_in_the_callers_database() {
    let server = TestServer::shared();
    let mut client = server.client();
    load(
        &mut client,
        "#!lua name=databases\n\
         redis.register_function('db_add', function(keys) return redis.call('incr', keys[1]) end)",
    );
    let mut add = |number, expected| {
        select(&mut client, number);
        back_to_kernel(&mut client);
        let reply = ask(&mut client, &["FCALL", "db_add", "1", "db:counter"]);
        assert_eq!(reply.number(), Some(expected), "database {number}");
    };
    for round in 1..=4 {
        add(0, round);
        add(2, round);
        add(15, round);
    }
}

#[test]
fn what_is_counted_is_counted_for_each() {
    let server = TestServer::shared();
    let mut client = server.client();
    for (number, keys) in [(0, 2), (1, 3), (15, 1)] {
        select(&mut client, number);
        for key in 0..keys {
            client.say(&format!("SET key-that-is-long-enough-{key} v"));
            client.say(&format!("SET {key} v"));
        }
        assert_eq!(client.say("DBSIZE"), format!(":{}\r\n", 2 * keys));
    }
    let info = client.say("INFO keyspace");
    for line in ["db0:keys=4,", "db1:keys=6,", "db15:keys=2,"] {
        assert!(info.contains(line), "{info}");
    }
    select(&mut client, 1);
    client.say("DEL 0 key-that-is-long-enough-1");
    assert_eq!(client.say("DBSIZE"), ":4\r\n");
    assert_eq!(client.say("FLUSHDB"), "+OK\r\n");
    wait_until("its records are gone", || client.say("DBSIZE") == ":0\r\n");
    assert!(client.say("CLIENT INFO").contains(" db=1 "));
    select(&mut client, 15);
    assert_eq!(client.say("DBSIZE"), ":2\r\n");
    assert_eq!(client.say("FLUSHALL"), "+OK\r\n");
    wait_until("all are gone", || {
        !client.say("INFO keyspace").contains("db")
    });
}

#[test]
fn an_exchange_is_for_those_who_are_connected_and_for_later() {
    let server = TestServer::start(&bpfdb::Options::default());
    let (mut client, mut other) = (server.client(), server.client());
    client.say("SET k zero");
    select(&mut other, 1);
    other.say("SET k one");
    assert_eq!(kernel_says(&mut client, "get", "GET k"), "$4\r\nzero\r\n");
    assert_eq!(kernel_says(&mut other, "get", "GET k"), "$3\r\none\r\n");
    other.say("BEGIN");
    assert!(client.say("SWAPDB 0 1").starts_with("-CONFLICT "));
    other.say("COMMIT");
    assert_eq!(client.say("SWAPDB 0 1"), "+OK\r\n");
    assert_eq!(other.say("GET k"), "$4\r\nzero\r\n");
    assert_eq!(client.say("GET k"), "$3\r\none\r\n");
    let server = server.start_next(Settings::default());
    let mut client = server.client();
    assert_eq!(client.say("GET k"), "$3\r\none\r\n");
    select(&mut client, 1);
    assert_eq!(client.say("GET k"), "$4\r\nzero\r\n");
}

/// A block that is executed anew begins in the database in which its client was.
#[test]
fn a_block_that_meets_a_conflict_begins_where_it_began() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    select(&mut other, 4);
    for command in ["BEGIN", "SET db:locked 1"] {
        other.say(command);
    }
    client.say("MULTI");
    for command in ["SET db:first 1", "SELECT 4", "SET db:locked 2"] {
        assert_eq!(client.say(command), "+QUEUED\r\n");
    }
    let reply = client.say("EXEC");
    assert!(reply.starts_with("-CONFLICT "), "{reply}");
    assert_eq!(other.say("ROLLBACK"), "+OK\r\n");
    assert!(client.say("CLIENT INFO").contains(" db=0 "));
    assert_eq!(client.say("EXISTS db:first"), ":0\r\n");
}

/// A key as long as what reserved keys begin with, but for their zero.
#[test]
fn a_key_that_is_almost_reserved_is_counted() {
    let server = TestServer::shared();
    let mut client = server.client();
    for (key, count) in [(&b"\0bpfdb"[..], 1), (b"\0bpfd", 2), (b"\0bpfdbx", 3)] {
        assert_eq!(client.ask(&[b"set", key, b"v"]), b"+OK\r\n");
        assert_eq!(client.say("DBSIZE"), format!(":{count}\r\n"));
    }
    assert_eq!(client.ask(&[b"del", b"\0bpfdb"]), b":1\r\n");
    wait_until("two are left", || client.say("DBSIZE") == ":2\r\n");
}

/// No transaction finds its keys exchanged: of two that are written in one, both are in one database.
#[test]
fn a_transaction_has_one_database() {
    const ROUNDS: usize = 100;
    let server = TestServer::start(&bpfdb::Options::default());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let (mut client, done) = (server.client(), &done);
            scope.spawn(move || {
                for number in 0.. {
                    if done.load(Relaxed) {
                        break;
                    }
                    let begun = client.say("BEGIN");
                    assert_eq!(begun, "+OK\r\n");
                    let first = client.say(&format!("SET {name}1 {number}"));
                    let second = client.say(&format!("SET {name}2 {number}"));
                    let committed = client.say("COMMIT");
                    assert_eq!([first, second, committed].concat(), "+OK\r\n".repeat(3));
                    // Where they are now may be exchanged between two reads, and not in one.
                    let read = client.say(&format!("MGET {name}1 {name}2"));
                    let words: Vec<&str> = read.split("\r\n").skip(1).collect();
                    let half = words.len() / 2;
                    assert_eq!(words[..half], words[half..2 * half], "{read}");
                }
            });
        }
        let mut client = server.client();
        let mut exchanged = 0;
        for _ in 0..ROUNDS {
            exchanged += usize::from(client.say("SWAPDB 0 1") == "+OK\r\n");
        }
        done.store(true, Relaxed);
        assert!(exchanged > 0, "a transaction was open all the time");
    });
}
