//! Large collections in a small memory: what earlier ones have left is no reason to refuse a write. Live data, a copy
//! of what is written anew, and what a command changes have room in it.

use std::time::{Duration, Instant};

use bpfdb::Status;
use bpfdb_server::settings::Settings;
use bpfdb_tests::server::lent::logged;
use bpfdb_tests::server::{Client, Lent, TestServer, request, wait_until};

const LIMIT: u64 = 32 << 20;
const OOM: &[u8] = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";
/// Elements of one command.
const SOME: usize = 200;
/// Commands of a pipeline.
const PIPELINE: usize = 6;

fn options() -> bpfdb::Options {
    bpfdb::Options {
        memory_limit: LIMIT,
        ..bpfdb::Options::default()
    }
}

fn server() -> Lent {
    TestServer::lent(&options(), Settings::default())
}

/// One with an engine of its own: what there is room for depends on what has been there.
fn server_alone() -> TestServer {
    TestServer::start(&options())
}

#[track_caller]
fn say(client: &mut Client, command: &str) -> String {
    let reply = client.say(command);
    assert!(!reply.starts_with('-'), "{command}: {reply}");
    reply
}

/// One command for the elements of these numbers.
fn command(start: &str, elements: impl Iterator<Item = usize>, words: Words) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = start.split(' ').map(|word| word.into()).collect();
    elements.for_each(|n| all.extend(words(n)));
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    request(&all)
}

type Words = fn(usize) -> Vec<Vec<u8>>;

/// A score that is anywhere, and a member.
fn scattered(n: usize) -> Vec<Vec<u8>> {
    let score = n as u64 * 2_654_435_761 % (1 << 31);
    vec![score.to_string().into(), format!("member:{n:08}").into()]
}

fn pair(n: usize) -> Vec<Vec<u8>> {
    vec![format!("field {n}").into(), format!("value {n}").into()]
}

fn single(n: usize) -> Vec<Vec<u8>> {
    vec![format!("element {n}").into()]
}

/// So many elements, some in a command, and some commands in a pipeline.
#[track_caller]
fn fill(client: &mut Client, start: &str, elements: usize, words: Words) {
    let mut firsts = (0..elements).step_by(SOME).peekable();
    while firsts.peek().is_some() {
        let some = firsts.by_ref().take(PIPELINE);
        let commands: Vec<Vec<u8>> = some
            .map(|first| command(start, first..elements.min(first + SOME), words))
            .collect();
        client.send(&commands.concat());
        for _ in &commands {
            let reply = client.reply();
            assert_ne!(reply.first(), Some(&b'-'), "{start}: {}", text(&reply));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Commands that each change pages all over a collection.
#[test]
fn scattered_elements_of_one_command() {
    const ELEMENTS: usize = 24_000;
    for (start, words) in [
        ("ZADD k", scattered as Words),
        ("HSET k", pair),
        ("SADD k", single),
        ("RPUSH k", single),
    ] {
        let server = server();
        let mut client = server.client();
        fill(&mut client, start, ELEMENTS, words);
        // Overwritten, or added at the end of the list.
        fill(&mut client, start, ELEMENTS / 4, words);
        let (count, all) = match &start[..1] {
            "Z" => ("ZCARD k", ELEMENTS),
            "H" => ("HLEN k", ELEMENTS),
            "S" => ("SCARD k", ELEMENTS),
            _ => ("LLEN k", ELEMENTS + ELEMENTS / 4),
        };
        assert_eq!(client.say(count), format!(":{all}\r\n"));
    }
}

/// Each way in which a collection gives place to another one, again and again.
#[test]
fn collections_come_and_go() {
    const ELEMENTS: usize = 20_000;
    let server = server();
    let mut client = server.client();
    for round in 0..8 {
        fill(&mut client, "ZADD big", ELEMENTS, scattered);
        let count = format!(":{ELEMENTS}\r\n");
        assert_eq!(client.say("ZCARD big"), count, "round {round}");
        match round % 4 {
            0 => say(&mut client, "DEL big"),
            1 => say(&mut client, "SET big string"),
            2 => say(&mut client, "PEXPIRE big 1"),
            _ => say(&mut client, "RENAME big old"),
        };
        say(&mut client, "DEL big");
    }
}

/// Commands that write all of a collection anew.
#[test]
fn written_anew_in_a_loop() {
    const ELEMENTS: usize = 40_000;
    let server = server();
    let mut client = server.client();
    fill(&mut client, "ZADD big", ELEMENTS, scattered);
    say(&mut client, "ZADD other 1 one");
    let all = format!(":{}\r\n", ELEMENTS + 1);
    for _ in 0..12 {
        assert_eq!(say(&mut client, "ZUNIONSTORE big 2 big other"), all);
    }
    // As commands of a block, and of a script.
    for _ in 0..4 {
        say(&mut client, "MULTI");
        say(&mut client, "SET before 1");
        say(&mut client, "ZUNIONSTORE big 2 big other");
        let reply = say(&mut client, "EXEC");
        assert!(reply.ends_with(&all), "{reply}");
        let script = "return redis.call('ZUNIONSTORE', 'big', 2, 'big', 'other')";
        let reply = client.ask(&[b"EVAL", script.as_bytes(), b"2", b"big", b"other"]);
        assert_eq!(text(&reply), all);
    }
}

const VALUE: [u8; 1000] = [b'v'; 1000];

fn set(client: &mut Client, key: &str) -> String {
    text(&client.ask(&[b"SET", key.as_bytes(), &VALUE]))
}

/// Fills memory until nothing is left to be given back: how many keys that are. What older versions took comes back a
/// little later, and each processor keeps some room, so now and then one more has room behind one that had none.
fn fill_memory(server: &TestServer, client: &mut Client) -> usize {
    const IN_A_ROW: usize = 300;
    let (mut keys, mut refused) = (0, 0);
    for n in 0.. {
        if set(client, &format!("key of many bytes: {n}")) == "+OK\r\n" {
            (keys, refused) = (keys + 1, 0);
            continue;
        }
        refused += 1;
        if refused == 1 {
            server.engine.sweep().expect("swept");
        }
        if refused == IN_A_ROW {
            break;
        }
    }
    assert!(server.engine.has_all_memory());
    keys
}

/// Memory that is full of other things is said to be full, and not much later; and when a collection goes, of which the
/// kernel tells nobody, there is room.
#[test]
fn full_memory_is_said_until_a_collection_goes() {
    let server = server_alone();
    let mut client = server.client();
    fill(&mut client, "HSET big", 20_000, pair);
    let keys = fill_memory(&server, &mut client);
    assert!(keys > 10_000, "{keys} keys");
    let begun = Instant::now();
    // Another key each time: what is there may be written again.
    for n in 0..100 {
        let key = format!("another key of many bytes: {n}");
        assert_eq!(set(&mut client, &key), text(OOM), "{key}");
    }
    assert!(begun.elapsed() < Duration::from_secs(25));
    // So it is to a program that embeds the engine.
    let mut session = server.engine.session().expect("a session");
    for n in 0..10 {
        let key = format!("of a program: {n}");
        let set = session.set(key.as_bytes(), &VALUE);
        assert_eq!(set, Err(Status::OutOfMemory), "{key}");
    }
    drop(session);
    // What frees memory needs none, and is one transaction.
    let names = [1, 2, 3].map(|n| format!("key of many bytes: {n}"));
    let [first, second, third] = names.each_ref().map(|name| name.as_bytes());
    let deleted = client.ask(&[b"DEL", first, second, third]);
    assert_eq!(text(&deleted), ":3\r\n");
    assert_eq!(say(&mut client, "HLEN big"), ":20000\r\n");
    say(&mut client, "DEL big");
    for key in 0..100 {
        let key = format!("new key:{key}");
        // Of the size that the pages of the collection had.
        let reply = client.ask(&[b"SET", key.as_bytes(), &[b'v'; 2000]]);
        assert_eq!(text(&reply), "+OK\r\n", "{key}");
    }
}

/// A snapshot keeps the pages of a collection that has gone. What finds no memory for that says so, and the collector,
/// which removes the pages, is not held up: when the snapshot has ended there is room.
#[test]
fn a_snapshot_keeps_what_is_collected() {
    let server = server_alone();
    let mut client = server.client();
    fill(&mut client, "HSET big", 60_000, pair);
    let mut snapshot = server.engine.session().expect("a session");
    snapshot.begin_read_only().expect("a snapshot");
    assert!(snapshot.head(b"big").expect("read").is_some());
    say(&mut client, "DEL big");
    let keys = fill_memory(&server, &mut client);
    for n in 0..20 {
        let key = format!("another key of many bytes: {n}");
        assert_eq!(set(&mut client, &key), text(OOM), "{key}");
    }
    // The snapshot has all of it.
    assert!(snapshot.head(b"big").expect("read").is_some());
    snapshot.commit().expect("ended");
    drop(snapshot);
    // As much as the collection took: some 2 MB. Not at once: versions go one after the other.
    let mut more = 0;
    wait_until("there is room", || {
        while set(&mut client, &format!("one more key: {more}")) == "+OK\r\n" {
            more += 1;
        }
        more > 1000
    });
    assert_eq!(say(&mut client, "EXISTS big"), ":0\r\n");
    assert!(keys > 1000, "{keys} keys");
}

/// DEL of many keys and of collections, while memory is full and records are evicted: all of them go, at one moment.
#[test]
fn many_keys_are_deleted_under_a_policy() {
    const KEYS: usize = 2000;
    const COLLECTIONS: usize = 8;
    let server = server();
    let mut client = server.client();
    assert_eq!(
        client.say("CONFIG SET maxmemory-policy allkeys-lru"),
        "+OK\r\n"
    );
    for round in 0..2 {
        for n in 0..COLLECTIONS {
            fill(&mut client, &format!("HSET big:{n}"), 4000, pair);
        }
        // Until long after records go for new ones.
        for n in 0..30_000 {
            assert_eq!(set(&mut client, &format!("key:{n}")), "+OK\r\n");
        }
        let big = (0..COLLECTIONS).map(|n| format!("big:{n}"));
        let names: Vec<String> = (30_000 - KEYS..30_000)
            .map(|n| format!("key:{n}"))
            .collect();
        let names: Vec<String> = names.into_iter().chain(big).collect();
        let mut words: Vec<&[u8]> = vec![b"DEL"];
        words.extend(names.iter().map(|name| name.as_bytes()));
        let deleted = text(&client.ask(&words));
        let count: usize = deleted[1..].trim().parse().expect(&deleted);
        // What was used last is evicted last.
        assert!(
            count > KEYS / 2 && count <= names.len(),
            "round {round}: {deleted}"
        );
        words[0] = b"EXISTS";
        assert_eq!(text(&client.ask(&words)), ":0\r\n");
    }
    let evicted = client.say("INFO stats");
    assert!(!evicted.contains("evicted_keys:0\r\n"), "{evicted}");
}

/// Here the log's ring is small: a transaction has half a megabyte.
#[test]
fn commands_of_one_block_share_the_ring() {
    const ELEMENTS: usize = 12_000;
    const COMMANDS: usize = 5;
    /// Of each command: two pages each.
    const CHANGED: usize = 32;
    let (_disk, server) = logged();
    let mut client = server.client();
    let in_order = |n: usize| vec![n.to_string().into(), format!("member:{n:08}").into()];
    for first in (0..ELEMENTS).step_by(1000) {
        client.send(&command("ZADD big", first..first + 1000, in_order));
        assert_eq!(text(&client.reply()), ":1000\r\n");
    }
    // Together they change more pages than that.
    say(&mut client, "MULTI");
    for first in 0..COMMANDS {
        let elements = (first..ELEMENTS).step_by(ELEMENTS / CHANGED);
        client.send(&command("ZADD big", elements, |n| {
            vec![b"-7".to_vec(), format!("member:{n:08}").into()]
        }));
        assert_eq!(text(&client.reply()), "+QUEUED\r\n");
    }
    let reply = say(&mut client, "EXEC");
    let expected = format!("*{COMMANDS}\r\n{}", ":0\r\n".repeat(COMMANDS));
    assert_eq!(reply, expected);
    assert_eq!(client.say("ZCARD big"), format!(":{ELEMENTS}\r\n"));
    let changed = format!(":{}\r\n", CHANGED * COMMANDS);
    assert_eq!(client.say("ZCOUNT big -7 -7"), changed);
}

/// Collections that one block writes anew are more than the log's ring, which has no room before it is written out: a client
/// is not told to try again, which would end in the same way.
#[test]
fn a_block_that_is_too_large_for_the_ring_says_so() {
    const ELEMENTS: usize = 12_000;
    let (disk, server) = logged();
    let mut client = server.client();
    for first in (0..ELEMENTS).step_by(1000) {
        client.send(&command("ZADD big", first..first + 1000, scattered));
        assert_eq!(text(&client.reply()), ":1000\r\n");
    }
    let write_anew = |key: usize| format!("ZUNIONSTORE copy:{key} 1 big");
    let all = format!(":{ELEMENTS}\r\n");
    // While the disk keeps up there is room for many.
    assert_eq!(say(&mut client, &write_anew(0)), all);
    // All of the ring is free.
    assert_eq!(say(&mut client, "WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    disk.hold(true);
    say(&mut client, "MULTI");
    for key in 0..8 {
        say(&mut client, &write_anew(key));
    }
    let refused = client.say("EXEC");
    assert!(
        refused.starts_with("-EXECABORT Transaction rolled back"),
        "{refused}"
    );
    assert!(refused.contains("a larger ring"), "{refused}");
    let script = "for n = 1, 8 do redis.call('ZUNIONSTORE', 'script:' .. n, 1, 'big') end";
    let refused = text(&client.ask(&[b"EVAL", script.as_bytes(), b"1", b"big"]));
    assert!(refused.starts_with("-"), "{refused}");
    disk.hold(false);
    wait_until("the log has room", || client.say(&write_anew(1)) == all);
    assert_eq!(client.say("ZCARD copy:0"), all);
    assert_eq!(client.say("EXISTS script:1"), ":0\r\n");
}
