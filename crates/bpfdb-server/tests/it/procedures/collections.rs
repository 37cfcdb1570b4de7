//! Commands on small collections: compiled, interpreted, and in Redis.

use std::ops::Range;

use bpfdb_server::settings::Settings;
use bpfdb_tests::programs::collections;
use bpfdb_tests::settings::is_emulated;

use super::common::{Client, Lent, Redis, Reply, TestServer};
use super::fixed::{Case, compare_in_kernel};
use super::{all_kernel_calls, ask, back_to_kernel, load, server, shown, until_in_kernel};

const LONG: &str =
    "an element that is longer than sixteen bytes, of which there is no copy in a cell";

/// Functions: name, body, calls. All run in the kernel.
const CASES: &[Case] = &[
    (
        "fields",
        "return {redis.call('HSET', keys[1], 'f', args[1], 'g', 7), redis.call('HGET', keys[1], 'f'), \
           redis.call('HGET', keys[1], 'g'), redis.call('HGET', keys[1], 'none'), \
           redis.call('HLEN', keys[1]), redis.call('HEXISTS', keys[1], 'f'), \
           redis.call('HEXISTS', keys[1], 'none'), redis.call('HSTRLEN', keys[1], 'f')}",
        &[&["1", "h", "x"], &["1", "h", LONG], &["1", "h", ""]],
    ),
    (
        "many_fields",
        "redis.call('HMSET', keys[1], 'a', 1, 'b', args[1]) \
         return redis.call('HMGET', keys[1], 'a', 'none', 'b')",
        &[&["1", "h", "x"], &["1", "h2", LONG]],
    ),
    (
        "new_field",
        "return {redis.call('HSETNX', keys[1], args[1], 'v'), redis.call('HGET', keys[1], args[1])}",
        &[&["1", "h", "f"], &["1", "h", "new"], &["1", "h3", "f"]],
    ),
    (
        "counter",
        "return {redis.call('HINCRBY', keys[1], 'n', args[1]), redis.call('HGET', keys[1], 'n')}",
        &[&["1", "h", "5"], &["1", "h", "-7"], &["1", "absent", "1"]],
    ),
    (
        "fewer_fields",
        "return {redis.call('HDEL', keys[1], 'f', 'none', 'g'), redis.call('EXISTS', keys[1])}",
        &[&["1", "h"], &["1", "h3"], &["1", "h3"]],
    ),
    (
        "queue",
        "return {redis.call('RPUSH', keys[1], 'a', args[1]), redis.call('LPUSH', keys[1], 'b', 'c'), \
           redis.call('LINDEX', keys[1], 0), redis.call('LINDEX', keys[1], -1), \
           redis.call('LINDEX', keys[1], 9), redis.call('LPOP', keys[1]), redis.call('RPOP', keys[1]), \
           redis.call('LLEN', keys[1])}",
        &[&["1", "l", "x"], &["1", "l", LONG], &["1", "l", ""]],
    ),
    (
        "emptied",
        "local n = 0 while redis.call('LPOP', keys[1]) do n = n + 1 end \
         return {n, redis.call('RPOP', keys[1]), redis.call('EXISTS', keys[1]), redis.call('LLEN', keys[1])}",
        &[&["1", "l"], &["1", "l"]],
    ),
    (
        "set",
        "return {redis.call('SADD', keys[1], 'a', args[1], 'a', 12), redis.call('SCARD', keys[1]), \
           redis.call('SISMEMBER', keys[1], args[1]), redis.call('SISMEMBER', keys[1], 'none'), \
           redis.call('SREM', keys[1], 'a', 'none')}",
        &[&["1", "s", "x"], &["1", "s", LONG], &["1", "s", "7"]],
    ),
    (
        "asked",
        "return redis.call('SMISMEMBER', keys[1], 'x', 'none', '12')",
        &[&["1", "s"], &["1", "absent2"]],
    ),
    (
        "scores",
        "return {redis.call('ZADD', keys[1], 5, 'a', args[1], 'b'), redis.call('ZSCORE', keys[1], 'b'), \
           redis.call('ZINCRBY', keys[1], args[1], 'a'), redis.call('ZSCORE', keys[1], 'none'), \
           redis.call('ZCARD', keys[1]), redis.call('ZADD', keys[1], 1, 'a', 9, 'c', 1, 'c')}",
        &[
            &["1", "z", "7"],
            &["1", "z", "-7"],
            &["1", "z", "9007199254740000"],
            &["1", "z2", "-9007199254740991"],
            &["1", "z2", "0"],
        ],
    ),
    (
        "leaves",
        "return {redis.call('ZREM', keys[1], 'a', 'none'), redis.call('ZMSCORE', keys[1], 'a', 'b')[2]}",
        &[&["1", "z"], &["1", "z"]],
    ),
    (
        "kinds",
        "redis.call('HSET', keys[1], 'f', 1) redis.call('RPUSH', keys[2], 1) redis.call('SADD', keys[3], 1) \
         redis.call('ZADD', keys[4], 1, 1) \
         return {redis.call('TYPE', keys[1]), redis.call('TYPE', keys[2]), redis.call('TYPE', keys[3]), \
           redis.call('TYPE', keys[4]), redis.call('EXISTS', keys[1], keys[2], keys[3], keys[4]), \
           redis.call('SET', keys[1], 1, 'NX'), redis.call('SETNX', keys[2], 1)}",
        &[&["4", "k1", "k2", "k3", "k4"]],
    ),
    (
        "lives",
        "redis.call('HSET', keys[1], 'f', 1) redis.call('EXPIRE', keys[1], 100) \
         redis.call('HINCRBY', keys[1], 'f', 1) local left = redis.call('TTL', keys[1]) \
         return {left, redis.call('PERSIST', keys[1]), redis.call('TTL', keys[1]), \
           redis.call('HGET', keys[1], 'f')}",
        &[&["1", "k5"]],
    ),
    (
        "deleted",
        "return redis.call('DEL', keys[1], keys[2], keys[3])",
        &[&["3", "h", "l", "absent3"]],
    ),
];

/// In the kernel and beside Redis, in both protocols.
#[test]
fn what_runs_in_the_kernel_replies_as_redis() {
    let keys = "h h2 h3 absent l s z z2 k1 k2 k3 k4 k5";
    compare_in_kernel(CASES, keys, &[]);
}

// ---- Random ones ----------------------------------------------------------------

/// Functions of one library.
fn each() -> u64 {
    if is_emulated() { 5 } else { 25 }
}

/// Libraries of a short run: to load the programs of one takes the kernel half a second.
const LIBRARIES: u64 = 3;
const LIBRARIES_LONG: u64 = 100;

const KEYS: [&str; 5] = ["h", "l", "s", "z", "h:e"];

/// What is under the keys: times, whatever they are, and elements, whose order is no order for some.
fn state(client: &mut Client) -> Vec<Reply> {
    let mut all = Vec::new();
    for key in KEYS {
        let kind = ask(client, &["TYPE", key]);
        let words: &[&str] = match &kind.text[..] {
            b"hash" => &["HGETALL", key],
            b"list" => &["LRANGE", key, "0", "-1"],
            b"set" => &["SMEMBERS", key],
            b"zset" => &["ZRANGE", key, "0", "-1", "WITHSCORES"],
            _ => &["GET", key],
        };
        let mut elements = ask(client, words);
        if matches!(&kind.text[..], b"hash" | b"set") {
            let size = if kind.is("hash") { 2 } else { 1 };
            let chunks = elements.items.chunks(size);
            let mut chunks: Vec<String> = chunks.map(|chunk| format!("{chunk:?}")).collect();
            chunks.sort();
            elements.items.clear();
            elements.text = chunks.concat().into_bytes();
        }
        let expires = ask(client, &["TTL", key]).number() > Some(0);
        all.extend([kind, elements]);
        if expires {
            all.push(ask(client, &["ECHO", "expires"]));
        }
    }
    all
}

fn encodings(client: &mut Client) -> Vec<String> {
    let encoding = |key| ask(client, &["OBJECT", "ENCODING", key]).to_string();
    KEYS.map(encoding).into()
}

fn interpreter() -> Lent {
    let settings = Settings {
        compile_procedures: false,
        ..Settings::default()
    };
    TestServer::lent(&bpfdb::Options::default(), settings)
}

/// Replies, data and encodings are the interpreter's, and Redis's. What a call leaves the next one finds. Of these
/// libraries: calls that the kernel answered, of how many.
fn random_calls_agree(compiled: &mut Client, libraries: Range<u64>, by_daemon: bool) -> (i64, i64) {
    let (interpreter, redis) = (interpreter(), Redis::start());
    let mut interpreted = interpreter.client();
    let mut theirs = Client::connect(redis.address);
    let each = each();
    let (mut calls, mut in_kernel) = (0, 0);
    for first in libraries.map(|number| number * each) {
        let text = format!(
            "{}{}",
            collections::library(first..first + each),
            super::daemon::WARM
        );
        load(compiled, &text);
        for client in [&mut interpreted, &mut theirs] {
            let reply = ask(client, &["FUNCTION", "LOAD", "REPLACE", &text]);
            assert!(!reply.is_error(), "{reply}");
        }
        if by_daemon {
            super::daemon::warm(compiled, "warm", &["FCALL", "warm", "0"]);
        }
        for seed in first..first + each {
            let name = format!("f{seed}");
            let element = ["e", "b", "12", LONG][(seed % 4) as usize];
            let score = ["2", "5", "-1", "1.5", "x"][(seed / 3 % 5) as usize];
            let words = ["FCALL", &name, "4", "h", "l", "s", "z", element, score];
            back_to_kernel(compiled);
            let replies = [&mut *compiled, &mut interpreted, &mut theirs].map(|c| ask(c, &words));
            let told = format!("{words:?} of\n{}", collections::body(seed));
            assert_eq!(replies[0], replies[1], "compiled, interpreted: {told}");
            assert_eq!(state(compiled), state(&mut interpreted), "{told}");
            assert_eq!(encodings(compiled), encodings(&mut interpreted), "{told}");
            if replies[2].is_error() {
                // In Redis what came before an error stays.
                assert!(replies[0].is_error(), "{} {told}", replies[0]);
            } else {
                assert_eq!(replies[0], replies[2], "compiled, Redis: {told}");
                assert_eq!(state(compiled), state(&mut theirs), "{told}");
            }
            calls += 1;
            if replies[2].is_error() || seed % 5 == 0 {
                for client in [&mut *compiled, &mut interpreted, &mut theirs] {
                    client.say("DEL h l s z h:e");
                }
            }
        }
        in_kernel += all_kernel_calls(compiled);
    }
    (in_kernel, calls)
}

#[test]
fn random_programs_mean_the_same() {
    let server = server();
    let (in_kernel, calls) = random_calls_agree(&mut server.client(), 0..LIBRARIES, false);
    println!("the kernel answered {in_kernel} of {calls} calls");
    assert!(in_kernel * 3 > calls, "{in_kernel} of {calls}");
}

#[test]
fn random_programs_mean_the_same_to_clients_of_the_daemon() {
    let server = server();
    let libraries = LIBRARIES..2 * LIBRARIES;
    let (in_kernel, calls) = random_calls_agree(&mut server.unix_client(), libraries, true);
    println!("the kernel answered {in_kernel} of {calls} calls, or a few more");
    assert!(in_kernel * 3 > calls, "{in_kernel} of {calls}");
}

#[test]
#[ignore = "takes minutes"]
fn soak_random_programs_of_collections() {
    for by_daemon in [false, true] {
        let server = server();
        let mut client = match by_daemon {
            true => server.unix_client(),
            false => server.client(),
        };
        let (in_kernel, calls) = random_calls_agree(&mut client, 0..LIBRARIES_LONG, by_daemon);
        println!("the kernel answered {in_kernel} of {calls} calls, or a few more");
        assert!(in_kernel * 3 > calls, "{in_kernel} of {calls}");
    }
}

// ---- Limits ---------------------------------------------------------------------

/// How often the kernel gave up a call for this reason.
fn given_up(client: &mut Client, name: &str, reason: &str) -> i64 {
    let shown = shown(client, name);
    let reasons = shown.field("deoptimisations").expect("a field");
    reasons.field(reason).and_then(Reply::number).unwrap_or(0)
}

/// A list, a hash, a set and a sorted set grow in calls of the kernel until it gives them up, and then in
/// those of the daemon: nothing is lost at the border, and the wide element is there.
#[test]
fn collections_outgrow_the_kernel() {
    const ELEMENTS: usize = 1_100;
    const LIBRARY: &str = "#!lua name=lib
redis.register_function('grow', function(keys, args)
  redis.call('HSET', keys[1], args[1], args[1])
  redis.call('RPUSH', keys[2], args[1])
  redis.call('SADD', keys[3], args[1])
  redis.call('ZADD', keys[4], args[1], args[1])
  return redis.call('INCR', keys[5])
end)";
    let (server, redis) = (server(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    load(&mut clients[0], LIBRARY);
    ask(&mut clients[1], &["FUNCTION", "LOAD", LIBRARY]);
    for number in 0..ELEMENTS {
        let number = number.to_string();
        let words = ["FCALL", "grow", "5", "h", "l", "s", "z", "n", &number];
        let replies = clients.each_mut().map(|client| ask(client, &words));
        assert_eq!(replies[0], replies[1], "{number}");
        if replies[0].number() == Some(50) {
            back_to_kernel(&mut clients[0]);
        }
    }
    let [ours, theirs] = &mut clients;
    assert_eq!(state(ours), state(theirs));
    assert!(
        super::kernel_calls(ours, "grow") > 300,
        "{}",
        shown(ours, "grow")
    );
    super::wait_until("the kernel gives the call up", || {
        back_to_kernel(ours);
        let words = ["FCALL", "grow", "5", "h", "l", "s", "z", "n", "7"];
        assert!(!ask(ours, &words).is_error());
        given_up(ours, "grow", "collection") > 0
    });
}

/// A type that a command is not for is an error, of which nothing is left.
#[test]
fn the_wrong_type_leaves_nothing() {
    let server = server();
    let mut client = server.client();
    load(
        &mut client,
        "#!lua name=lib\nredis.register_function('f', function(keys)
           redis.call('HSET', keys[1], 'f', 'new') redis.call('RPUSH', keys[2], 'x')
           return redis.call('SADD', keys[3], 'y') end)
         redis.register_function('g', function(keys)
           redis.call('HSET', keys[1], 'f', 'new')
           local failed = redis.pcall('SADD', keys[3], 'y') return failed.err end)",
    );
    client.say("HSET h f old");
    client.say("SET s string");
    super::wait_until("the kernel gives the call up", || {
        back_to_kernel(&mut client);
        let reply = ask(&mut client, &["FCALL", "f", "3", "h", "l", "s"]);
        assert!(reply.text.starts_with(b"WRONGTYPE"), "{reply}");
        assert_eq!(client.say("HGET h f"), "$3\r\nold\r\n");
        assert_eq!(client.say("EXISTS l"), ":0\r\n");
        given_up(&mut client, "f", "value_type") > 0
    });
    let reply = ask(&mut client, &["FCALL", "g", "3", "h", "l", "s"]);
    assert!(reply.text.starts_with(b"WRONGTYPE"), "{reply}");
    assert_eq!(client.say("HGET h f"), "$3\r\nnew\r\n");
}

/// A collection keeps its expiry until a call sets another one.
#[test]
fn collections_expire() {
    let server = server();
    let mut client = server.client();
    load(
        &mut client,
        "#!lua name=lib\nredis.register_function('touch', function(keys)
           redis.call('HINCRBY', keys[1], 'n', 1) redis.call('PEXPIRE', keys[1], 40)
           return redis.call('HGET', keys[1], 'n') end)",
    );
    until_in_kernel(&mut client, "touch", 1, |client| {
        super::wait_until("it expires", || client.say("EXISTS h") == ":0\r\n");
        let reply = ask(client, &["FCALL", "touch", "1", "h"]);
        assert_eq!(reply.text, b"1", "{reply}");
    });
}

/// A call that finds no memory leaves none of its lists behind.
#[test]
fn a_call_without_memory_leaves_nothing() {
    const LISTS: usize = 100;
    const MEMORY: u64 = 32 << 20;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: MEMORY,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    load(
        &mut client,
        &format!(
            "#!lua name=lib\nredis.register_function('fill', function(keys, args)
             for i = 1, {LISTS} do redis.call('RPUSH', keys[1] .. ':' .. i, args[1], args[1], args[1], i) end
             return 'filled' end)"
        ),
    );
    let element = "e".repeat(250);
    let enough = MEMORY as usize / (3 * element.len() * LISTS) + 1;
    let full = (0..enough).find_map(|number| {
        back_to_kernel(&mut client);
        let key = format!("k{number}");
        let reply = ask(&mut client, &["FCALL", "fill", "1", &key, &element]);
        reply.is_error().then(|| (number, reply.to_string()))
    });
    let (number, told) = full.expect("the memory is full some time");
    assert!(number > 0 && told.contains("OOM"), "call {number}: {told}");
    let shown = shown(&mut client, "fill");
    assert!(super::kernel_calls(&mut client, "fill") > 0, "{shown}");
    let errors = shown.field("errors").and_then(Reply::number);
    assert!(errors > Some(0), "the kernel has given it up: {shown}");
    for list in 1..=LISTS {
        let key = format!("k{number}:{list}");
        assert_eq!(ask(&mut client, &["EXISTS", &key]).number(), Some(0));
        let key = format!("k0:{list}");
        assert_eq!(ask(&mut client, &["LLEN", &key]).number(), Some(4));
    }
}
