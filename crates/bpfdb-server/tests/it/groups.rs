//! Requests of a pipeline that the daemon executes together: what each of them does and
//! says must be what it would alone.

use bpfdb_tests::server as common;

use std::thread;
use std::time::Duration;

use common::{Client, Lent, TestServer, bulk, of_command, request, words};

/// Sends commands in one message; their replies.
pub(super) fn pipeline<'a>(
    client: &mut Client,
    commands: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let requests: Vec<_> = commands.into_iter().map(words).collect();
    client.send(&requests.concat());
    let replies = requests.iter().map(|_| client.reply());
    replies
        .map(|reply| String::from_utf8_lossy(&reply).into_owned())
        .collect()
}

pub(super) fn text(value: &str) -> String {
    String::from_utf8(bulk(value.as_bytes())).expect("text")
}

/// A figure of INFO.
pub(super) fn figure(client: &mut Client, name: &str) -> u64 {
    let info = client.say("INFO everything");
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(field, _)| *field == name);
    let (_, value) = found.unwrap_or_else(|| panic!("INFO has no {name}"));
    value.parse().expect("a number")
}

fn server() -> (Lent, Client, Client) {
    let server = TestServer::shared();
    let (a, b) = (server.client(), server.client());
    (server, a, b)
}

/// As many transactions as groups, and not as requests.
#[test]
fn they_are_one_transaction() {
    let (_server, mut a, mut b) = server();
    a.say("DUMP it");
    let before = figure(&mut b, "bpfdb_operations_commit");
    let commands = vec!["INCRBYFLOAT counted 1"; 30];
    let replies = pipeline(&mut a, commands);
    assert_eq!(replies.last(), Some(&text("30")));
    let commits = figure(&mut b, "bpfdb_operations_commit") - before;
    assert!((1..=4).contains(&commits), "{commits} commits");
    assert_eq!(of_command(&mut b, "incrbyfloat", "calls"), 30);
}

#[test]
fn a_text_for_a_failure_leaves_the_others_alone() {
    let (_server, mut a, mut b) = server();
    a.say("SET word abc");
    let replies = pipeline(
        &mut a,
        [
            "INCRBYFLOAT n 1",
            "INCRBYFLOAT word 1",
            "EXPIRE n 5 NX GT",
            "INCRBYFLOAT n 1",
            "RENAME none some",
            "GET",
            "INCRBYFLOAT n 1",
        ],
    );
    assert_eq!(replies[1], "-ERR value is not a valid float\r\n");
    assert!(replies[2].starts_with("-ERR NX and XX"), "{}", replies[2]);
    assert_eq!(replies[3], text("2"));
    assert_eq!(replies[4], "-ERR no such key\r\n");
    assert!(replies[5].starts_with("-ERR wrong number"));
    assert_eq!(replies[6], text("3"));
    assert_eq!(of_command(&mut b, "incrbyfloat", "calls"), 4);
    assert_eq!(of_command(&mut b, "incrbyfloat", "failed_calls"), 1);
    let errors = b.say("INFO errorstats");
    assert!(errors.contains("errorstat_ERR:count=4"), "{errors}");
}

/// The key that somebody else has locked is the affair of those who want it.
#[test]
fn a_conflict_is_that_of_one() {
    let (_server, mut a, mut b) = server();
    b.say("BEGIN");
    b.say("SET theirs 1");
    let replies = pipeline(
        &mut a,
        [
            "INCRBYFLOAT mine 1",
            "INCRBYFLOAT theirs 1",
            "INCRBYFLOAT mine 1",
            "SET also mine",
        ],
    );
    assert_eq!(replies[0], text("1"));
    assert!(replies[1].starts_with("-CONFLICT "), "{}", replies[1]);
    assert_eq!(replies[2], text("2"));
    assert_eq!(replies[3], "+OK\r\n");
    assert_eq!(b.say("COMMIT"), "+OK\r\n");
    assert_eq!(a.say("GET theirs"), text("1"));
    assert_eq!(a.say("GET mine"), text("2"));
    assert_eq!(of_command(&mut b, "incrbyfloat", "failed_calls"), 1);
}

/// Values that do not come with the others: long, large, expired.
#[test]
fn all_lengths_are_read() {
    let (_server, mut a, _) = server();
    for (key, len) in [
        ("short", 3),
        ("inline", 16),
        ("long", 9000),
        ("slot", 65536),
    ] {
        a.ask(&[b"SET", key.as_bytes(), &vec![b'x'; len]]);
    }
    a.ask(&[b"SET", b"large", &vec![b'x'; 300_000]]);
    a.say("SET over it PX 1");
    thread::sleep(Duration::from_millis(5));
    for _ in 0..3 {
        let mut commands = vec!["OBJECT ENCODING short"];
        commands.extend([
            "STRLEN long",
            "BITPOS long 0",
            "STRLEN slot",
            "STRLEN large",
        ]);
        commands.extend([
            "STRLEN over",
            "APPEND large y",
            "STRLEN large",
            "COPY large huge",
        ]);
        commands.extend(["STRLEN huge", "SETRANGE large 299999 z", "APPEND long y"]);
        commands.extend([
            "GETRANGE large 299999 299999",
            "DEL huge",
            "SETRANGE large 300000 x",
        ]);
        let replies = pipeline(&mut a, commands);
        let first = replies[1].trim_matches([':', '\r', '\n']).parse::<u64>();
        let long = first.expect("a length");
        assert!((9000..9003).contains(&long));
        assert_eq!(replies[3], ":65536\r\n");
        assert!(
            replies[5] == ":0\r\n" && replies[8] == ":1\r\n",
            "{replies:?}"
        );
        let large: Vec<_> = [4, 6, 7, 9, 10].map(|reply| replies[reply].clone()).into();
        let len = large[1].clone();
        assert_eq!(large[1..], vec![len; 4]);
        assert_eq!(replies[11], format!(":{}\r\n", long + 1));
        assert_eq!(replies[12], text("z"));
        assert_eq!(replies[13], ":1\r\n");
        assert_eq!(a.say("STRLEN large"), large[4]);
    }
}

/// One that takes long goes on in steps, and those behind it wait for it.
#[test]
fn a_long_command_keeps_its_place() {
    let (_server, mut a, mut b) = server();
    a.ask(&[b"SET", b"a", &vec![b'a'; 900]]);
    a.ask(&[b"SET", b"b", &vec![b'b'; 900]]);
    let commands = [
        "INCRBYFLOAT n 1",
        "LCS a b LEN",
        "INCRBYFLOAT n 1",
        "LCS a a LEN",
    ];
    let commands = commands.into_iter().chain(["INCRBYFLOAT n 1", "LCS n n"]);
    let replies = pipeline(&mut a, commands);
    let (one, two, three) = (text("1"), text("2"), text("3"));
    let expected = [&*one, ":0\r\n", &two, ":900\r\n", &three, &three];
    assert_eq!(replies, expected);
    assert_eq!(of_command(&mut b, "lcs", "calls"), 3);
}

#[test]
fn hits_are_counted_once() {
    let (_server, mut a, mut b) = server();
    a.say("SET here 1");
    a.ask(&[b"SET", b"long", &[b'x'; 9000]]);
    a.ask(&[b"SET", b"large", &[b'x'; 90_000]]);
    let commands = [
        "DUMP here",
        "GET here",
        "GET none",
        "STRLEN here",
        "BITPOS none 1",
        "STRLEN long",
        "BITPOS large 0",
        "EXISTS here long",
        "EXISTS here here none none",
        "LCS wide1 wide2 LEN",
        "GET here",
    ];
    a.ask(&[b"SET", b"wide1", &[b'x'; 500]]);
    a.ask(&[b"SET", b"wide2", &[b'y'; 500]]);
    let counts = |b: &mut Client| {
        let hits = figure(b, "keyspace_hits");
        (hits, figure(b, "keyspace_misses"))
    };
    let before = counts(&mut b);
    for command in commands {
        a.send(&words(command));
        a.reply();
    }
    let alone = counts(&mut b);
    pipeline(&mut a, commands);
    let together = counts(&mut b);
    assert_eq!(together.0 - alone.0, alone.0 - before.0);
    assert_eq!(together.1 - alone.1, alone.1 - before.1);
}

/// What stands between them is executed at its place: transactions, CLIENT REPLY, PAUSE.
#[test]
fn others_keep_their_place() {
    let (_server, mut a, _) = server();
    let replies = pipeline(
        &mut a,
        [
            "INCRBYFLOAT n 1",
            "INCRBYFLOAT n 1",
            "MULTI",
            "INCRBYFLOAT n 1",
            "INCRBYFLOAT n 1",
            "EXEC",
            "INCRBYFLOAT n 1",
            "CLIENT PAUSE 50 WRITE",
            "INCRBYFLOAT n 1",
            "INCRBYFLOAT n 1",
            "BEGIN",
            "INCRBYFLOAT n 1",
            "INCRBYFLOAT n 1",
            "ROLLBACK",
            "INCRBYFLOAT n 1",
            "PING",
        ],
    );
    assert_eq!(replies[5], format!("*2\r\n{}{}", text("3"), text("4")));
    assert_eq!(replies[9], text("7"));
    assert_eq!(replies[12], text("9"));
    assert_eq!(replies[14..], [text("8"), "+PONG\r\n".into()]);
    let silent = ["CLIENT REPLY SKIP", "INCRBYFLOAT n 1", "INCRBYFLOAT n 1"];
    a.send(&silent.map(words).concat());
    assert_eq!(a.reply(), text("10").into_bytes());
}

/// Several connections add to the same numbers, in groups and in the kernel: none of the
/// additions is lost, none is done twice.
#[test]
fn nothing_is_lost_among_many() {
    const ROUNDS: usize = 150;
    let (server, mut a, _) = server();
    a.say("MSET n0 0 n1 0 n2 0 n3 0");
    let added: u64 = thread::scope(|scope| {
        let grouped = (0..3).map(|_| {
            let mut client = server.client();
            scope.spawn(move || {
                let mut added = 0;
                for round in 0..ROUNDS {
                    let commands: Vec<_> = (0..16)
                        .map(|i| format!("INCRBYFLOAT n{} 1", (i + round) % 4))
                        .collect();
                    let replies = pipeline(&mut client, commands.iter().map(|c| &**c));
                    added += replies
                        .iter()
                        .filter(|reply| !reply.starts_with('-'))
                        .count();
                }
                added as u64
            })
        });
        let plain = (0..2).map(|_| {
            let mut client = server.client();
            scope.spawn(move || {
                let mut added = 0;
                for round in 0..16 * ROUNDS {
                    let reply = client.say(&format!("INCR n{}", round % 4));
                    added += u64::from(!reply.starts_with('-'));
                }
                added
            })
        });
        let threads: Vec<_> = grouped
            .collect::<Vec<_>>()
            .into_iter()
            .chain(plain.collect::<Vec<_>>())
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("ends"))
            .sum()
    });
    let sum: u64 = (0..4)
        .map(|i| {
            let value = a.say(&format!("GETRANGE n{i} 0 -1"));
            let line = value.lines().nth(1).expect("a value").to_owned();
            line.parse::<u64>().expect("a number")
        })
        .sum();
    assert_eq!(sum, added);
    assert!(added > 16 * ROUNDS as u64, "few additions: {added}");
}

/// Replies that are long are sent before the next ones are made.
#[test]
fn long_replies_do_not_pile_up() {
    let (_server, mut a, mut b) = server();
    let value = vec![b'x'; 3 << 20];
    assert_eq!(a.ask(&[b"SET", b"big", &value]), b"+OK\r\n");
    let limit = "CONFIG SET client-output-buffer-limit";
    let set: Vec<&[u8]> = limit.split(' ').map(str::as_bytes).collect();
    assert_eq!(
        b.ask(&[&set[..], &[b"normal 16mb 0 0"]].concat()),
        b"+OK\r\n"
    );
    // As many as may wait, again and again: what was sent of them is not kept.
    for _ in 0..8 {
        a.send(&words("DUMP big").repeat(4));
        for _ in 0..4 {
            let dump = a.reply();
            assert!(dump.len() > value.len(), "{} bytes", dump.len());
        }
    }
}

/// What the engine refuses is refused to one of them.
#[test]
fn a_key_that_is_too_long_is_that_of_one() {
    let (_server, mut a, mut b) = server();
    let long = [b'k'; 600];
    for name in [&b"INCRBYFLOAT"[..], b"BITPOS"] {
        let before = of_command(&mut b, "incrbyfloat", "calls");
        let mut requests = request(&[name, b"n", b"1"]);
        requests.extend(request(&[name, &long, b"1"]));
        requests.extend(request(&[name, &long[..513], b"1"]));
        requests.extend(request(&[name, b"n", b"1"]));
        requests.extend(words("INCRBYFLOAT n 1"));
        a.send(&requests);
        let replies: Vec<_> = (0..5).map(|_| a.reply()).collect();
        for refused in &replies[1..3] {
            let text = String::from_utf8_lossy(refused);
            assert!(text.starts_with("-ERR key is empty, or longer"), "{text}");
        }
        assert_ne!(replies[3][0], b'-');
        let added = if name == b"BITPOS" { 1 } else { 5 };
        let after = of_command(&mut b, "incrbyfloat", "calls");
        assert_eq!(after - before, added);
    }
    assert_eq!(a.say("GET n"), text("4"));
}

/// What ends the connection does so at its place.
#[test]
fn the_end_keeps_its_place() {
    let (server, mut a, _) = server();
    let mut requests = words("INCRBYFLOAT n 1").repeat(3);
    requests.extend(b"*1\r\n$x\r\n");
    a.send(&requests);
    let said = String::from_utf8(a.until_closed()).expect("text");
    let counted = ["1", "2", "3"].map(text).concat();
    assert!(said.starts_with(&counted), "{said}");
    assert!(said.contains("-ERR Protocol error"), "{said}");

    let mut b = server.client();
    let requests = [
        "INCRBYFLOAT n 1",
        "INCRBYFLOAT n 1",
        "QUIT",
        "INCRBYFLOAT n 1",
    ];
    b.send(&requests.map(words).concat());
    let said = String::from_utf8(b.until_closed()).expect("text");
    assert_eq!(said, [text("4"), text("5"), "+OK\r\n".into()].concat());
    assert_eq!(server.client().say("GET n"), text("5"));
}
