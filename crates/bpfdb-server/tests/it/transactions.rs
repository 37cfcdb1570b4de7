//! Transactions over several requests of one connection.

use bpfdb_tests::server as common;

use std::io::Write;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use bpfdb_server::settings::Settings;
use common::{Client, TestServer, bulk, is_incremented, request, wait_until};

fn is_conflict(reply: &str) -> bool {
    let rest = reply.strip_prefix(
        "-CONFLICT another transaction has locked this key to write it; run the command again; \
         held by client ",
    );
    rest.is_some_and(|client| client.trim_end().parse::<u64>().is_ok())
}

fn pair() -> (common::Lent, Client, Client) {
    let server = TestServer::shared();
    let (a, b) = (server.client(), server.client());
    (server, a, b)
}

/// Says a command until no other client is in the way.
fn insist(client: &mut Client, command: &str) -> String {
    loop {
        let reply = client.say(command);
        if !reply.starts_with("-CONFLICT") {
            return reply;
        }
    }
}

/// Commands that read and write do both at one moment.
#[test]
fn nothing_is_lost_between_reading_and_writing() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 200;
    let server = TestServer::shared();
    let seen: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut client = server.client();
                scope.spawn(move || {
                    let round = |round| {
                        let number = thread * ROUNDS + round;
                        let set = insist(&mut client, &format!("SETBIT bits {number} 1"));
                        assert_eq!(set, ":0\r\n");
                        insist(&mut client, &format!("SETRANGE bytes {number} x"));
                        insist(&mut client, &format!("GETSET token token-number-{number}"))
                    };
                    (0..ROUNDS).map(round).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        joined.flatten().collect()
    });
    let mut client = server.client();
    let all = THREADS * ROUNDS;
    assert_eq!(client.say("BITCOUNT bits"), format!(":{all}\r\n"));
    let bytes = "x".repeat(all);
    assert_eq!(client.say("GET bytes"), format!("${all}\r\n{bytes}\r\n"));
    // Each token belonged to a client once, and the last one is still there.
    let mut tokens: Vec<String> = seen;
    tokens.push(client.say("GETDEL token"));
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), all + 1);
}

/// The transaction goes on in user space and comes back.
#[test]
fn slow_commands_inside() {
    let (_server, mut a, mut b) = pair();
    let long = vec![b'x'; 50_000];
    let mut bytes = Vec::new();
    for words in [
        &[&b"BEGIN"[..]][..],
        &[b"SET", b"si1", b"1"],
        &[b"SET", b"si2", &long],
        &[b"GET", b"si2"],
        &[b"nonsense"],
        &[b"INCR", b"si1"],
        &[b"SET", b"si3", b"3", b"NX"],
        &[b"GET", b"si1"],
        &[b"MGET", b"si1", b"si2", b"si3"],
    ] {
        bytes.extend(request(words));
    }
    a.send(&bytes);
    let long_reply = [b"$50000\r\n", &long[..], b"\r\n"].concat();
    for expected in [
        b"+OK\r\n".to_vec(),
        b"+OK\r\n".to_vec(),
        b"+OK\r\n".to_vec(),
        long_reply.clone(),
        b"-ERR unknown command 'nonsense', with args beginning with: \r\n".to_vec(),
        b":2\r\n".to_vec(),
        b"+OK\r\n".to_vec(),
        b"$1\r\n2\r\n".to_vec(),
        [b"*3\r\n$1\r\n2\r\n", &long_reply[..], b"$1\r\n3\r\n"].concat(),
    ] {
        assert!(a.reply() == expected, "{}", common::show(&expected));
    }
    assert_eq!(b.say("MGET si1 si2 si3"), "*3\r\n$-1\r\n$-1\r\n$-1\r\n");
    assert_eq!(a.say("COMMIT"), "+OK\r\n");
    assert_eq!(b.say("MGET si1 si3"), "*2\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

/// However a connection ends, its locks are gone.
#[test]
fn ends_of_connections() {
    let server = TestServer::shared();
    type End = fn(Client);
    let ways: [(&str, End); 4] = [
        ("closed", drop),
        ("reset", reset),
        ("half closed", |client| {
            client
                .stream
                .shutdown(Shutdown::Write)
                .expect("half closed");
            // Kept until the server has closed it.
            thread::spawn(move || {
                let mut client = client;
                client.until_closed();
            });
        }),
        ("quit", |mut client| {
            client.send(&request(&[b"QUIT"]));
            client.until_closed();
        }),
    ];
    for (way, end) in ways {
        for slow in [false, true] {
            let mut client = server.client();
            client.say("BEGIN");
            client.say("SET mine 1");
            if slow {
                client.say("SET mine 1 XX");
            }
            let mut other = server.client();
            assert!(is_conflict(&other.say("SET mine 2")));
            end(client);
            wait_until(&format!("the lock of a {way} connection is gone"), || {
                other.say("SET mine 2") == "+OK\r\n"
            });
            other.say("DEL mine");
        }
    }
}

/// A connection that is reset has its requests executed up to some point, and its
/// transaction is rolled back: no statement of it becomes one of its own.
#[test]
fn a_reset_leaves_nothing_of_a_transaction() {
    reset_within(8);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_reset_leaves_nothing_of_a_transaction() {
    reset_within(120);
}

/// In so many rounds at different moments.
fn reset_within(rounds: u64) {
    const STATEMENTS: usize = 900;
    /// Microseconds, within which all of a transaction is executed.
    const LONGEST: u64 = 15_000;
    let server = TestServer::shared();
    let mut other = server.client();
    for (begin, end) in [("BEGIN", "PING"), ("MULTI", "EXEC")] {
        for round in 0..rounds {
            let keys: Vec<String> = (0..STATEMENTS)
                .map(|i| format!("{begin}{round}-{i}"))
                .collect();
            let mut bytes = request(&[begin.as_bytes()]);
            for key in &keys {
                bytes.extend(request(&[b"INCRBYFLOAT", key.as_bytes(), b"1"]));
            }
            bytes.extend(request(&[end.as_bytes()]));
            let mut client = server.client();
            let address = client.stream.local_addr().expect("connected");
            client.send(&bytes);
            // Somewhere in the middle, sooner or later.
            thread::sleep(Duration::from_micros(LONGEST * round / rounds));
            reset(client);
            wait_until("the daemon has noticed", || {
                !other
                    .say("CLIENT LIST")
                    .contains(&format!("addr={address} "))
            });
            let exists = format!("EXISTS {}", keys.join(" "));
            let left = other.say(&exists);
            let whole = format!(":{STATEMENTS}\r\n");
            assert!(
                left == ":0\r\n" || (begin == "MULTI" && left == whole),
                "{begin}, round {round}: {left}"
            );
        }
    }
    assert_eq!(server.engine.stats().expect("stats").locks, 0);
}

/// A connection that the server refuses is answered by the kernel until then: not
/// in the middle of its transaction, nor without it.
#[test]
fn a_refused_connection_leaves_nothing_of_a_transaction() {
    refuse(60);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_refused_connection_leaves_nothing_of_a_transaction() {
    refuse(300);
}

fn refuse(rounds: usize) {
    let settings = Settings {
        max_clients: 1,
        ..Settings::default()
    };
    let server = TestServer::lent_new(&bpfdb::Options::default(), settings);
    let mut only = server.client();
    let keys: Vec<String> = (0..900).map(|i| format!("refused{i}")).collect();
    let exists = format!("EXISTS {}", keys.join(" "));
    assert_eq!(only.say(&exists), ":0\r\n");
    let mut bytes = request(&[b"BEGIN"]);
    for key in &keys {
        bytes.extend(request(&[b"SET", key.as_bytes(), b"v"]));
    }
    for round in 0..rounds {
        let mut client = server.client();
        let _ = client.stream.write(&bytes);
        client.try_until_closed();
        assert_eq!(only.say(&exists), ":0\r\n", "round {round}");
    }
}

fn reset(client: Client) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(&client, libc::SO_LINGER, &linger);
}

fn set_option<T>(client: &Client, option: i32, value: &T) {
    use std::os::fd::AsRawFd;
    // SAFETY: value is as long as its type.
    let result = unsafe {
        libc::setsockopt(
            client.stream.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}

#[test]
fn idle_transactions_end() {
    let server = TestServer::start(&bpfdb::Options {
        idle_limit: Duration::from_millis(500),
        ..bpfdb::Options::default()
    });
    let (mut a, mut b) = (server.client(), server.client());
    a.say("BEGIN");
    a.say("SET idle 1");
    wait_until("the lock of the idle transaction is gone", || {
        b.say("SET idle 2") == "+OK\r\n"
    });
    assert_eq!(
        a.say("GET idle"),
        "-ERR the transaction was idle for too long and was rolled back; \
         ROLLBACK it, or BEGIN it again\r\n"
    );
    a.say("ROLLBACK");
    assert_eq!(a.say("GET idle"), "$1\r\n2\r\n");
}

/// Who gets the connection from a pool does not know what was open: BEGIN begins another
/// transaction, by whomever it is answered.
#[test]
fn begin_after_an_idle_transaction() {
    let server = TestServer::start(&bpfdb::Options {
        idle_limit: Duration::from_millis(300),
        ..bpfdb::Options::default()
    });
    let (mut a, mut b) = (server.client(), server.client());
    for mode in ["BEGIN", "BEGIN READ ONLY"] {
        for by_daemon in [false, true] {
            a.say("BEGIN");
            a.say("SET idle 1");
            wait_until("the lock of the idle transaction is gone", || {
                b.say("SET idle 2") == "+OK\r\n"
            });
            let list = b.say("CLIENT LIST");
            assert!(
                list.contains("flags=x db=0 sub=0 psub=0 ssub=0 multi=-1 "),
                "{list}"
            );
            if by_daemon {
                a.say("SELECT 0");
                a.say("CLIENT REPLY ON");
            }
            assert_eq!(a.say(mode), "+OK\r\n", "{mode} {by_daemon}");
            assert_eq!(a.say("GET idle"), "$1\r\n2\r\n");
            assert_eq!(a.say("COMMIT"), "+OK\r\n");
            assert!(!b.say("CLIENT LIST").contains("flags=x"));
        }
    }
}

/// Several clients move money while others watch: none is ever missing.
#[test]
fn money_is_conserved() {
    const ACCOUNTS: usize = 8;
    const ROUNDS: usize = 300;
    let server = TestServer::shared();
    let account = |i: usize| format!("account{}", i % ACCOUNTS);
    let mut client = server.client();
    for i in 0..ACCOUNTS {
        client.say(&format!("SET {} 1000", account(i)));
    }
    let all: Vec<String> = (0..ACCOUNTS).map(account).collect();
    let mget = format!("MGET {}", all.join(" "));

    let total = |reply: &str| -> i64 {
        reply
            .split("\r\n")
            .skip(2)
            .step_by(2)
            .map(|text| text.parse::<i64>().expect("a number"))
            .sum()
    };
    thread::scope(|scope| {
        for number in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let mut done = 0;
                while done < ROUNDS {
                    let (from, to) = (account(number + done), account(number * 3 + done * 5 + 1));
                    if from == to {
                        done += 1;
                        continue;
                    }
                    client.say("BEGIN");
                    let moved = client.say(&format!("DECRBY {from} 7")).starts_with(':')
                        && client.say(&format!("INCRBY {to} 7")).starts_with(':');
                    if moved && client.say("COMMIT") == "+OK\r\n" {
                        done += 1;
                    } else {
                        client.say("ROLLBACK");
                    }
                }
            });
        }
        let (server, mget) = (&server, &mget);
        scope.spawn(move || {
            let mut client = server.client();
            for _ in 0..ROUNDS {
                assert_eq!(total(&client.say(mget)), 1000 * ACCOUNTS as i64);
            }
        });
    });
    assert_eq!(total(&client.say(&mget)), 1000 * ACCOUNTS as i64);
}

#[test]
fn counters_lose_nothing() {
    const EACH: usize = 2000;
    let server = TestServer::shared();
    let increment = || {
        let mut client = server.client();
        client.send(&request(&[b"INCR", b"counter of all"]).repeat(EACH));
        let replies = (0..EACH).map(|_| client.reply());
        replies.filter(|reply| is_incremented(reply)).count()
    };
    let incremented: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(increment)).collect();
        let incremented = clients.into_iter().map(|client| client.join());
        incremented.map(|count| count.expect("no panic")).sum()
    });
    let mut client = server.client();
    let reply = client.ask(&[b"get", b"counter of all"]);
    assert_eq!(reply, bulk(incremented.to_string().as_bytes()));
    assert!(incremented > 2 * EACH, "{incremented}");
}

/// A server with few pages to spare: memory has to be added for a value of [`LONG`] bytes.
fn without_room() -> TestServer {
    TestServer::start(&bpfdb::Options {
        memory_limit: 256 << 20,
        memory_ahead: 0,
        ..bpfdb::Options::default()
    })
}

const LONG: usize = 24 << 20;

/// A script in the client's transaction that has written, and meets memory that is only being added,
/// is not begun anew in there: INCR would count twice.
#[test]
fn a_script_that_has_written_fails_its_transaction_when_it_must_wait_for_memory() {
    let server = without_room();
    let mut client = server.client();
    let script =
        format!("redis.call('INCR', 'n') return redis.call('SET', 'big', string.rep('x', {LONG}))");
    let eval: &[&[u8]] = &[b"EVAL", script.as_bytes(), b"0"];
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    let refused = client.ask(eval);
    let text = common::show(&refused);
    assert!(text.starts_with("-ERR memory is being added; "), "{text}");
    assert!(client.say("COMMIT").starts_with('-'));
    assert_eq!(client.say("EXISTS n big"), ":0\r\n");
    // In a transaction of its own it is rolled back, and done once.
    assert_eq!(client.ask(eval), b"+OK\r\n");
    assert_eq!(client.say("GET n"), "$1\r\n1\r\n");
}

/// What does the same when it is done again waits.
#[test]
fn mset_in_a_transaction_waits_for_memory() {
    let server = without_room();
    let mut client = server.client();
    let value = vec![b'x'; LONG];
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    for words in [
        [&b"MSET"[..], b"a", b"1", b"big", &value],
        [b"MSETNX", b"b", b"1", b"great", &value],
    ] {
        assert!(matches!(&client.ask(&words)[..], b"+OK\r\n" | b":1\r\n"));
    }
    assert_eq!(client.say("COMMIT"), "+OK\r\n");
    assert_eq!(client.say("EXISTS a b big great"), ":4\r\n");
}
