//! Streams of many entries, whose blocks are in pages. What commands reply is compared with Redis by `replies` and
//! `generated`; with `BPFDB_TEST_RUN_ENTRIES` all their streams are in pages, too.

use std::collections::BTreeSet;
use std::thread;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use bpfdb_tests::server::{Client, Reply, TestServer};

use super::large_collections::{all_pages_go, asked, number, pages, shared, text};

/// Entries: some 150 blocks.
const MANY: usize = 15_000;
/// Requests that are sent at once.
const PIPELINE: usize = 500;

/// Adds entries with the identifiers `first`-0 and so on.
fn add(client: &mut Client, key: &str, first: usize, count: usize) {
    let ids: Vec<usize> = (first..first + count).collect();
    for some in ids.chunks(PIPELINE) {
        let requests = some.iter().map(|id| {
            let (id, value) = (format!("{id}-0"), format!("value {id}"));
            let words = ["XADD", key, &id, "field", &value].map(str::as_bytes);
            bpfdb_tests::server::request(&words)
        });
        client.send(&requests.collect::<Vec<_>>().concat());
        for id in some {
            let expected = format!("{id}-0");
            let reply = format!("${}\r\n{expected}\r\n", expected.len());
            assert_eq!(client.reply(), reply.as_bytes());
        }
    }
}

/// The identifiers of a reply with entries.
fn ids(reply: &Reply) -> Vec<String> {
    reply
        .items
        .iter()
        .map(|entry| text(&entry.items[0]))
        .collect()
}

fn range(client: &mut Client, command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split(' ').collect();
    ids(&asked(client, &words))
}

#[test]
fn entries_come_and_go() {
    let server = shared();
    let mut client = server.client();
    add(&mut client, "s", 1, MANY);
    assert!(pages(&server.engine) > 100);
    assert_eq!(number(&mut client, "XLEN s"), MANY as i64);
    assert_eq!(range(&mut client, "XRANGE s - + COUNT 2"), ["1-0", "2-0"]);
    assert_eq!(
        range(&mut client, "XREVRANGE s + - COUNT 2"),
        ["15000-0", "14999-0"]
    );
    assert_eq!(
        range(&mut client, "XRANGE s 7000 7002"),
        ["7000-0", "7001-0", "7002-0"]
    );
    let all: Vec<String> = (1..=MANY).map(|id| format!("{id}-0")).collect();
    assert_eq!(range(&mut client, "XRANGE s - +"), all);
    assert_eq!(number(&mut client, "XDEL s 7001-0 7001-0 20000-0"), 1);
    assert_eq!(
        range(&mut client, "XRANGE s 7000 7002"),
        ["7000-0", "7002-0"]
    );
    // Whole blocks of 100, and then to the entry.
    assert_eq!(number(&mut client, "XTRIM s MAXLEN ~ 10050 LIMIT 0"), 4900);
    assert_eq!(range(&mut client, "XRANGE s - + COUNT 1"), ["4901-0"]);
    assert_eq!(number(&mut client, "XTRIM s MINID 14951"), 10_049);
    assert_eq!(number(&mut client, "XLEN s"), 50);
    assert!(pages(&server.engine) < 10);
    assert_eq!(number(&mut client, "XTRIM s MAXLEN 0"), 50);
    assert_eq!(number(&mut client, "XLEN s"), 0);
    // Its last identifier stays.
    assert!(asked(&mut client, &["XADD", "s", "15000-0", "f", "v"]).is_error());
    add(&mut client, "s", MANY + 1, 1);
    assert_eq!(range(&mut client, "XRANGE s - +"), ["15001-0"]);
    assert_eq!(number(&mut client, "DEL s"), 1);
    all_pages_go(&server.engine);
}

#[test]
fn names_and_copies() {
    let server = shared();
    let mut client = server.client();
    add(&mut client, "s", 1, MANY);
    assert_eq!(client.say("XGROUP CREATE s g 5"), "+OK\r\n");
    let read = "XREADGROUP GROUP g one COUNT 40 STREAMS s >";
    asked(&mut client, &read.split(' ').collect::<Vec<_>>());
    assert_eq!(client.say("RENAME s renamed"), "+OK\r\n");
    assert_eq!(number(&mut client, "COPY renamed copy"), 1);
    let dump = asked(&mut client, &["DUMP", "copy"]).text;
    assert_eq!(
        client.ask(&[b"RESTORE", b"restored", b"0", &dump]),
        b"+OK\r\n"
    );
    let [one, copy, restored] = ["renamed", "copy", "restored"].map(|key| {
        let entries = client.say(&format!("XRANGE {key} - +"));
        let pending = client.say(&format!("XPENDING {key} g - + 100 one"));
        (
            entries,
            pending.matches("-0\r\n").count(),
            client.say(&format!("XLEN {key}")),
        )
    });
    assert_eq!(one.1, 40);
    assert_eq!(one, copy);
    assert_eq!(one, restored);
    // They are of their own.
    assert_eq!(number(&mut client, "XDEL copy 9-0"), 1);
    assert_eq!(number(&mut client, "XACK copy g 6-0"), 1);
    add(&mut client, "restored", MANY + 1, 1);
    assert_eq!(client.say("XRANGE renamed - +"), one.0);
    assert_eq!(number(&mut client, "DEL renamed copy restored"), 3);
    all_pages_go(&server.engine);
}

#[test]
fn a_transaction_leaves_all_or_nothing() {
    let server = shared();
    let (mut client, mut other) = (server.client(), server.client());
    // Short enough to become long in the transaction.
    add(&mut client, "s", 1, 10);
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    add(&mut client, "s", 11, 3000);
    assert_eq!(number(&mut client, "XLEN s"), 3010);
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(number(&mut client, "XLEN s"), 10);
    assert_eq!(pages(&server.engine), 0);

    add(&mut client, "s", 11, MANY);
    client.say("WATCH s");
    add(&mut other, "s", MANY + 11, 1);
    client.say("MULTI");
    client.say("XLEN s");
    assert_eq!(client.say("EXEC"), "*-1\r\n");
    client.say("WATCH s");
    assert!(asked(&mut other, &["XDEL", "s", "999999-0"]).number() == Some(0));
    client.say("MULTI");
    client.say("XLEN s");
    assert_eq!(client.say("EXEC"), format!("*1\r\n:{}\r\n", MANY + 11));
    assert_eq!(number(&mut client, "DEL s"), 1);
    all_pages_go(&server.engine);
}

/// Each entry goes to one consumer of a group, while others add entries and the stream is trimmed.
#[test]
fn a_group_delivers_each_entry_once() {
    const WRITERS: usize = 3;
    const EACH: usize = 1500;
    let server = shared();
    let mut client = server.client();
    assert_eq!(client.say("XGROUP CREATE q g 0 MKSTREAM"), "+OK\r\n");
    let value = "v".repeat(200);
    let taken: Vec<String> = thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (server, value) = (&server, &value);
            scope.spawn(move || {
                let mut client = server.client();
                for number in 0..EACH {
                    let field = format!("{writer}:{number}");
                    let reply = asked(&mut client, &["XADD", "q", "*", &field, value]);
                    assert!(!reply.is_error(), "{reply:?}");
                }
            });
        }
        let consumers = ["one", "two"].map(|name| {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let mut taken = Vec::new();
                let mut in_vain = 0;
                while in_vain < 3 {
                    let read = [
                        "XREADGROUP",
                        "GROUP",
                        "g",
                        name,
                        "COUNT",
                        "20",
                        "BLOCK",
                        "1000",
                    ];
                    let words: Vec<&str> = read.into_iter().chain(["STREAMS", "q", ">"]).collect();
                    let reply = asked(&mut client, &words);
                    let Some(stream) = reply.items.first() else {
                        in_vain += 1;
                        continue;
                    };
                    let entries = &stream.items[1].items;
                    taken.extend(entries.iter().map(|entry| text(&entry.items[1].items[0])));
                    let ids = ids(&stream.items[1]);
                    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                    let ack: Vec<&str> = ["XACK", "q", "g"].into_iter().chain(ids).collect();
                    let acked = asked(&mut client, &ack).number();
                    assert_eq!(acked, Some(entries.len() as i64));
                }
                taken
            })
        });
        let taken = consumers.map(|consumer| consumer.join().expect("no panic"));
        taken.concat()
    });
    assert_eq!(taken.len(), WRITERS * EACH);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), WRITERS * EACH);
    assert_eq!(
        asked(&mut client, &["XPENDING", "q", "g"]).items[0].number(),
        Some(0)
    );
    assert!(pages(&server.engine) > 100);
    assert_eq!(number(&mut client, "DEL q"), 1);
    all_pages_go(&server.engine);
}

/// Groups are longer than what a transaction may log, and all of it comes back.
#[test]
fn groups_of_many_bytes_come_back() {
    const NAME: usize = 5 << 20;
    const ENTRIES: usize = 300;
    let disk = SimulatedDisk::new(5);
    let server = TestServer::start_logged(&disk, Settings::default());
    let mut client = server.client();
    add(&mut client, "s", 1, ENTRIES);
    assert_eq!(client.say("XGROUP CREATE s g 0"), "+OK\r\n");
    let name = "n".repeat(NAME);
    let read = ["XREADGROUP", "GROUP", "g", &name, "STREAMS", "s", ">"];
    assert!(number(&mut client, "MEMORY USAGE s") < NAME as i64 / 10);
    assert!(!asked(&mut client, &read).is_error());
    assert!(number(&mut client, "MEMORY USAGE s") > NAME as i64);
    assert_eq!(number(&mut client, "XACK s g 77-0"), 1);
    add(&mut client, "s", ENTRIES + 1, 1);
    let before = client.say("XPENDING s g");
    let head = format!("*4\r\n:{}\r\n$3\r\n1-0\r\n$5\r\n300-0\r\n", ENTRIES - 1);
    assert!(before.starts_with(&head));
    drop(client);
    server.stop();
    let server = TestServer::start_logged(&disk, Settings::default());
    let mut client = server.client();
    assert!(client.say("XPENDING s g") == before);
    assert_eq!(number(&mut client, "XLEN s"), ENTRIES as i64 + 1);
    assert_eq!(number(&mut client, "XACK s g 77-0 78-0"), 1);
    assert_eq!(
        range(&mut client, "XREVRANGE s + - COUNT 1"),
        [format!("{}-0", ENTRIES + 1)]
    );
}
