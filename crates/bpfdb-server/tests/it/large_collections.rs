//! Collections of many elements, which are in pages: what becomes of the pages, and that all commands meet the
//! same elements. What commands reply is compared with Redis by `replies` and `generated`; with
//! `BPFDB_TEST_RUN_ENTRIES` those collections are in pages, too.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_tests::server::{Client, Lent, Reply, TestServer, wait_until};

/// More than a page has, and many pages.
const MANY: usize = 20_000;
/// Words of a request.
const WORDS: usize = 1000;

pub(crate) fn asked(client: &mut Client, words: &[&str]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let bytes = client.ask(&words);
    let (reply, _) = Reply::parse(&bytes).expect("a reply");
    reply
}

pub(crate) fn number(client: &mut Client, command: &str) -> i64 {
    let words: Vec<&str> = command.split(' ').collect();
    let reply = asked(client, &words);
    reply
        .number()
        .unwrap_or_else(|| panic!("{command}: {reply:?}"))
}

pub(crate) fn text(reply: &Reply) -> String {
    String::from_utf8(reply.text.clone()).expect("text")
}

fn texts(reply: &Reply) -> Vec<String> {
    reply.items.iter().map(text).collect()
}

/// The command for each element, many in one request.
fn fill(client: &mut Client, command: &str, words_of: impl Fn(usize) -> Vec<String>) {
    let start: Vec<String> = command.split(' ').map(Into::into).collect();
    let mut next = 0;
    while next < MANY {
        let mut words = start.clone();
        while next < MANY && words.len() < WORDS {
            words.extend(words_of(next));
            next += 1;
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reply = asked(client, &words);
        assert!(!reply.is_error(), "{command}: {reply:?}");
    }
}

fn fill_hash(client: &mut Client, key: &str) {
    let pair = |n| vec![format!("field {n}"), format!("value {n}")];
    fill(client, &format!("HSET {key}"), pair);
}

/// What the keys of pages begin with; the identity of their collection follows.
const PAGES: &[u8; 8] = b"\0bpfdb\0\x10";

/// Keys of the records that are pages.
pub(crate) fn page_keys(engine: &Engine) -> BTreeSet<Vec<u8>> {
    let mut session = engine.session().expect("a session");
    let (mut cursor, mut pages) = (0, BTreeSet::new());
    loop {
        let next = session.scan_each(cursor, 4096, |key| {
            if key.starts_with(PAGES) {
                pages.insert(key.to_vec());
            }
        });
        cursor = next.expect("scanned");
        if cursor == 0 {
            return pages;
        }
    }
}

/// Records that are pages.
pub(crate) fn pages(engine: &Engine) -> usize {
    page_keys(engine).len()
}

/// The same, when those are gone that earlier commands have replaced: one collection is left.
#[track_caller]
fn pages_of_one(engine: &Engine) -> usize {
    let mut pages = 0;
    wait_until("the pages are those of one collection", || {
        let keys = page_keys(engine);
        pages = keys.len();
        let identities = keys.iter().map(|key| &key[PAGES.len()..][..8]);
        identities.collect::<BTreeSet<_>>().len() == 1
    });
    pages
}

#[track_caller]
pub(crate) fn all_pages_go(engine: &Engine) {
    wait_until("no page is left", || pages(engine) == 0);
}

/// A server without pages: those that the test before has left are collected.
pub(crate) fn shared() -> Lent {
    let server = TestServer::shared();
    all_pages_go(&server.engine);
    server
}

#[test]
fn a_hash_of_many_fields() {
    let server = shared();
    let mut client = server.client();
    fill_hash(&mut client, "h");
    assert!(pages(&server.engine) > 100);
    assert_eq!(number(&mut client, "HLEN h"), MANY as i64);
    for n in [0, 1, MANY / 2, MANY - 1] {
        let value = asked(&mut client, &["HGET", "h", &format!("field {n}")]);
        assert_eq!(text(&value), format!("value {n}"));
    }
    assert_eq!(number(&mut client, "HSTRLEN h absent"), 0);
    assert_eq!(number(&mut client, "HINCRBY h counter 5"), 5);
    assert_eq!(number(&mut client, "HINCRBY h counter -7"), -2);
    assert_eq!(number(&mut client, "HSETNX h counter 1"), 0);
    assert_eq!(number(&mut client, "HDEL h counter absent"), 1);
    let all = asked(&mut client, &["HGETALL", "h"]);
    assert_eq!(all.items.len(), 2 * MANY);
    let fields: BTreeSet<String> = texts(&all).into_iter().step_by(2).collect();
    assert_eq!(fields.len(), MANY);
    assert_eq!(
        text(&asked(&mut client, &["OBJECT", "ENCODING", "h"])),
        "hashtable"
    );
    assert!(number(&mut client, "MEMORY USAGE h") > 20 * MANY as i64);
}

#[test]
fn a_set_shrinks_until_it_is_gone() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "SADD s", |n| vec![format!("member {n}")]);
    let most = pages(&server.engine);
    assert_eq!(number(&mut client, "SCARD s"), MANY as i64);
    let mut popped = BTreeSet::new();
    let picked = asked(&mut client, &["SRANDMEMBER", "s", "100"]);
    assert_eq!(
        texts(&picked).into_iter().collect::<BTreeSet<_>>().len(),
        100
    );
    while number(&mut client, "SCARD s") > 0 {
        let some = asked(&mut client, &["SPOP", "s", "900"]);
        popped.extend(texts(&some));
    }
    assert_eq!(popped.len(), MANY);
    assert_eq!(number(&mut client, "EXISTS s"), 0);
    assert!(most > 100);
    all_pages_go(&server.engine);
}

#[test]
fn a_list_is_used_at_both_ends_and_in_the_middle() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "RPUSH l", |n| vec![n.to_string()]);
    assert_eq!(number(&mut client, "LLEN l"), MANY as i64);
    assert_eq!(
        text(&asked(&mut client, &["LINDEX", "l", "12345"])),
        "12345"
    );
    assert_eq!(
        text(&asked(&mut client, &["LINDEX", "l", "-1"])),
        (MANY - 1).to_string()
    );
    let middle = asked(&mut client, &["LRANGE", "l", "9998", "10001"]);
    assert_eq!(texts(&middle), ["9998", "9999", "10000", "10001"]);
    assert_eq!(
        number(&mut client, "LINSERT l BEFORE 10000 new"),
        MANY as i64 + 1
    );
    assert_eq!(client.say("LSET l 10000 other"), "+OK\r\n");
    assert_eq!(number(&mut client, "LREM l 0 other"), 1);
    assert_eq!(
        text(&asked(&mut client, &["LMOVE", "l", "l", "LEFT", "RIGHT"])),
        "0"
    );
    assert_eq!(text(&asked(&mut client, &["RPOPLPUSH", "l", "other"])), "0");
    assert_eq!(client.say("LTRIM l 10 -11"), "+OK\r\n");
    assert_eq!(number(&mut client, "LLEN l"), MANY as i64 - 21);
    let first = asked(&mut client, &["LPOP", "l", "3"]);
    assert_eq!(texts(&first), ["11", "12", "13"]);
    let last = asked(&mut client, &["RPOP", "l", "2"]);
    assert_eq!(texts(&last), ["19989", "19988"]);
    assert_eq!(client.say("LTRIM l 1 0"), "+OK\r\n");
    all_pages_go(&server.engine);
}

#[test]
fn a_sorted_set_has_ranks() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "ZADD z", |n| {
        vec![(n % 1000).to_string(), format!("m{n:05}")]
    });
    assert_eq!(number(&mut client, "ZCARD z"), MANY as i64);
    // 20 members of each score.
    assert_eq!(number(&mut client, "ZRANK z m00500"), 500 * 20);
    assert_eq!(
        number(&mut client, "ZREVRANK z m00500"),
        MANY as i64 - 1 - 500 * 20
    );
    assert_eq!(number(&mut client, "ZCOUNT z (10 20"), 200);
    let some = asked(
        &mut client,
        &["ZRANGEBYSCORE", "z", "7", "8", "LIMIT", "18", "4"],
    );
    assert_eq!(texts(&some), ["m18007", "m19007", "m00008", "m01008"]);
    assert_eq!(
        text(&asked(&mut client, &["ZINCRBY", "z", "2000", "m00007"])),
        "2007"
    );
    assert_eq!(number(&mut client, "ZRANK z m00007"), MANY as i64 - 1);
    assert_eq!(
        texts(&asked(&mut client, &["ZPOPMAX", "z"])),
        ["m00007", "2007"]
    );
    assert_eq!(number(&mut client, "ZREMRANGEBYSCORE z 100 899"), 800 * 20);
    assert_eq!(number(&mut client, "ZCARD z"), 200 * 20 - 1);
    assert_eq!(number(&mut client, "ZRANK z m00900"), 100 * 20 - 1);
    assert_eq!(number(&mut client, "ZREMRANGEBYRANK z 0 -1"), 200 * 20 - 1);
    all_pages_go(&server.engine);
}

/// DEL and SET are the kernel's, which knows nothing of pages.
#[test]
fn whatever_takes_the_head_away_takes_the_pages() {
    let server = shared();
    let mut client = server.client();
    for command in [
        "DEL h",
        "SET h text",
        "PEXPIRE h 1",
        "RENAME other h",
        "SUNIONSTORE h s",
    ] {
        client.say("SET other text");
        client.say("SADD s 1");
        client.say("DEL h");
        fill_hash(&mut client, "h");
        assert!(pages(&server.engine) > 100, "{command}");
        let reply = client.say(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
        all_pages_go(&server.engine);
    }
}

#[test]
fn a_rollback_leaves_no_pages() {
    let server = shared();
    let mut client = server.client();
    client.say("HSET h f 1");
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    fill_hash(&mut client, "h");
    assert_eq!(number(&mut client, "HLEN h"), MANY as i64 + 1);
    // The collector meets the locks.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(number(&mut client, "HLEN h"), MANY as i64 + 1);
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(number(&mut client, "HLEN h"), 1);
    assert_eq!(pages(&server.engine), 0);
}

#[test]
fn a_name_and_a_copy() {
    let server = shared();
    let mut client = server.client();
    fill_hash(&mut client, "h");
    let before = pages_of_one(&server.engine);
    assert_eq!(client.say("RENAME h renamed"), "+OK\r\n");
    assert_eq!(number(&mut client, "COPY renamed copy"), 1);
    assert!(pages(&server.engine) > before + 100);
    assert_eq!(number(&mut client, "DEL renamed"), 1);
    wait_until("the copy has its pages alone", || {
        pages(&server.engine) < before + 50
    });
    thread::sleep(Duration::from_millis(300));
    assert_eq!(number(&mut client, "HLEN copy"), MANY as i64);
    let dump = asked(&mut client, &["DUMP", "copy"]).text;
    assert_eq!(
        client.ask(&[b"RESTORE", b"restored", b"0", &dump]),
        b"+OK\r\n"
    );
    assert_eq!(number(&mut client, "DEL copy"), 1);
    let all = asked(&mut client, &["HGETALL", "restored"]);
    assert_eq!(all.items.len(), 2 * MANY);
    assert_eq!(
        text(&asked(&mut client, &["HGET", "restored", "field 77"])),
        "value 77"
    );
}

#[test]
fn a_watched_one_is_noticed() {
    let server = shared();
    let (mut client, mut other) = (server.client(), server.client());
    fill_hash(&mut client, "h");
    for (change, outcome) in [
        ("HGET h absent", "*1\r\n:1\r\n"),
        ("HDEL h absent", "*1\r\n:1\r\n"),
        // One that is there.
        ("HSET h f 2", "*-1\r\n"),
        ("HSET h f 3", "*-1\r\n"),
    ] {
        client.say("WATCH h");
        other.say(change);
        client.say("MULTI");
        client.say("EXISTS h");
        assert_eq!(client.say("EXEC"), outcome, "{change}");
    }
}

#[test]
fn a_scan_lists_what_stays() {
    let server = shared();
    let mut client = server.client();
    fill(&mut client, "SADD s", |n| vec![format!("member {n}")]);
    let (mut cursor, mut listed, mut calls) = (String::from("0"), BTreeSet::new(), 0);
    loop {
        let reply = asked(&mut client, &["SSCAN", "s", &cursor, "COUNT", "100"]);
        listed.extend(texts(&reply.items[1]));
        cursor = text(&reply.items[0]);
        calls += 1;
        let other = format!("other {calls}");
        assert_eq!(number(&mut client, &format!("SREM s member_{calls}")), 0);
        assert_eq!(asked(&mut client, &["SADD", "s", &other]).number(), Some(1));
        if cursor == "0" {
            break;
        }
    }
    assert!(calls > 50, "{calls}");
    assert!((0..MANY).all(|n| listed.contains(&format!("member {n}"))));
}

/// The collector of another process finds what the first has left.
#[test]
fn another_server_removes_what_is_left() {
    let server = TestServer::start(&bpfdb::Options::default());
    let engine = server.engine.clone();
    let mut client = server.client();
    fill_hash(&mut client, "h");
    fill_hash(&mut client, "stays");
    server.stop();
    let mut session = engine.session().expect("a session");
    assert_eq!(session.delete(b"h"), Ok(true));
    drop(session);
    let again = TestServer::start_again(engine.clone());
    assert!(pages_of_one(&engine) > 100);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(number(&mut again.client(), "HLEN stays"), MANY as i64);
}

/// More than one transaction writes: pages are there before their head is.
#[test]
fn many_pages_at_once() {
    let server = shared();
    let mut client = server.client();
    let value = "v".repeat(60);
    let pair = |n| vec![format!("field {n}"), value.clone()];
    fill(&mut client, "HSET h", pair);
    let before = pages_of_one(&server.engine);
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert_eq!(number(&mut client, "COPY h copy"), 1);
    assert_eq!(number(&mut client, "HLEN copy"), MANY as i64);
    // The collector meets the lock of the anchor.
    thread::sleep(Duration::from_millis(300));
    let with_copy = pages(&server.engine);
    assert!(with_copy > before + 300, "{with_copy}, not {before}");
    assert_eq!(number(&mut client, "HLEN copy"), MANY as i64);
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    wait_until("the copy's pages are gone", || {
        pages(&server.engine) <= before
    });
    // All fields with one command, which changes all pages.
    let mut words = vec!["HSET".to_owned(), "h".to_owned()];
    (0..MANY).for_each(|n| words.extend([format!("field {n}"), format!("new {n}")]));
    words.extend(["another".to_owned(), String::new()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(asked(&mut client, &words).number(), Some(1));
    assert_eq!(number(&mut client, "HLEN h"), MANY as i64 + 1);
    assert_eq!(
        text(&asked(&mut client, &["HGET", "h", "field 777"])),
        "new 777"
    );
    // It writes the pages that are there.
    let after = pages_of_one(&server.engine);
    assert!(after <= before, "{after}, not {before}");
    assert_eq!(number(&mut client, "DEL h"), 1);
    all_pages_go(&server.engine);
}

/// A command that writes the whole set anew leaves cursors valid.
#[test]
fn a_scan_goes_on_behind_a_write_of_all() {
    let server = TestServer::shared();
    let mut client = server.client();
    fill(&mut client, "SADD s", |n| vec![format!("member {n}")]);
    assert_eq!(number(&mut client, "SADD other extra"), 1);
    let (mut cursor, mut met, mut calls) = (String::from("0"), BTreeSet::new(), 0);
    loop {
        let reply = asked(&mut client, &["SSCAN", "s", &cursor, "COUNT", "3000"]);
        met.extend(texts(&reply.items[1]));
        cursor = text(&reply.items[0]);
        calls += 1;
        if cursor == "0" {
            break;
        }
        let all = MANY as i64 + 1;
        assert_eq!(number(&mut client, "SUNIONSTORE s s other"), all);
    }
    assert!(calls > 3, "{calls} calls");
    for n in 0..MANY {
        assert!(met.contains(&format!("member {n}")), "{n}");
    }
}

/// Few keys among many pages: each is picked about as often.
#[test]
fn pages_do_not_hide_keys_from_chance() {
    const DRAWS: usize = 200;
    let server = TestServer::shared();
    let mut client = server.client();
    fill_hash(&mut client, "h");
    for command in ["SELECT 1", "SET one 1", "SET other 1"] {
        let words: Vec<&str> = command.split(' ').collect();
        assert!(!asked(&mut client, &words).is_error(), "{command}");
    }
    let picked = (0..DRAWS).map(|_| text(&asked(&mut client, &["RANDOMKEY"])));
    let ones = picked.filter(|key| key == "one").count();
    // Half are expected, with a standard deviation of 7.
    assert!((30..DRAWS - 30).contains(&ones), "{ones}");
    assert!(!asked(&mut client, &["FLUSHDB"]).is_error());
    assert_eq!(client.say("RANDOMKEY"), "$-1\r\n");
}

/// Of a stream that has few entries and a consumer with a long name.
#[test]
fn replies_about_pending_entries_are_bounded() {
    const NAME: usize = 4 << 20;
    const ENTRIES: usize = 200;
    let server = TestServer::shared();
    let mut client = server.client();
    for _ in 0..ENTRIES {
        asked(&mut client, &["XADD", "s", "*", "f", "v"]);
    }
    let name = "n".repeat(NAME);
    asked(&mut client, &["XGROUP", "CREATE", "s", "g", "0"]);
    let read = ["XREADGROUP", "GROUP", "g", &name, "STREAMS", "s", ">"];
    assert!(!asked(&mut client, &read).is_error());
    for command in ["XPENDING s g - + 1000", "XINFO STREAM s FULL COUNT 0"] {
        let words: Vec<&str> = command.split(' ').collect();
        let reply = asked(&mut client, &words);
        assert!(text(&reply).contains("longer than 640 MiB"), "{command}");
    }
    let few = asked(&mut client, &["XPENDING", "s", "g", "-", "+", "2"]);
    assert_eq!(few.items.len(), 2);
}

/// Others are served while a large set is sorted by other keys.
#[test]
fn a_sort_by_many_keys_is_done_in_slices() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client, "SADD s", |n| vec![n.to_string()]);
    let weights = |n: usize| vec![format!("w{n}"), (MANY - n).to_string()];
    fill(&mut client, "MSET", weights);
    let sorted = asked(
        &mut client,
        &["SORT", "s", "BY", "w*", "GET", "#", "GET", "w*"],
    );
    let expected = (0..MANY)
        .rev()
        .flat_map(|n| [n.to_string(), (MANY - n).to_string()]);
    assert!(texts(&sorted).into_iter().eq(expected));
    let store = ["SORT", "s", "BY", "w*", "STORE", "l"];
    client.send(&bpfdb_tests::server::request(&store.map(str::as_bytes)));
    let mut served = 0;
    while number(&mut other, "EXISTS l") == 0 {
        served += 1;
    }
    let (reply, _) = Reply::parse(&client.reply()).expect("a reply");
    assert_eq!(reply.number(), Some(MANY as i64));
    assert!(served > 0);
    let ends = asked(&mut client, &["LRANGE", "l", "0", "1"]);
    assert_eq!(texts(&ends), [MANY - 1, MANY - 2].map(|n| n.to_string()));
    // In a block all at once.
    for command in [
        "MULTI",
        "SORT s BY nosort LIMIT 0 1",
        "SORT s ALPHA LIMIT 0 2",
    ] {
        asked(&mut client, &command.split(' ').collect::<Vec<_>>());
    }
    let all = asked(&mut client, &["EXEC"]);
    assert_eq!(texts(&all.items[1]), ["0", "1"]);
}
