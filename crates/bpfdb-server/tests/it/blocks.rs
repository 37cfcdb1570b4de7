//! MULTI … EXEC in one message: what the kernel executes, and what it leaves alone.

use bpfdb_tests::server as common;

use std::thread;
use std::time::Duration;

use common::{Client, Lent, TestServer, kernel_calls, wait_until, words};

/// The requests of a transaction.
fn block<'a>(commands: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = words("MULTI");
    commands
        .into_iter()
        .for_each(|command| bytes.extend(words(command)));
    bytes.extend(words("EXEC"));
    bytes
}

/// What EXEC says when +OK and +QUEUED have come.
fn result(client: &mut Client, commands: usize) -> String {
    assert_eq!(client.reply(), b"+OK\r\n");
    for _ in 0..commands {
        assert_eq!(client.reply(), b"+QUEUED\r\n");
    }
    String::from_utf8_lossy(&client.reply()).into_owned()
}

fn transact(client: &mut Client, commands: &[&str]) -> String {
    client.send(&block(commands.iter().copied()));
    result(client, commands.len())
}

fn server() -> Lent {
    TestServer::shared()
}

/// Until the daemon has given the connection back.
fn to_kernel(client: &mut Client, other: &mut Client) {
    let before = kernel_calls(other, "ping");
    wait_until("the kernel answers again", || {
        client.say("PING");
        kernel_calls(other, "ping") > before
    });
}

#[test]
fn the_kernel_executes_them() {
    let server = server();
    let (mut a, mut b) = (server.client(), server.client());
    let snapshots = || {
        let figures = server.engine.stats().expect("figures").figures();
        let figure = figures
            .into_iter()
            .find(|figure| figure.path == "operations.begin_read_only");
        figure.expect("it is counted").value
    };
    let before = snapshots();
    for round in 1..=3 {
        let said = transact(
            &mut a,
            &["SET key value", "INCR number", "GET key", "GET none"],
        );
        assert_eq!(
            said,
            format!("*4\r\n+OK\r\n:{round}\r\n$5\r\nvalue\r\n$-1\r\n")
        );
    }
    for command in ["multi", "exec", "set", "incr"] {
        assert_eq!(kernel_calls(&mut b, command), 3, "{command}");
    }
    assert_eq!(kernel_calls(&mut b, "get"), 6);
    // With nothing in it, and reading only.
    assert_eq!(transact(&mut a, &[]), "*0\r\n");
    assert_eq!(
        transact(&mut a, &["GET key", "MGET key none"]),
        "*2\r\n$5\r\nvalue\r\n*2\r\n$5\r\nvalue\r\n$-1\r\n"
    );
    assert_eq!(kernel_calls(&mut b, "exec"), 5);
    assert_eq!(snapshots() - before, 2);
}

/// Replies that are longer than the requests, and many transactions in one message.
#[test]
fn pipelines_of_transactions() {
    let server = server();
    let mut client = server.client();
    let long = "v".repeat(1000);
    client.say(&format!("SET long {long}"));
    let one = [
        words("ECHO before"),
        block(["GET long", "SET short 1", "GET long"]),
        words("GET short"),
    ]
    .concat();
    // More than is sent at once: a transaction that is begun then is begun again.
    const TIMES: u64 = 100;
    client.send(&one.repeat(TIMES as usize));
    for _ in 0..TIMES {
        assert_eq!(client.reply(), b"$6\r\nbefore\r\n");
        let said = result(&mut client, 3);
        let bulk = format!("$1000\r\n{long}\r\n");
        assert_eq!(said, format!("*3\r\n{bulk}+OK\r\n{bulk}"));
        assert_eq!(client.reply(), b"$1\r\n1\r\n");
    }
    assert_eq!(kernel_calls(&mut client, "exec"), TIMES);
    // Nor is a GET counted that was rolled back.
    let hits = TIMES * 3;
    let stats = client.say("INFO stats");
    assert!(
        stats.contains(&format!("keyspace_hits:{hits}\r\n")),
        "{stats}"
    );
}

/// Replies of any length: the gap for them is made many times, or is used to its end.
#[test]
fn replies_of_any_length() {
    let server = server();
    let (mut client, mut other) = (server.client(), server.client());
    let mut blocks = 0;
    for length in [1, 16, 17, 22, 23, 24, 100, 300, 1000, 9000] {
        let value = "x".repeat(length);
        client.say(&format!("SET value {value}"));
        let bulk = format!("${length}\r\n{value}\r\n");
        for gets in [1, 5, 96, 200]
            .into_iter()
            .filter(|gets| gets * length < 60_000)
        {
            to_kernel(&mut client, &mut other);
            let commands = vec!["GET value"; gets];
            // In parts, so that the kernel makes one of them for the program.
            let bytes = block(commands);
            let middle = bytes.len() / 2;
            client.send(&bytes[..middle]);
            thread::sleep(Duration::from_millis(1));
            client.send(&bytes[middle..]);
            assert_eq!(
                result(&mut client, gets),
                format!("*{gets}\r\n{}", bulk.repeat(gets))
            );
            let keys = " value".repeat(gets);
            assert_eq!(
                client.say(&format!("MGET{keys}")),
                format!("*{gets}\r\n{}", bulk.repeat(gets))
            );
            blocks += 1;
        }
    }
    // Where the message ended between two commands it is the daemon's.
    let executed = kernel_calls(&mut other, "exec");
    assert!(executed > blocks / 2, "{executed} of {blocks}");
}

/// More commands than the kernel remembers, and more replies than it sends at once.
#[test]
fn too_much_for_the_kernel() {
    let server = server();
    let (mut client, mut other) = (server.client(), server.client());
    for (commands, in_kernel) in [(255, 1), (256, 1), (300, 1), (255, 2)] {
        to_kernel(&mut client, &mut other);
        client.send(&block(vec!["INCR many"; commands]));
        let said = result(&mut client, commands);
        assert!(said.starts_with(&format!("*{commands}\r\n:")), "{said}");
        assert_eq!(
            kernel_calls(&mut other, "exec"),
            in_kernel,
            "{commands} commands"
        );
    }
    assert_eq!(client.say("GET many"), "$4\r\n1066\r\n");
    client.say(&format!("SET big {}", "b".repeat(20_000)));
    to_kernel(&mut client, &mut other);
    let said = transact(
        &mut client,
        &[
            "INCR many",
            "GET big",
            "GET big",
            "GET big",
            "GET big",
            "INCR many",
        ],
    );
    assert!(said.starts_with("*6\r\n:1067\r\n$20000\r\n"));
    assert!(said.ends_with("b\r\n:1068\r\n"));
    assert_eq!(kernel_calls(&mut other, "exec"), 2);
}

/// Whatever the kernel does not do, or not to its end, is as if it had not begun.
#[test]
fn the_daemon_executes_the_others() {
    let server = server();
    let (mut client, mut other) = (server.client(), server.client());
    client.say("SET word abc");
    let cases: [(&[&str], &str); 7] = [
        (
            &["INCR n", "INCR word", "INCR n"],
            "*3\r\n:1\r\n-ERR value is not an integer or out of range\r\n:2\r\n",
        ),
        (&["INCR n", "OBJECT REFCOUNT word"], "*2\r\n:3\r\n:1\r\n"),
        (&["INCR n", "LCS word word LEN"], "*2\r\n:4\r\n:3\r\n"),
        (
            &["INCR n", "SET word abc EX 100 GT", "GET word"],
            "*3\r\n:5\r\n-ERR syntax error\r\n$3\r\nabc\r\n",
        ),
        (&["INCR n", "SELECT 0"], "*2\r\n:6\r\n+OK\r\n"),
        (
            &[
                "GETDEL word",
                "SET word new GET",
                "GETEX n EX 9",
                "PERSIST n",
                "OBJECT REFCOUNT n",
            ],
            "*5\r\n$3\r\nabc\r\n$-1\r\n$1\r\n6\r\n:1\r\n:1\r\n",
        ),
        (&["INCR n"], "*1\r\n:7\r\n"),
    ];
    for (commands, expected) in cases {
        to_kernel(&mut client, &mut other);
        // Behind a request that the kernel answers.
        client.send(&[words("ECHO first"), block(commands.iter().copied())].concat());
        assert_eq!(client.reply(), b"$5\r\nfirst\r\n");
        assert_eq!(result(&mut client, commands.len()), expected);
    }
    assert_eq!(kernel_calls(&mut other, "exec"), 1);

    // What is refused when it is queued, and what ends without EXEC.
    let refused = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    for wrong in ["NONSENSE", "GET", "MULTI", "BEGIN"] {
        to_kernel(&mut client, &mut other);
        client.send(&block(["INCR n", wrong]));
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(client.reply(), b"+QUEUED\r\n");
        assert!(client.reply().starts_with(b"-ERR "), "{wrong}");
        let said = String::from_utf8_lossy(&client.reply()).into_owned();
        match wrong {
            // Redis too goes on after that.
            "MULTI" => assert_eq!(said, "*1\r\n:8\r\n"),
            _ => assert_eq!(said, refused, "{wrong}"),
        }
    }
    client.send(&[words("MULTI"), words("INCR n"), words("DISCARD")].concat());
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.reply(), b"+QUEUED\r\n");
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.say("EXEC"), "-ERR EXEC without MULTI\r\n");
    assert_eq!(client.say("GET n"), "$1\r\n8\r\n");
}

/// The end of a message may be anywhere.
#[test]
fn split_transactions() {
    let server = server();
    let bytes = [
        words("PING"),
        block(["INCR split", "GET split"]),
        words("PING"),
    ]
    .concat();
    for at in 1..bytes.len() {
        let mut client = server.client();
        client.send(&bytes[..at]);
        // So that they do not arrive together.
        if at % 8 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
        client.send(&bytes[at..]);
        assert_eq!(client.reply(), b"+PONG\r\n");
        let length = at.to_string().len();
        let expected = format!("*2\r\n:{at}\r\n${length}\r\n{at}\r\n");
        assert_eq!(result(&mut client, 2), expected);
        assert_eq!(client.reply(), b"+PONG\r\n");
    }
    let executed = kernel_calls(&mut server.client(), "exec");
    assert!(executed > bytes.len() as u64 / 2, "{executed}");
}

/// The kernel answers GET between WATCH and MULTI, but EXEC compares.
#[test]
fn watched_keys_are_compared() {
    let server = server();
    let (mut a, mut b) = (server.client(), server.client());
    for (written, expected) in [
        (true, "*-1\r\n"),
        (false, "*1\r\n+OK\r\n"),
        (true, "*-1\r\n"),
    ] {
        b.say("SET watched 1");
        a.say("WATCH watched");
        to_kernel(&mut a, &mut b);
        if written {
            b.say("INCR watched");
        }
        assert_eq!(transact(&mut a, &["SET watched 7"]), expected);
        let value = if written { 2 } else { 7 };
        assert_eq!(b.say("GET watched"), format!("$1\r\n{value}\r\n"));
    }
    assert_eq!(kernel_calls(&mut b, "exec"), 0);
    // Then nothing is watched any more, nor after any of these.
    for (ways, forget) in (1..).zip(["PING", "UNWATCH", "DISCARD", "RESET"]) {
        if forget != "PING" {
            a.say("WATCH watched");
        }
        if forget == "DISCARD" {
            a.say("MULTI");
        }
        a.say(forget);
        to_kernel(&mut a, &mut b);
        b.say("INCR watched");
        assert_eq!(transact(&mut a, &["SET watched 7"]), "*1\r\n+OK\r\n");
        assert_eq!(kernel_calls(&mut b, "exec"), ways, "{forget}");
    }
}

/// A lock that stays is a conflict; nothing was executed, and nothing is locked.
#[test]
fn a_conflict_rolls_back() {
    let server = server();
    let (mut a, mut b, mut c) = (server.client(), server.client(), server.client());
    b.say("BEGIN");
    b.say("SET held theirs");
    for _ in 0..3 {
        to_kernel(&mut a, &mut c);
        let said = transact(&mut a, &["SET mine 1", "SET held mine"]);
        assert!(said.starts_with("-CONFLICT "), "{said}");
    }
    // A client that only reads sees what was committed.
    assert_eq!(
        transact(&mut a, &["GET held", "GET mine"]),
        "*2\r\n$-1\r\n$-1\r\n"
    );
    assert_eq!(b.say("SET mine 2"), "+OK\r\n");
    assert_eq!(b.say("COMMIT"), "+OK\r\n");
    assert_eq!(a.say("MGET held mine"), "*2\r\n$6\r\ntheirs\r\n$1\r\n2\r\n");
    let inside = transact(&mut a, &["GET held"]);
    assert_eq!(inside, "*1\r\n$6\r\ntheirs\r\n");
}

#[test]
fn inside_begin_they_are_refused() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("BEGIN");
    client.send(&block(["SET inside 1"]));
    let refused = "-ERR MULTI inside BEGIN is not allowed; COMMIT or ROLLBACK first\r\n";
    assert_eq!(client.reply(), refused.as_bytes());
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.reply(), b"-ERR EXEC without MULTI\r\n");
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(client.say("EXISTS inside"), ":0\r\n");
}

#[test]
fn nulls_of_resp3() {
    let server = server();
    let mut client = server.client();
    client.say("HELLO 3");
    to_kernel(&mut client, &mut server.client());
    for _ in 0..2 {
        assert_eq!(
            transact(&mut client, &["GET none", "PING"]),
            "*2\r\n_\r\n+PONG\r\n"
        );
    }
    assert_eq!(kernel_calls(&mut client, "exec"), 2);
}

/// Transfers in pipelines, and readers that add up: in each transaction the sum is the
/// same, in whichever way it is executed.
#[test]
fn money_is_conserved() {
    const ACCOUNTS: usize = 4;
    const ROUNDS: usize = 200;
    const PIPELINE: usize = 8;
    let server = server();
    let mut client = server.client();
    for account in 0..ACCOUNTS {
        client.say(&format!("SET account{account} 1000"));
    }
    thread::scope(|scope| {
        for writer in 0..3 {
            let server = &server;
            scope.spawn(move || move_money(&mut server.client(), writer));
        }
        scope.spawn(|| {
            let mut client = server.client();
            let read: Vec<String> = (0..ACCOUNTS).map(|n| format!("GET account{n}")).collect();
            for _ in 0..ROUNDS {
                client.send(&block(read.iter().map(String::as_str)).repeat(PIPELINE));
                for _ in 0..PIPELINE {
                    assert_eq!(sum(&result(&mut client, ACCOUNTS)), 4000);
                }
            }
        });
    });
    let all = client.say("MGET account0 account1 account2 account3");
    assert_eq!(sum(&all), 4000);
    assert!(kernel_calls(&mut client, "exec") > (ROUNDS * PIPELINE) as u64);
    wait_until("old versions are gone", || {
        server.engine.stats().expect("figures").history_versions == 0
    });

    fn move_money(client: &mut Client, writer: usize) {
        for round in 0..ROUNDS {
            let (from, to) = ((round + writer) % ACCOUNTS, (round * 3 + 1) % ACCOUNTS);
            let (less, more) = (
                format!("DECRBY account{from} 7"),
                format!("INCRBY account{to} 7"),
            );
            client.send(&block([less.as_str(), more.as_str()]).repeat(PIPELINE));
            for _ in 0..PIPELINE {
                let said = result(client, 2);
                let moved = said.starts_with("*2\r\n:");
                assert!(moved || said.starts_with("-CONFLICT "), "{said}");
            }
        }
    }

    fn sum(reply: &str) -> i64 {
        (reply.split("\r\n").skip(2).step_by(2).take(ACCOUNTS))
            .map(|text| text.parse::<i64>().expect("a number"))
            .sum()
    }
}
