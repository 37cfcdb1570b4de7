//! Commands that meet a value that is no string: what they reply, on every path, in transactions
//! and in scripts. The value is of a type of the tests alone, and the engine sets it.

use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::server as common;

use bpfdb::ValueType;
use common::procedures::{ask, back_to_kernel, load, shown};
use common::{Client, Reply, TestServer, kernel_calls, lent, words};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const KEY: &[u8] = b"typed";

/// A short one, and large ones: of two pieces, and of several parts.
fn values() -> [Vec<u8>; 3] {
    [9, 33 << 10, 1 << 20].map(|len| (0..len).map(|n| (n * 7 + n / 256) as u8).collect())
}

/// Commands that take values of one other type only.
const REFUSED: [&str; 58] = [
    "GET typed",
    "STRLEN typed",
    "GETRANGE typed 0 -1",
    "GETBIT typed 0",
    "BITCOUNT typed",
    "INCR typed",
    "DECRBY typed 2",
    "INCRBYFLOAT typed 1.5",
    "APPEND typed more",
    "SETRANGE typed 1 x",
    "SETBIT typed 7 1",
    "GETSET typed new",
    "GETDEL typed",
    "GETEX typed",
    "GETEX typed PERSIST",
    "GETEX typed EX 100",
    "SET typed new GET",
    "SET typed new XX GET",
    "BITOP NOT other typed",
    "BITPOS typed 1",
    "HSET typed f 1",
    "HMSET typed f 1",
    "HSETNX typed f 1",
    "HGET typed f",
    "HMGET typed f g",
    "HGETALL typed",
    "HDEL typed f",
    "HEXISTS typed f",
    "HLEN typed",
    "HSTRLEN typed f",
    "HKEYS typed",
    "HVALS typed",
    "HINCRBY typed f 1",
    "HINCRBYFLOAT typed f 1",
    "HRANDFIELD typed",
    "HRANDFIELD typed 1 WITHVALUES",
    "HSCAN typed 0",
    "SADD typed a",
    "SREM typed a",
    "SISMEMBER typed a",
    "SMISMEMBER typed a b",
    "SCARD typed",
    "SMEMBERS typed",
    "SPOP typed",
    "SPOP typed 1",
    "SRANDMEMBER typed",
    "SRANDMEMBER typed 1",
    "SMOVE typed other a",
    "SINTER typed absent",
    "SINTERCARD 2 absent typed",
    "SINTERSTORE target typed",
    "SINTERSTORE typed typed",
    "SUNION absent typed",
    "SUNIONSTORE target absent typed",
    "SDIFF absent typed",
    "SDIFF typed absent",
    "SDIFFSTORE target typed",
    "SSCAN typed 0",
];

/// Commands that take any type and change nothing, with their replies.
const TAKEN: [(&str, &str); 11] = [
    ("TYPE typed", "+test\r\n"),
    ("EXISTS typed absent typed", ":2\r\n"),
    ("TTL typed", ":-1\r\n"),
    ("PTTL typed", ":-1\r\n"),
    ("EXPIRETIME typed", ":-1\r\n"),
    ("PERSIST typed", ":0\r\n"),
    ("MGET typed absent", "*2\r\n$-1\r\n$-1\r\n"),
    ("MGET typed", "*1\r\n$-1\r\n"),
    ("SETNX typed new", ":0\r\n"),
    ("SET typed new NX", "$-1\r\n"),
    ("MSETNX typed new", ":0\r\n"),
];

/// How often a whole SCAN for values of a type names the key.
fn scanned(client: &mut Client, of_type: &str, key: &str) -> usize {
    let (mut cursor, mut found) = ("0".to_owned(), 0);
    loop {
        let reply = client.say(&format!(
            "SCAN {cursor} TYPE {of_type} COUNT 1000 MATCH {key}"
        ));
        found += reply.matches(&format!("\r\n{key}\r\n")).count();
        let next = reply.split("\r\n").nth(2).expect("a cursor");
        if next == "0" {
            return found;
        }
        next.clone_into(&mut cursor);
    }
}

fn put(engine: &bpfdb::Engine, value: &[u8]) {
    let mut session = engine.session().expect("a session");
    let set = session.set_typed(KEY, ValueType::TEST, value, None);
    set.expect("the engine takes it");
}

fn is_there(engine: &bpfdb::Engine, value: &[u8]) -> bool {
    let mut session = engine.session().expect("a session");
    let found = session.typed_entry(KEY).expect("read");
    found.is_some_and(|(kind, entry)| kind == ValueType::TEST && entry.value == value)
}

/// All commands, one by one.
fn refuses(client: &mut Client) {
    for command in REFUSED {
        assert_eq!(client.say(command), WRONG, "{command}");
    }
    for (command, reply) in TAKEN {
        assert_eq!(client.say(command), reply, "{command}");
    }
}

#[test]
fn one_by_one() {
    let server = TestServer::shared();
    let mut client = server.client();
    for value in values() {
        put(&server.engine, &value);
        refuses(&mut client);
        assert!(is_there(&server.engine, &value));
    }
}

#[test]
fn by_the_daemon() {
    let server = lent::plain();
    let mut client = server.unix_client();
    for value in values() {
        put(&server.engine, &value);
        refuses(&mut client);
        assert!(is_there(&server.engine, &value));
    }
}

#[test]
fn in_ones_own_send() {
    let settings = Settings {
        local_clients: LocalClients::In(common::cgroup::own()),
        ..Settings::default()
    };
    let server = TestServer::lent_as_told(&bpfdb::Options::default(), settings);
    let mut client = server.client();
    client.receive_until_known();
    for value in values() {
        put(&server.engine, &value);
        refuses(&mut client);
        assert!(is_there(&server.engine, &value));
    }
}

#[test]
fn the_kernel_says_so_itself() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    for value in values() {
        put(&server.engine, &value);
        back_to_kernel(&mut client);
        let before = kernel_calls(&mut other, "get");
        assert_eq!(client.say("GET typed"), WRONG);
        assert_eq!(kernel_calls(&mut other, "get"), before + 1);
    }
}

#[test]
fn in_transactions() {
    let server = TestServer::shared();
    let mut client = server.client();
    for value in values() {
        put(&server.engine, &value);
        refuses_in_transactions(&mut client);
        assert!(is_there(&server.engine, &value));
    }
}

fn refuses_in_transactions(client: &mut Client) {
    for (begin, end) in [("BEGIN", "COMMIT"), ("BEGIN", "ROLLBACK")] {
        assert_eq!(client.say(begin), "+OK\r\n");
        refuses(client);
        // It has not failed.
        assert_eq!(client.say("SET other 1"), "+OK\r\n");
        assert_eq!(client.say(end), "+OK\r\n");
    }
    for command in REFUSED {
        let block = ["MULTI", "SET other 2", command, "SET other 3", "EXEC"];
        client.send(&block.map(words).concat());
        let replies: Vec<String> = (0..5)
            .map(|_| String::from_utf8_lossy(&client.reply()).into_owned())
            .collect();
        assert_eq!(
            replies[4],
            format!("*3\r\n+OK\r\n{WRONG}+OK\r\n"),
            "{command}"
        );
    }
    assert_eq!(client.say("GET other"), "$1\r\n3\r\n");
}

#[test]
fn commands_that_replace_or_move_it() {
    for value in values() {
        replaces_or_moves(&value);
    }
}

fn replaces_or_moves(value: &[u8]) {
    let server = TestServer::shared();
    let mut client = server.client();
    let copied = |client: &mut Client, key: &str| {
        assert_eq!(client.say(&format!("TYPE {key}")), "+test\r\n");
        assert_eq!(client.say(&format!("GET {key}")), WRONG);
    };
    put(&server.engine, value);
    assert_eq!(client.say("EXPIRE typed 100"), ":1\r\n");
    assert_eq!(client.say("TTL typed"), ":100\r\n");
    assert!(is_there(&server.engine, value));
    assert_eq!(client.say("PERSIST typed"), ":1\r\n");
    assert!(is_there(&server.engine, value));
    assert_eq!(client.say("COPY typed copy"), ":1\r\n");
    copied(&mut client, "copy");
    assert_eq!(client.say("RENAME copy moved"), "+OK\r\n");
    let moved = {
        let mut session = server.engine.session().expect("a session");
        session.typed_entry(b"moved").expect("read").expect("there")
    };
    assert!(moved.0 == ValueType::TEST && moved.1.value == value);
    copied(&mut client, "moved");
    assert_eq!(scanned(&mut client, "string", "moved"), 0);
    assert_eq!(scanned(&mut client, "test", "moved"), 1);
    assert_eq!(client.say("DEL moved"), ":1\r\n");
    for replacing in [
        "SET typed new",
        "SET typed new XX",
        "SET typed new KEEPTTL",
        "SETEX typed 100 new",
        "MSET typed new",
    ] {
        put(&server.engine, value);
        assert_eq!(client.say(replacing), "+OK\r\n", "{replacing}");
        assert_eq!(client.say("GET typed"), "$3\r\nnew\r\n", "{replacing}");
    }
    put(&server.engine, value);
    let dump = client.ask(&[b"DUMP", b"absent"]);
    assert_eq!(dump, b"$-1\r\n");
    assert_eq!(client.say("SET string text"), "+OK\r\n");
    let dump = client.ask(&[b"DUMP", b"string"]);
    let start = dump
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a bulk string")
        + 1;
    let payload = &dump[start..dump.len() - 2];
    let restored = client.ask(&[b"RESTORE", b"typed", b"0", payload]);
    assert_eq!(restored, b"-BUSYKEY Target key name already exists.\r\n");
    let restored = client.ask(&[b"RESTORE", b"typed", b"0", payload, b"REPLACE"]);
    assert_eq!(restored, b"+OK\r\n");
    assert_eq!(client.say("GET typed"), "$4\r\ntext\r\n");
    put(&server.engine, value);
    assert_eq!(client.say("EXPIRE typed 0"), ":1\r\n");
    assert_eq!(client.say("EXISTS typed"), ":0\r\n");
}

#[test]
fn a_key_is_watched() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    put(&server.engine, &values()[1]);
    for (change, outcome) in [(None, "*1\r\n+OK\r\n"), (Some("SET typed new"), "*-1\r\n")] {
        assert_eq!(client.say("WATCH typed"), "+OK\r\n");
        if let Some(change) = change {
            assert_eq!(other.say(change), "+OK\r\n");
        }
        assert_eq!(client.say("MULTI"), "+OK\r\n");
        assert_eq!(client.say("SET other 1"), "+QUEUED\r\n");
        assert_eq!(client.say("EXEC"), outcome, "{change:?}");
    }
}

/// Of a script that is interpreted, and of one that the kernel runs.
#[test]
fn in_scripts_and_procedures() {
    for value in values() {
        refuses_in_scripts(&value);
    }
}

fn refuses_in_scripts(value: &[u8]) {
    let server = lent::plain();
    put(&server.engine, value);
    let mut client = server.client();
    let caught = "local r = redis.pcall('get', KEYS[1]) return r.err";
    let caught = ask(&mut client, &["EVAL", caught, "1", "typed"]);
    assert_eq!(
        caught.text,
        &WRONG.as_bytes()[1..WRONG.len() - 2],
        "{caught:?}"
    );
    load(
        &mut client,
        "#!lua name=types\n\
         redis.register_function('types_get', function(keys, args)\n\
           return redis.call('get', keys[1])\n\
         end)\n\
         redis.register_function('types_incr', function(keys, args)\n\
           redis.call('set', keys[2], '1')\n\
           return redis.call('incr', keys[1])\n\
         end)\n\
         redis.register_function('types_exists', function(keys, args)\n\
           return redis.call('exists', keys[1])\n\
         end)",
    );
    for _ in 0..3 {
        for call in ["FCALL types_get 1 typed", "FCALL types_incr 2 typed other"] {
            let reply = client.say(call);
            assert!(
                reply.starts_with("-WRONGTYPE Operation against"),
                "{call}: {reply}"
            );
        }
        assert_eq!(client.say("FCALL types_exists 1 typed"), ":1\r\n");
        back_to_kernel(&mut client);
    }
    let reasons = shown(&mut client, "types_get");
    let reasons = reasons.field("deoptimisations").expect("a field");
    let given_up = reasons.field("value_type").and_then(Reply::number);
    assert!(given_up > Some(0), "{reasons:?}");
    assert!(is_there(&server.engine, value));
}
