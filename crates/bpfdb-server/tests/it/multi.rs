//! MULTI, EXEC, WATCH: what cannot be compared with Redis, because there is more
//! than one command at a time here, or other limits.

use bpfdb_tests::server as common;

use std::thread;
use std::time::Duration;

use common::{Client, Lent, Redis, TestServer, request, wait_until};

const QUEUED: &str = "+QUEUED\r\n";

fn pair() -> (Lent, Client, Client) {
    let server = TestServer::shared();
    let (a, b) = (server.client(), server.client());
    (server, a, b)
}

#[test]
fn commands_wait_and_are_executed_together() {
    let (_server, mut a, mut b) = pair();
    assert_eq!(a.say("MULTI"), "+OK\r\n");
    assert_eq!(a.say("SET together 1"), QUEUED);
    assert_eq!(a.say("INCR together"), QUEUED);
    assert_eq!(b.say("EXISTS together"), ":0\r\n");
    assert_eq!(a.say("EXEC"), "*2\r\n+OK\r\n:2\r\n");
    assert_eq!(b.say("GET together"), "$1\r\n2\r\n");
    // The kernel answers again.
    assert_eq!(a.say("GET together"), "$1\r\n2\r\n");
}

#[test]
fn an_expired_key_has_changed() {
    let (_server, mut a, mut b) = pair();
    // Longer and longer, until it is there when it is watched.
    let mut lives = (0..10).map(|n| 30 << n);
    let watched = lives.any(|milliseconds: u64| {
        a.say("UNWATCH");
        a.say(&format!("SET passing 1 PX {milliseconds}"));
        a.say("WATCH passing");
        a.say("EXISTS passing") == ":1\r\n"
    });
    assert!(watched);
    wait_until("it has expired", || b.say("EXISTS passing") == ":0\r\n");
    a.say("MULTI");
    assert_eq!(a.say("EXEC"), "*-1\r\n");
}

/// More keys than fit into one step of the daemon, and than a transaction names by number.
#[test]
fn many_keys_are_watched() {
    const KEYS: usize = 20_000;
    let (_server, mut a, mut b) = pair();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("many-{key}")).collect();
    let mut watch = vec![&b"WATCH"[..]];
    watch.extend(keys.iter().map(|key| key.as_bytes()));
    let watch = request(&watch);
    for block in ["GET many-0", "SET many-0 1"] {
        for written in [None, Some(0), Some(KEYS / 2), Some(KEYS - 1)] {
            // The second time they are watched already.
            for _ in 0..2 {
                a.send(&watch);
                assert_eq!(a.reply(), b"+OK\r\n");
            }
            if let Some(key) = written {
                assert_eq!(b.say(&format!("SET {} 2", keys[key])), "+OK\r\n");
            }
            assert_eq!(a.say("MULTI"), "+OK\r\n");
            assert_eq!(a.say(block), QUEUED);
            let reply = a.say("EXEC");
            assert_eq!(reply == "*-1\r\n", written.is_some(), "{block}: {reply}");
            // What was watched is no more.
            assert_eq!(b.say(&format!("SET {} 3", keys[KEYS / 3])), "+OK\r\n");
            assert_eq!(a.say("MULTI"), "+OK\r\n");
            assert_eq!(a.say("ECHO free"), QUEUED);
            assert_eq!(a.say("EXEC"), "*1\r\n$4\r\nfree\r\n");
        }
    }
}

/// Others lock the watched keys, and find that there is nothing to write.
#[test]
fn commands_in_vain_do_not_matter() {
    let (_server, mut a, mut b) = pair();
    a.say("SET vain 1");
    a.say("DEL vain-absent");
    a.say("WATCH vain vain-absent");
    for command in [
        "SETNX vain 2",
        "SET vain 2 NX",
        "SET vain-absent 2 XX",
        "DEL vain-absent",
        "GETDEL vain-absent",
        "GETEX vain PERSIST",
        "PEXPIRE vain-absent 100",
        "MSETNX other 1 vain 2",
        "RENAMENX beside vain",
        "PERSIST vain",
        "BEGIN",
        "SET vain 3",
        "SET vain-absent 3",
        "ROLLBACK",
    ] {
        b.say(command);
    }
    a.say("MULTI");
    a.say("GET vain");
    assert_eq!(a.say("EXEC"), "*1\r\n$1\r\n1\r\n");
}

/// What had expired when it was watched may be removed.
#[test]
fn the_removal_of_an_expired_key_does_not_matter() {
    let server = TestServer::shared();
    let (mut a, mut b) = (server.client(), server.client());
    b.say("SET removed 1 PX 1");
    thread::sleep(Duration::from_millis(5));
    a.say("WATCH removed");
    let removed = || server.engine.stats().expect("figures").expiring == 0;
    wait_until("it is removed", removed);
    a.say("MULTI");
    a.say("PING");
    assert_eq!(a.say("EXEC"), "*1\r\n+PONG\r\n");
}

/// Clients take turns by WATCH only: no increment is lost.
#[test]
fn optimistic_counters_lose_nothing() {
    const CLIENTS: usize = 4;
    const EACH: usize = 100;
    let server = TestServer::shared();
    server.client().say("SET optimistic 0");
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                let mut done = 0;
                while done < EACH {
                    client.say("WATCH optimistic");
                    let value = client.say("GET optimistic");
                    let value: u64 = (value.split("\r\n").nth(1))
                        .and_then(|text| text.parse().ok())
                        .expect("a number");
                    client.say("MULTI");
                    client.say(&format!("SET optimistic {}", value + 1));
                    match client.say("EXEC").as_str() {
                        "*1\r\n+OK\r\n" => done += 1,
                        "*-1\r\n" => {}
                        reply => assert!(reply.starts_with("-CONFLICT"), "{reply}"),
                    }
                }
            });
        }
    });
    assert_eq!(server.client().say("GET optimistic"), "$3\r\n400\r\n");
}

/// Money moves in MULTI; in the kernel somebody watches.
#[test]
fn money_is_conserved() {
    const ROUNDS: usize = 300;
    let server = TestServer::shared();
    server.client().say("MSET bank1 1000 bank2 1000");
    thread::scope(|scope| {
        for (from, to) in [("bank1", "bank2"), ("bank2", "bank1")] {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let (less, more) = (format!("DECRBY {from} 3"), format!("INCRBY {to} 3"));
                let mut done = 0;
                while done < ROUNDS {
                    client.say("MULTI");
                    client.say(&less);
                    client.say(&more);
                    let reply = client.say("EXEC");
                    // Or it met somebody who was interrupted.
                    let moved = reply.starts_with("*2\r\n:");
                    assert!(moved || reply.starts_with("-CONFLICT "), "{reply}");
                    done += usize::from(moved);
                }
            });
        }
        scope.spawn(|| {
            let mut client = server.client();
            for _ in 0..ROUNDS {
                let reply = client.say("MGET bank1 bank2");
                let sum: i64 = (reply.split("\r\n").skip(2).step_by(2).take(2))
                    .map(|text| text.parse::<i64>().expect("a number"))
                    .sum();
                assert_eq!(sum, 2000);
            }
        });
    });
}

#[test]
fn the_queue_is_bounded() {
    let server = TestServer::shared();
    let mut client = server.client();
    let value = vec![b'v'; 1_000_000];
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    let mut others = Vec::new();
    for _ in 0..700 {
        client.send(&request(&[b"SET", b"bounded", &value]));
        let reply = client.reply();
        if reply != b"+QUEUED\r\n" {
            others.push(String::from_utf8_lossy(&reply).into_owned());
        }
    }
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(
        others[0].starts_with("-ERR the commands queued"),
        "{others:?}"
    );
    assert_eq!(
        client.say("EXEC"),
        "-EXECABORT Transaction discarded because of previous errors.\r\n"
    );
    assert_eq!(client.say("EXISTS bounded"), ":0\r\n");
}

/// FLUSHALL by itself is not one moment: a block of nothing else is as it is.
#[test]
fn a_block_of_flushes_only() {
    let server = TestServer::shared();
    let (mut a, mut b) = (server.client(), server.client());
    for (block, replies) in [
        (&["FLUSHALL"][..], "*1\r\n+OK\r\n"),
        (
            &["FLUSHDB ASYNC", "FLUSHALL what", "FLUSHALL"],
            "*3\r\n+OK\r\n-ERR syntax error\r\n+OK\r\n",
        ),
    ] {
        for number in 0..3000 {
            b.say(&format!("SET key{number} 1"));
        }
        assert_eq!(a.say("MULTI"), "+OK\r\n");
        for command in block {
            assert_eq!(a.say(command), QUEUED);
        }
        assert_eq!(a.say("EXEC"), replies);
        assert_eq!(b.say("DBSIZE"), ":0\r\n");
    }
    assert_eq!(common::of_command(&mut b, "flushall", "calls"), 3);

    // With a watched key it is a transaction.
    b.say("SET one 1");
    assert_eq!(a.say("WATCH one"), "+OK\r\n");
    assert_eq!(a.say("MULTI"), "+OK\r\n");
    assert_eq!(a.say("FLUSHALL"), QUEUED);
    assert_eq!(a.say("EXEC"), "*1\r\n+OK\r\n");
    assert_eq!(b.say("EXISTS one"), ":0\r\n");
    b.say("SET one 1");
    // A key that another transaction holds.
    b.say("BEGIN");
    b.say("SET one 2");
    assert_eq!(a.say("MULTI"), "+OK\r\n");
    assert_eq!(a.say("FLUSHALL"), QUEUED);
    assert!(a.say("EXEC").starts_with("-CONFLICT "));
    assert_eq!(b.say("COMMIT"), "+OK\r\n");
    assert_eq!(a.say("PING"), "+PONG\r\n");
    assert_eq!(a.say("GET one"), "$1\r\n2\r\n");
}

/// Where nothing is written, there is one snapshot to scan.
#[test]
fn a_transaction_that_reads_scans_its_snapshot() {
    let server = TestServer::shared();
    let (mut a, mut b) = (server.client(), server.client());
    b.say("SET one 1");
    assert_eq!(a.say("BEGIN READ ONLY"), "+OK\r\n");
    b.say("SET two 2");
    assert_eq!(a.say("KEYS *"), "*1\r\n$3\r\none\r\n");
    assert_eq!(a.say("RANDOMKEY"), "$3\r\none\r\n");
    assert!(a.say("FLUSHALL").starts_with("-ERR write in a read-only"));
    assert_eq!(a.say("COMMIT"), "+OK\r\n");
    b.say("DEL two");

    for watched in ["", "WATCH one absent"] {
        let block = [watched, "MULTI", "GET one", "KEYS *"];
        for command in block.iter().filter(|command| !command.is_empty()) {
            a.say(command);
        }
        let expected = "*2\r\n$1\r\n1\r\n*1\r\n$3\r\none\r\n";
        assert_eq!(a.say("EXEC"), expected, "{watched}");
    }
    // What is watched and written is seen without locks.
    for change in ["SET one 1", "SET absent 1"] {
        a.say("WATCH one absent");
        b.say(change);
        a.say("MULTI");
        a.say("KEYS *");
        assert_eq!(a.say("EXEC"), "*-1\r\n", "{change}");
    }
    // A lock of somebody else is not in the way of one that only reads.
    b.say("DEL absent");
    b.say("BEGIN");
    b.say("SET one 2");
    for command in ["WATCH one", "MULTI", "KEYS o*"] {
        a.say(command);
    }
    assert_eq!(a.say("EXEC"), "*1\r\n*1\r\n$3\r\none\r\n");
    b.say("ROLLBACK");
}

/// What Redis takes for a write, and what it does not: WATCH tells.
#[test]
fn writes_that_change_nothing_are_as_in_redis() {
    const COMMANDS: &[&str] = &[
        "SETBIT bits 1 1",
        "SETBIT bits 2 0",
        "SETBIT bits 2 1",
        "SETBIT bits 100 0",
        "SETBIT none 100 0",
        "SETBIT long 5 1",
        "SETBIT long 4 0",
        "SETBIT long 4 1",
        "SETBIT timed 1 1",
        "SETRANGE bits 0 a",
        "SETRANGE bits 1 ",
        "SETRANGE none 1 ",
        "APPEND bits ",
        "APPEND none ",
        "SET bits a",
        "SET bits b NX",
        "SET none b XX",
        "SETNX bits a",
        "MSETNX bits a none b",
        "GETSET bits a",
        "GETEX bits",
        "GETEX bits PERSIST",
        "GETEX timed PERSIST",
        "GETEX dated PXAT 4102444800000",
        "GETEX dated EXAT 4102444800",
        "PEXPIREAT dated 4102444800000",
        "GETDEL none",
        "DEL none",
        "UNLINK none",
        "PERSIST bits",
        "PERSIST timed",
        "PERSIST none",
        "EXPIRE none 100",
        "EXPIRE timed 100 NX",
        "EXPIRE timed 100",
        "INCRBY number 0",
        "INCRBYFLOAT number 0",
        "COPY long bits",
        "COPY none bits REPLACE",
        "RENAMENX long bits",
        "BITOP AND none none",
        "BITOP AND bits none",
        "TOUCH bits",
    ];
    let redis = Redis::start();
    let (_server, a, b) = pair();
    let mut theirs = (
        Client::connect(redis.address),
        Client::connect(redis.address),
    );
    let mut ours = (a, b);
    for command in COMMANDS {
        let tried = |(a, b): &mut (Client, Client), in_the_kernel: bool| {
            for set in [
                "DEL none",
                "SET bits a",
                "SET number 7",
                "SET timed a EX 1000",
                "SET dated a PXAT 4102444800000",
            ] {
                b.say(set);
            }
            b.ask(&[b"SET", b"long", &[b'e'; 40]]);
            if !in_the_kernel {
                b.say("LASTSAVE");
            }
            a.say("WATCH none bits number timed dated long");
            let said = b.say(command);
            a.say("MULTI");
            a.say("PING");
            (said, a.say("EXEC"))
        };
        let expected = tried(&mut theirs, true);
        for in_the_kernel in [true, false] {
            assert_eq!(tried(&mut ours, in_the_kernel), expected, "{command}");
        }
    }
}
