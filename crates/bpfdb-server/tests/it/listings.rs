//! Transactions that list keys, and write: nobody else makes a key come or go until they end.

use bpfdb_tests::server as common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{Client, Redis, TestServer, show, wait_until};

use crate::scripts::eval;

const SCANNED: &str =
    "-CONFLICT a transaction that is not over has listed the keys of this database; ";

/// KEYS, another client's SET, KEYS: the second would show a key that the first did not.
#[test]
fn a_transaction_that_writes_keeps_the_keys_that_it_lists() {
    let server = TestServer::shared();
    let (mut a, mut b) = (server.client(), server.client());
    b.say("SET one 1");
    // All of the index, which has had keys of others, in one pass.
    for scan in ["KEYS *", "SCAN 0 COUNT 10000000", "RANDOMKEY"] {
        assert_eq!(a.say("BEGIN"), "+OK\r\n");
        let found = a.say(scan);
        assert!(found.ends_with("$3\r\none\r\n"), "{scan}: {found}");
        for change in [
            "SET two 2",
            "DEL one",
            "EXPIRE one 1000",
            "SET one 2 EX 1000",
            "HSET h f v",
        ] {
            let reply = b.say(change);
            assert!(reply.starts_with(SCANNED), "{scan}, {change}: {reply}");
            assert!(reply.contains("held by client "), "{reply}");
        }
        // Values change, other databases too.
        assert_eq!(b.say("SET one 1"), "+OK\r\n", "{scan}");
        assert_eq!(b.say("SELECT 5"), "+OK\r\n");
        assert_eq!(b.say("SET two 2"), "+OK\r\n", "{scan}");
        assert_eq!(b.say("SELECT 0"), "+OK\r\n");
        // One that reads sees a snapshot, and is in nobody's way; one that writes is.
        assert_eq!(b.say(scan), found, "{scan}");
        assert_eq!(b.say("BEGIN"), "+OK\r\n");
        assert!(b.say(scan).starts_with(SCANNED), "{scan}");
        assert_eq!(b.say("ROLLBACK"), "+OK\r\n");
        assert_eq!(a.say(scan), found, "{scan}");
        assert_eq!(a.say("COMMIT"), "+OK\r\n");
        assert_eq!(b.say("SET two 2"), "+OK\r\n", "{scan}");
        assert_eq!(b.say("DEL two"), ":1\r\n", "{scan}");
    }
}

/// A key that has come, in a transaction that is open, is neither there nor not.
#[test]
fn a_listing_meets_what_is_not_decided() {
    let server = TestServer::shared();
    let (mut a, mut b) = (server.client(), server.client());
    b.say("MSET one 1 two 2");
    for (change, is_met) in [
        ("SET three 3", true),
        ("DEL one", true),
        ("SET one 3", false),
    ] {
        b.say("BEGIN");
        b.say(change);
        for command in ["MULTI", "SET own 1", "KEYS *"] {
            a.say(command);
        }
        let reply = a.say("EXEC");
        assert_eq!(reply.starts_with("-CONFLICT "), is_met, "{change}: {reply}");
        b.say("ROLLBACK");
        a.say("DEL own");
    }
}

#[test]
fn what_a_block_lists_it_may_delete() {
    let server = TestServer::shared();
    let (mut a, mut b) = (server.client(), server.client());
    b.say("MSET one 1 two 2");
    for command in [
        "MULTI",
        "SET three 3",
        "DEL one",
        "KEYS *",
        "FLUSHALL",
        "KEYS *",
        "SET four 4",
        "KEYS *",
    ] {
        a.say(command);
    }
    let reply = a.say("EXEC");
    assert!(reply.starts_with("*7\r\n+OK\r\n:1\r\n*2\r\n"), "{reply}");
    assert!(
        reply.ends_with("+OK\r\n*0\r\n+OK\r\n*1\r\n$4\r\nfour\r\n"),
        "{reply}"
    );
    assert_eq!(b.say("KEYS *"), "*1\r\n$4\r\nfour\r\n");
    // All of it, or nothing.
    for command in ["BEGIN", "FLUSHALL", "SET five 5"] {
        assert_eq!(a.say(command), "+OK\r\n");
    }
    assert_eq!(a.say("KEYS *"), "*1\r\n$4\r\nfive\r\n");
    assert_eq!(a.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(b.say("KEYS *"), "*1\r\n$4\r\nfour\r\n");
    // Another database's are not deleted by FLUSHDB.
    b.say("SELECT 3");
    b.say("SET third 3");
    for command in ["MULTI", "FLUSHDB", "SET six 6"] {
        a.say(command);
    }
    assert_eq!(a.say("EXEC"), "*2\r\n+OK\r\n+OK\r\n");
    assert_eq!(a.say("KEYS *"), "*1\r\n$3\r\nsix\r\n");
    assert_eq!(b.say("KEYS *"), "*1\r\n$5\r\nthird\r\n");
}

/// A client that lists keys and vanishes hinders nobody.
#[test]
fn what_a_lost_client_has_listed_is_free() {
    let server = TestServer::shared();
    let (mut a, mut b) = (server.client(), server.client());
    a.say("BEGIN");
    a.say("KEYS *");
    assert!(b.say("SET one 1").starts_with(SCANNED));
    drop(a);
    wait_until("the session is closed", || b.say("SET one 1") == "+OK\r\n");
}

#[test]
fn a_script_may_delete_everything() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("SET gone 1");
    let script = "redis.call('set', 'too', '1') redis.call('flushall') redis.call('set', 'new', '2') \
                  return redis.call('keys', '*')";
    let reply = eval(&mut client, script, &[], &[]);
    assert_eq!(reply, b"*1\r\n$3\r\nnew\r\n", "{}", show(&reply));
    assert_eq!(client.say("EXISTS gone too new"), ":1\r\n");
}

/// Find, then delete, or write.
#[test]
fn a_script_that_writes_lists_keys() {
    let (server, redis) = (TestServer::shared(), Redis::start());
    let find = "local n = 0 for _, k in ipairs(redis.call('KEYS', ARGV[1])) do \
                redis.call('DEL', k) n = n + 1 end return n";
    let scan = "local cursor, n = '0', 0 repeat local r = redis.call('SCAN', cursor, 'MATCH', ARGV[1]) \
                cursor = r[1] for _, k in ipairs(r[2]) do n = n + redis.call('DEL', k) end \
                until cursor == '0' return n";
    let count = "redis.call('SET', KEYS[1], 'c') redis.call('SET', KEYS[1], #redis.call('KEYS', '*')) \
                 return redis.call('GET', KEYS[1])";
    let any = "local k = redis.call('RANDOMKEY') redis.call('DEL', k) return {k, redis.call('EXISTS', k)}";
    for mut client in [server.client(), Client::connect(redis.address)] {
        for script in [find, scan] {
            for i in 0..300 {
                client.say(&format!("set session:{i} v"));
            }
            client.say("set kept v");
            assert_eq!(eval(&mut client, script, &[], &["session:*"]), b":300\r\n");
            assert_eq!(eval(&mut client, script, &[], &["session:*"]), b":0\r\n");
            assert_eq!(client.say("keys *"), "*1\r\n$4\r\nkept\r\n");
        }
        assert_eq!(eval(&mut client, count, &["count"], &[]), b"$1\r\n2\r\n");
        assert_eq!(client.say("del count"), ":1\r\n");
        let expected = b"*2\r\n$4\r\nkept\r\n:0\r\n";
        assert_eq!(eval(&mut client, any, &[], &[]), expected);
        // Within a block, and within a transaction.
        client.say("mset a:1 v a:2 v");
        client.say("multi");
        assert_eq!(eval(&mut client, find, &[], &["a:*"]), b"+QUEUED\r\n");
        assert_eq!(client.say("exec"), "*1\r\n:2\r\n");
        client.say("select 1");
        client.say("set a:3 v");
        assert_eq!(eval(&mut client, find, &[], &["*"]), b":1\r\n");
        client.say("select 0");
    }
    let mut client = server.client();
    client.say("mset a:1 v a:2 v");
    client.say("begin");
    assert_eq!(eval(&mut client, find, &[], &["a:*"]), b":2\r\n");
    client.say("rollback");
    assert_eq!(client.say("exists a:1 a:2"), ":2\r\n");
}

/// Counters and sweepers, which list keys, beside clients that make keys come and go: in a serial order the
/// values of the entries that a sweeper finds are 0, 1, 2 …, and of a pair there are both keys or none.
#[test]
fn scripts_that_list_keys_are_serializable() {
    const ENTRIES: usize = 150;
    let count = "local n = #redis.call('KEYS', 'entry:*') redis.call('SET', KEYS[1], n) return n";
    let sweep = "local found, pairs = {}, 0 for _, k in ipairs(redis.call('KEYS', '*')) do \
                 if k:sub(1, 6) == 'entry:' then \
                 found[#found + 1] = redis.call('GETDEL', k) end \
                 if k == 'pair:c' or k == 'pair:d' then pairs = pairs + 1 end end \
                 return {pairs, unpack(found)}";
    let server = TestServer::shared();
    let stop = AtomicBool::new(false);
    let until_done = |client: &mut Client, script: &str, key: &str| loop {
        let reply = eval(client, script, &[key], &[]);
        if !reply.starts_with(b"-CONFLICT ") {
            return reply;
        }
    };
    thread::scope(|scope| {
        let (server, stop, until_done) = (&server, &stop, &until_done);
        let counters = [1, 2].map(|number| {
            scope.spawn(move || {
                let mut client = server.client();
                for entry in 0..ENTRIES {
                    let key = format!("entry:{number}:{entry}");
                    let reply = until_done(&mut client, count, &key);
                    assert!(reply.starts_with(b":"), "{}", show(&reply));
                }
            })
        });
        let go_on = move || !stop.load(Ordering::Relaxed);
        scope.spawn(move || {
            let mut client = server.client();
            while go_on() {
                for command in ["SET pair:a 1", "SET pair:b 1", "DEL pair:a pair:b"] {
                    let reply = client.say(command);
                    assert!(
                        reply.starts_with(['+', ':']) || reply.starts_with("-CONFLICT"),
                        "{reply}"
                    );
                }
                client.say("MULTI");
                client.say("SET pair:c 1");
                client.say("SET pair:d 1");
                client.say("EXEC");
                client.say("DEL pair:c pair:d");
            }
        });
        let sweeper = scope.spawn(move || {
            let mut client = server.client();
            let mut swept = 0;
            loop {
                // What is counted from here on is swept next time.
                let is_last = !go_on();
                let reply = until_done(&mut client, sweep, "unused");
                swept += check_swept(&reply);
                if is_last {
                    return swept;
                }
            }
        });
        for counter in counters {
            counter.join().expect("it counts");
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sweeper.join().expect("it sweeps"), 2 * ENTRIES);
    });
}

/// The number of entries that a sweeper has found.
fn check_swept(reply: &[u8]) -> usize {
    let text = String::from_utf8_lossy(reply);
    assert!(text.starts_with('*'), "{text}");
    let mut lines = text.split("\r\n").skip(1);
    let pairs = lines.next().expect("the number of keys of pairs");
    assert!([":0", ":2"].contains(&pairs), "half of a block: {text}");
    let mut values: Vec<usize> = lines
        .filter(|line| !line.starts_with('$') && !line.is_empty())
        .map(|value| value.parse().expect("a number"))
        .collect();
    values.sort_unstable();
    assert!(values.iter().copied().eq(0..values.len()), "{values:?}");
    values.len()
}
