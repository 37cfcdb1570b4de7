//! Every kind of reply, and what it exposes.

use super::common::lent::logged;
use super::common::{Client, Reply, request, show, words};
use super::{is_told_nothing, send, settle, sync, told};

/// What changes nothing, and its reply: these tell of `new`, which has just been set to a text,
/// and of `gone`, which has just been deleted. `old` has been there for long.
const TELLING: &[(&str, &str)] = &[
    ("GET new", "$4\r\ntext\r\n"),
    ("GET gone", "$-1\r\n"),
    ("EXISTS new gone", ":1\r\n"),
    ("TOUCH gone", ":0\r\n"),
    ("TYPE new", "+string\r\n"),
    ("TYPE gone", "+none\r\n"),
    ("TTL new", ":-1\r\n"),
    ("PTTL gone", ":-2\r\n"),
    ("EXPIRETIME new", ":-1\r\n"),
    ("STRLEN gone", ":0\r\n"),
    ("GETRANGE new 0 0", "$1\r\nt\r\n"),
    ("GETBIT new 0", ":0\r\n"),
    ("BITCOUNT gone", ":0\r\n"),
    ("BITPOS new 1", ":1\r\n"),
    ("LCS new old", "$0\r\n\r\n"),
    ("MGET old gone", "*2\r\n$1\r\n1\r\n$-1\r\n"),
    ("DUMP gone", "$-1\r\n"),
    ("OBJECT ENCODING new", "$6\r\nembstr\r\n"),
    ("OBJECT REFCOUNT new", ":1\r\n"),
    ("MEMORY USAGE gone", "$-1\r\n"),
    ("SETNX new x", ":0\r\n"),
    ("SET new x NX", "$-1\r\n"),
    ("SET new x NX GET", "$4\r\ntext\r\n"),
    ("SET gone x XX", "$-1\r\n"),
    ("MSETNX other x new x", ":0\r\n"),
    (
        "INCR new",
        "-ERR value is not an integer or out of range\r\n",
    ),
    ("INCRBYFLOAT new 1", "-ERR value is not a valid float\r\n"),
    ("DEL gone", ":0\r\n"),
    ("UNLINK gone", ":0\r\n"),
    ("GETDEL gone", "$-1\r\n"),
    ("GETEX new", "$4\r\ntext\r\n"),
    ("GETEX gone EX 10", "$-1\r\n"),
    ("EXPIRE gone 10", ":0\r\n"),
    ("EXPIRE new 10 XX", ":0\r\n"),
    ("PERSIST new", ":0\r\n"),
    ("RENAME gone x", "-ERR no such key\r\n"),
    ("RENAMENX old new", ":0\r\n"),
    ("COPY old new", ":0\r\n"),
    ("COPY gone x", ":0\r\n"),
    ("KEYS n*", "*1\r\n$3\r\nnew\r\n"),
    (
        "SCAN 0 MATCH n* COUNT 4096",
        "*2\r\n$1\r\n0\r\n*1\r\n$3\r\nnew\r\n",
    ),
    ("DBSIZE", ":2\r\n"),
];

/// Their replies are not the same each time.
const MORE: &[&str] = &[
    "RANDOMKEY",
    "INFO keyspace",
    "INFO memory",
    "INFO",
    "MEMORY STATS",
    "MEMORY MALLOC-STATS",
    "MEMORY DOCTOR",
    "SLOWLOG GET",
    "PROCEDURES",
];

/// Without keys, and neither reading nor writing by their flags: these tell of data all the same.
const TELLING_OF_ALL: &[&str] = &[
    "exec",
    "function|delete",
    "function|dump",
    "function|flush",
    "function|list",
    "function|load",
    "function|restore",
    "function|stats",
    "info",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|stats",
    "procedures",
    "slowlog|get",
];

/// And these do not.
const HARMLESS: &[&str] = &[
    "auth",
    "begin",
    "bgrewriteaof",
    "bgsave",
    "client",
    "command",
    "commit",
    "config",
    "debug",
    "discard",
    "echo",
    "function",
    "function|help",
    "function|kill",
    "hello",
    "lastsave",
    "latency",
    "locks",
    "memory",
    "memory|help",
    "memory|purge",
    // What clients ask for, not what became of it.
    "monitor",
    "multi",
    "object",
    "object|help",
    "ping",
    // Messages are no data: see docs/publish.md.
    "psubscribe",
    "publish",
    "pubsub",
    "punsubscribe",
    "quit",
    "replicaof",
    "reset",
    "role",
    "rollback",
    "save",
    "script",
    "select",
    "shutdown",
    "slaveof",
    "slowlog",
    "slowlog|help",
    "slowlog|len",
    "slowlog|reset",
    "subscribe",
    "time",
    "unsubscribe",
    "unwatch",
    "xgroup",
    "xinfo",
    // A server without cluster, modules and users says so.
    "acl",
    "asking",
    "cluster",
    "failover",
    "lolwut",
    "module",
    "psync",
    "readonly",
    "readwrite",
    "replconf",
    "sync",
    "table",
    "wait",
    "waitaof",
];
/// All of them.
const HARMLESS_CONTAINERS: &[&str] = &[
    "acl|", "client|", "cluster|", "command|", "config|", "latency|", "module|", "pubsub|",
    "script|", "table|", "xgroup|", "xinfo|",
];

/// A new command gets a row here that says what it exposes.
#[test]
fn what_commands_without_keys_tell_is_known() {
    let (_disk, server) = logged();
    let mut client = server.client();
    let mut ask = |words: &[&[u8]]| Reply::parse(&client.ask(words)).expect("a reply").0;
    let names = ask(&[b"COMMAND", b"LIST"]).items;
    assert!(names.len() > 100);
    let text = |reply: &Reply| String::from_utf8_lossy(&reply.text).into_owned();
    let mut unknown = Vec::new();
    for name in names.iter().map(text) {
        let about = ask(&[b"COMMAND", b"INFO", name.as_bytes()]);
        let about = &about.items[0].items;
        let has = |flag: &str| about[2].items.iter().any(|one| text(one) == flag);
        let names_keys = about[3].number() != Some(0) || has("movablekeys");
        let is_known = TELLING_OF_ALL.contains(&&*name)
            || HARMLESS.contains(&&*name)
            || HARMLESS_CONTAINERS.iter().any(|one| name.starts_with(one));
        if !(names_keys || has("readonly") || has("write") || is_known) {
            unknown.push(name);
        }
    }
    assert!(unknown.is_empty(), "{unknown:?}");
}

fn write(writer: &mut Client) {
    for (command, reply) in [("SET new text", "+OK\r\n"), ("DEL gone", ":1\r\n")] {
        assert_eq!(writer.say(command), reply);
    }
}

#[test]
fn every_reply_waits_for_what_it_tells_of() {
    let (disk, server) = logged();
    let mut writer = server.client();
    assert_eq!(writer.say("MSET old 1 gone 1"), "+OK\r\n");
    let payload = writer.ask(&[b"DUMP", b"old"]);
    let payload = &payload[5..payload.len() - 2];
    let restore = request(&[b"RESTORE", b"new", b"0", payload]);
    let busy = "-BUSYKEY Target key name already exists.\r\n";
    let known = TELLING
        .iter()
        .map(|&(text, reply)| (text, words(text), Some(reply)));
    let more = MORE.iter().map(|&text| (text, words(text), None));
    let all: Vec<_> = known
        .chain(more)
        .chain([("RESTORE new", restore, Some(busy))])
        .collect();
    let mut readers: Vec<Client> = all.iter().map(|_| sync(&server)).collect();
    settle(&disk, &mut writer);
    write(&mut writer);
    for (reader, (_, bytes, _)) in readers.iter_mut().zip(&all) {
        reader.send(bytes);
    }
    std::thread::sleep(super::WHILE);
    for (reader, (text, ..)) in readers.iter_mut().zip(&all) {
        let told = reader.replies_at_hand();
        assert!(told.is_empty(), "{text}: {}", show(&told[0]));
    }
    disk.hold(false);
    for (reader, (text, _, wanted)) in readers.iter_mut().zip(&all) {
        let reply = reader.reply();
        if let Some(wanted) = wanted {
            assert_eq!(show(&reply), show(wanted.as_bytes()), "{text}");
        }
    }
}

#[test]
fn what_has_been_durable_for_long_is_told_at_once() {
    let (disk, server) = logged();
    let (mut writer, mut reader) = (server.client(), sync(&server));
    assert_eq!(writer.say("MSET old 1 older 2"), "+OK\r\n");
    settle(&disk, &mut writer);
    assert_eq!(writer.say("SET something else"), "+OK\r\n");
    let reads = [
        "GET old",
        "MGET old older",
        "GET never",
        "GET older",
        "EXISTS old older",
    ];
    send(&mut reader, &reads);
    assert_eq!(told(&mut reader).len(), reads.len());
    send(&mut reader, &["MULTI", "GET old", "STRLEN older", "EXEC"]);
    assert_eq!(told(&mut reader).len(), 4);
    send(&mut reader, &["BEGIN READ ONLY", "GET old", "COMMIT"]);
    assert_eq!(told(&mut reader).len(), 3);
    disk.hold(false);
}

#[test]
fn a_statement_of_an_open_transaction_waits_for_what_it_tells_of() {
    let (disk, server) = logged();
    let mut writer = server.client();
    let statements = [
        ("DEL k", ":1\r\n"),
        ("UNLINK k", ":1\r\n"),
        ("GETDEL k", "$1\r\n1\r\n"),
        ("EXPIRE k 100", ":1\r\n"),
        ("SETNX k 2", ":0\r\n"),
        ("SET k 2 GET", "$1\r\n1\r\n"),
        ("APPEND k 1", ":2\r\n"),
        ("INCR k", ":2\r\n"),
    ];
    for (statement, reply) in statements {
        let mut own = sync(&server);
        assert_eq!(own.say("BEGIN"), "+OK\r\n");
        assert_eq!(writer.say("DEL k"), ":0\r\n");
        settle(&disk, &mut writer);
        assert_eq!(writer.say("SET k 1"), "+OK\r\n");
        send(&mut own, &[statement]);
        is_told_nothing(&mut own, statement);
        disk.hold(false);
        assert_eq!(show(&own.reply()), show(reply.as_bytes()), "{statement}");
        assert_eq!(own.say("ROLLBACK"), "+OK\r\n");
        assert_eq!(writer.say("DEL k"), ":1\r\n");
    }
}

#[test]
fn a_set_in_a_transaction_tells_nothing_of_what_was_there() {
    let (disk, server) = logged();
    let (mut writer, mut own) = (server.client(), sync(&server));
    assert_eq!(own.say("BEGIN"), "+OK\r\n");
    settle(&disk, &mut writer);
    assert_eq!(writer.say("SET k 1"), "+OK\r\n");
    send(&mut own, &["SET k 2"]);
    assert_eq!(told(&mut own).len(), 1);
    send(&mut own, &["COMMIT"]);
    is_told_nothing(&mut own, "COMMIT");
    disk.hold(false);
    assert_eq!(own.reply(), b"+OK\r\n");
}

/// It finds nothing to delete, for another client has just done so.
#[test]
fn that_everything_is_deleted_is_told_when_it_is_durable() {
    let (disk, server) = logged();
    let mut writer = server.client();
    assert_eq!(writer.say("SET k 1"), "+OK\r\n");
    let (mut plain, mut block) = (sync(&server), sync(&server));
    settle(&disk, &mut writer);
    assert_eq!(writer.say("DEL k"), ":1\r\n");
    send(&mut plain, &["FLUSHALL"]);
    send(&mut block, &["MULTI", "FLUSHALL", "EXEC"]);
    is_told_nothing(&mut plain, "FLUSHALL");
    let told = block.replies_at_hand();
    assert!(told.len() < 3, "{told:?}");
    disk.hold(false);
    assert_eq!(plain.reply(), b"+OK\r\n");
}
