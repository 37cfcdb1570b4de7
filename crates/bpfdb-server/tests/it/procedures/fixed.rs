//! Programs that were thought of, in the kernel and beside Redis; calls of all forms.

use super::common::{Client, Redis, request};
use super::{all_kernel_calls, ask, back_to_kernel, load, parsed, server, until_in_kernel};

const VOTER: &str = "#!lua name=voter
redis.register_function('vote', function(keys, args)
  if not redis.call('GET', keys[1]) then return 1 end
  local count = tonumber(redis.call('GET', keys[2]) or '0')
  if count >= tonumber(args[1]) then return 2 end
  redis.call('SET', keys[2], count + 1)
  redis.call('INCR', keys[3])
  return 0
end)";

/// A function: name, body, calls.
pub(super) type Case = (
    &'static str,
    &'static str,
    &'static [&'static [&'static str]],
);

/// Functions of `lib`. All run in the kernel.
const CASES: &[Case] = &[
    ("constant", "return 7", &[&["0"], &["2", "a", "b", "c"]]),
    ("nothing", "local x = 1", &[&["0"]]),
    ("truth", "return true", &[&["0"]]),
    ("untruth", "return false", &[&["0"]]),
    ("echo", "return args[1]", &[&["0", "x"], &["0", ""], &["0"]]),
    ("long", "return args[1]", &[&["0", LONG]]),
    (
        "list",
        "return {1, 'two', keys[1], args[1], 5}",
        &[&["1", "k", "a"], &["0"], &["1", "k"]],
    ),
    ("empty", "return {}", &[&["0"]]),
    (
        "join",
        "return 'a' .. args[1] .. 7 .. -3",
        &[&["0", "x"], &["0", LONG]],
    ),
    (
        "quotients",
        "return {math.floor(args[1] / args[2]), math.ceil(args[1] / args[2])}",
        &[
            &["0", "7", "2"],
            &["0", "-7", "2"],
            &["0", "7", "-2"],
            &["0", "-7", "-2"],
            &["0", "1", "3"],
            &["0", "-1", "-3"],
            &["0", "6", "3"],
            &["0", "-6", "3"],
            &["0", "0", "5"],
            &["0", "4503599627370496", "3"],
            &["0", "4503599627370495", "4503599627370496"],
        ],
    ),
    ("status", "return redis.status_reply('FINE')", &[&["0"]]),
    ("refuses", "return redis.error_reply('MY no')", &[&["0"]]),
    ("minus", "return redis.error_reply('-no')", &[&["0"]]),
    (
        "minuses",
        "return redis.error_reply('--MY ' .. args[1])",
        &[&["0", "no"]],
    ),
    (
        "minus_err",
        "return {err = '-' .. args[1]}",
        &[&["0", "no"]],
    ),
    (
        "refuses_err",
        "return redis.error_reply('ERR no')",
        &[&["0"]],
    ),
    (
        "equal",
        "return args[1] == args[2]",
        &[&["0", "a", "a"], &["0", "a", "b"], &["0", LONG, LONG]],
    ),
    (
        "less",
        "if args[1] < args[2] then return 1 end return 2",
        &[
            &["0", "a", "b"],
            &["0", "b", "a"],
            &["0", "a", "a"],
            &["0", "a", "aa"],
            &["0", "", "a"],
            &["0", "abcdefghi", "abcdefgh"],
            &["0", "Z", "a"],
        ],
    ),
    (
        "sum",
        "return args[1] + args[2]",
        &[
            &["0", "1", "2"],
            &["0", "-5", "5"],
            &["0", "9007199254740991", "1"],
        ],
    ),
    (
        "part",
        "return string.sub(args[1], args[2], args[3])",
        &[
            &["0", "hello", "1", "2"],
            &["0", "hello", "-3", "-1"],
            &["0", "hello", "4", "2"],
            &["0", "hello", "-9", "9"],
            &["0", "", "1", "1"],
            &["0", "hello", "6", "9"],
        ],
    ),
    (
        "loop",
        "local n = 0 for i = 1, args[1] do n = n + i end return n",
        &[&["0", "100"], &["0", "0"]],
    ),
    (
        "words",
        "local n = 0 for i, k in ipairs(keys) do n = n + #k end return {n, #keys, #args}",
        &[&["3", "a", "bb", "ccc", "x"], &["0"]],
    ),
    (
        "set_get",
        "redis.call('SET', keys[1], args[1]) return redis.call('GET', keys[1])",
        &[
            &["1", "k", "v"],
            &["1", "k", LONG],
            &["1", LONG_KEY, "v"],
            &["1", "k", ""],
        ],
    ),
    (
        "nx",
        "return redis.call('SET', keys[1], args[1], 'NX')",
        &[&["1", "new", "a"], &["1", "new", "b"]],
    ),
    (
        "xx",
        "return redis.call('SET', keys[1], args[1], 'XX')",
        &[&["1", "other", "a"], &["1", "new", "c"]],
    ),
    (
        "old",
        "return redis.call('SET', keys[1], args[1], 'GET')",
        &[&["1", "o", "a"], &["1", "o", "b"]],
    ),
    (
        "count",
        "return redis.call('INCRBY', keys[1], args[1])",
        &[&["1", "n", "5"], &["1", "n", "-7"]],
    ),
    ("down", "return redis.call('DECR', keys[1])", &[&["1", "n"]]),
    (
        "gone",
        "return redis.call('DEL', keys[1], keys[2])",
        &[&["2", "n", "k"], &["2", "n", "k"]],
    ),
    (
        "more",
        "redis.call('APPEND', keys[1], args[1]) return redis.call('GET', keys[1])",
        &[&["1", "m", "ab"], &["1", "m", "cd"], &["1", "m", LONG]],
    ),
    (
        "length",
        "return redis.call('STRLEN', keys[1])",
        &[&["1", "m"], &["1", "absent"]],
    ),
    (
        "expires",
        "redis.call('SET', keys[1], 'v', 'EX', args[1]) return redis.call('TTL', keys[1])",
        &[&["1", "e", "100"]],
    ),
    (
        "left",
        "return {redis.call('TTL', keys[1]), redis.call('TTL', keys[2])}",
        &[&["2", "absent", "m"]],
    ),
    (
        "stays",
        "redis.call('PERSIST', keys[1]) return redis.call('TTL', keys[1])",
        &[&["1", "e"]],
    ),
    (
        "kind",
        "return {redis.call('TYPE', keys[1]), redis.call('TYPE', keys[2])}",
        &[&["2", "e", "absent"]],
    ),
    (
        "taken",
        "return redis.call('GETDEL', keys[1])",
        &[&["1", "e"], &["1", "e"]],
    ),
    (
        "missing",
        "local v = redis.call('GET', keys[1]) if v == false then return 'none' end return v",
        &[&["1", "absent"], &["1", "m"]],
    ),
    (
        "setnx",
        "return redis.call('SETNX', keys[1], args[1])",
        &[&["1", "new2", "a"], &["1", "new2", "b"], &["1", "m", "c"]],
    ),
    (
        "getset",
        "return redis.call('GETSET', keys[1], args[1])",
        &[&["1", "o", "c"], &["1", "o", LONG], &["1", "o2", "d"]],
    ),
    (
        "setex",
        "redis.call('SETEX', keys[1], args[1], args[2]) \
         return {redis.call('GET', keys[1]), redis.call('TTL', keys[1])}",
        &[&["1", "x", "100", "v"], &["1", "x", "200", LONG]],
    ),
    (
        "psetex",
        "redis.call('PSETEX', keys[1], args[1], 'v') \
         return {redis.call('GET', keys[1]), redis.call('TTL', keys[1])}",
        &[&["1", "x", "100400"], &["1", "x2", "200400"]],
    ),
    (
        "expire",
        "return {redis.call('EXPIRE', keys[1], args[1]), redis.call('TTL', keys[1])}",
        &[
            &["1", "m", "50"],
            &["1", "absent", "50"],
            &["1", "m", "-1"],
            &["1", "m", "9"],
        ],
    ),
    (
        "pexpire",
        "return {redis.call('PEXPIRE', keys[1], args[1]), redis.call('PTTL', keys[1]) > args[1] - 9000}",
        &[&["1", "x", "50400"], &["1", "x", "0"]],
    ),
    ("at", AT, &[&["1", "k", FAR], &["1", "k", "1"]]),
    (
        "milliseconds_at",
        PAT,
        &[&["1", "k", FAR_MS], &["1", "k", "1"]],
    ),
    (
        "set_at",
        "redis.call('SET', keys[1], 'v', 'EXAT', args[1]) \
         redis.call('SET', keys[2], 'v', 'PXAT', args[2]) \
         return {redis.call('PEXPIRETIME', keys[1]), redis.call('EXPIRETIME', keys[2]), \
           redis.call('GET', keys[1]), redis.call('GET', keys[2])}",
        &[&["2", "k", "x", FAR, FAR_MS], &["2", "k", "x", "1", "2"]],
    ),
    (
        "keeps",
        "redis.call('SET', keys[1], 'v', 'PX', 100400) \
         redis.call('SET', keys[1], args[1], 'KEEPTTL') \
         return {redis.call('TTL', keys[1]), redis.call('GET', keys[1])}",
        &[&["1", "x", "w"]],
    ),
    (
        "dates",
        "return {redis.call('EXPIRETIME', keys[1]), redis.call('PEXPIRETIME', keys[1]), \
           redis.call('EXPIRETIME', keys[2]), redis.call('PEXPIRETIME', keys[2])}",
        &[&["2", "absent", "o"]],
    ),
    (
        "exists",
        "return redis.call('EXISTS', keys[1], keys[2], keys[1])",
        &[&["2", "o", "absent"]],
    ),
    (
        "unlinked",
        "return redis.call('UNLINK', keys[1], keys[2])",
        &[&["2", "o", "o2"], &["2", "o", "o2"]],
    ),
];

/// The date may be one that is over: then the key is gone.
const AT: &str = "redis.call('SET', keys[1], 'v') return {redis.call('EXPIREAT', keys[1], args[1]), \
    redis.call('EXPIRETIME', keys[1]), redis.call('PEXPIRETIME', keys[1]), redis.call('GET', keys[1])}";
const PAT: &str = "redis.call('SET', keys[1], 'v') return {redis.call('PEXPIREAT', keys[1], args[1]), \
    redis.call('EXPIRETIME', keys[1]), redis.call('PEXPIRETIME', keys[1]), redis.call('GET', keys[1])}";
/// In the year 2100.
const FAR: &str = "4102444800";
const FAR_MS: &str = "4102444800123";

const LONG: &str = "a text that is longer than what lies inside of a cell, and than sixteen bytes";
const LONG_KEY: &str = "a key that is longer than sixteen bytes and lies in a slot of its own";

fn library(cases: &[Case]) -> String {
    let functions: String = cases
        .iter()
        .map(|(name, body, _)| {
            format!("redis.register_function('{name}', function(keys, args) {body} end)\n")
        })
        .collect();
    format!("#!lua name=lib\n{functions}")
}

/// In the kernel and beside Redis, in both protocols. `keys`: those that the calls find absent at first.
/// One call of functions that are `given_up` is left to the interpreter.
pub(super) fn compare_in_kernel(cases: &[Case], keys: &str, given_up: &[&str]) {
    let (server, redis) = (server(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    load(&mut clients[0], &library(cases));
    ask(&mut clients[1], &["FUNCTION", "LOAD", &library(cases)]);
    for protocol in ["2", "3"] {
        for client in &mut clients {
            client.say(&format!("hello {protocol}"));
            client.say(&format!("del {keys}"));
        }
        for (name, _, calls) in cases {
            let excused = i64::from(given_up.contains(name));
            let [ours, theirs] = &mut clients;
            until_in_kernel(ours, name, calls.len() as i64 - excused, |ours| {
                for call in *calls {
                    let words = [&["FCALL", name], *call].concat();
                    let replies = [ask(ours, &words), ask(theirs, &words)];
                    assert_eq!(replies[0], replies[1], "{}", words.join(" "));
                }
            });
        }
    }
}

#[test]
fn what_runs_in_the_kernel_replies_as_redis() {
    // What the kernel gives up: a sum beyond 2^53, a time that is over.
    let given_up = [
        "sum",
        "at",
        "milliseconds_at",
        "set_at",
        "expire",
        "pexpire",
    ];
    compare_in_kernel(CASES, "k n o m e new other new2 o2 x x2", &given_up);
}

#[test]
fn a_script_is_compiled_when_it_is_called_often() {
    let server = server();
    let mut client = server.client();
    let text = "return redis.call('INCR', KEYS[1])";
    let sha1 = ask(&mut client, &["SCRIPT", "LOAD", text]);
    let sha1 = String::from_utf8(sha1.text).expect("digits");
    let mut count = 0;
    super::wait_until("it runs in the kernel", || {
        count += 1;
        let reply = ask(&mut client, &["EVALSHA", &sha1, "1", "n"]);
        assert_eq!(reply.number(), Some(count));
        let all = ask(&mut client, &["PROCEDURES"]);
        back_to_kernel(&mut client);
        all.items.iter().any(|one| super::is(one, "path", "kernel"))
    });
    until_in_kernel(&mut client, &sha1, 10, |client| {
        for _ in 0..10 {
            count += 1;
            let reply = ask(client, &["EVALSHA", &sha1, "1", "n"]);
            assert_eq!(reply.number(), Some(count));
        }
    });
    client.say("SCRIPT FLUSH");
    back_to_kernel(&mut client);
    let reply = ask(&mut client, &["EVALSHA", &sha1, "1", "n"]);
    assert!(reply.text.starts_with(b"NOSCRIPT"), "{reply}");
}

/// A tail call is one of 33 that a program has: a message with more calls is answered all the
/// same, and in its order.
#[test]
fn pipelines_of_any_length_are_exact() {
    let server = server();
    let mut client = server.client();
    load(
        &mut client,
        "#!lua name=lib\nredis.register_function('up', function(keys) return redis.call('INCR', keys[1]) end)",
    );
    let mut count = 0;
    for length in [1, 2, 31, 32, 33, 34, 65, 1000] {
        until_in_kernel(&mut client, "up", length, |client| {
            count = pipeline(client, length, count);
        });
    }
}

/// So many calls in one message, with other commands among them; what is counted to.
fn pipeline(client: &mut Client, length: i64, mut count: i64) -> i64 {
    let mut message = Vec::new();
    for number in 0..length {
        message.extend(request(&[b"FCALL", b"up", b"1", b"n"]));
        if number % 7 == 0 {
            message.extend(request(&[b"INCR", b"n"]));
        }
        if number % 11 == 0 {
            message.extend(request(&[b"ECHO", b"hello"]));
        }
    }
    client.send(&message);
    for number in 0..length {
        for _ in 0..1 + i64::from(number % 7 == 0) {
            count += 1;
            assert_eq!(parsed(&client.reply()).number(), Some(count), "of {length}");
        }
        if number % 11 == 0 {
            assert_eq!(parsed(&client.reply()).text, b"hello");
        }
    }
    count
}

/// The same with what the kernel does not do in between: calls that it gives up, commands and scripts
/// of the daemon, long replies. All replies are Redis's.
#[test]
fn pipelines_of_kernel_and_daemon_are_exact() {
    const LIBRARY: &str = "#!lua name=lib
redis.register_function('up', function(keys) return redis.call('INCR', keys[1]) end)
redis.register_function('twice', function(keys, args) redis.call('INCR', keys[1]) return args[1] * 2 end)";
    let (server, redis) = (server(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    load(&mut clients[0], LIBRARY);
    ask(&mut clients[1], &["FUNCTION", "LOAD", LIBRARY]);
    let long = vec![b'x'; 2_000];
    let script = b"return redis.call('INCR', KEYS[1])";
    for length in [1, 2, 31, 32, 33, 34, 65, 1000] {
        let others: [&[&[u8]]; 8] = [
            &[b"FCALL", b"up", b"1", b"n"],
            // Given up behind its write.
            &[b"FCALL", b"twice", b"1", b"n", b"1.5"],
            &[b"FCALL", b"up", b"1", b"n"],
            &[b"EVAL", script, b"1", b"n"],
            &[b"INCRBYFLOAT", b"sum", b"0.5"],
            &[b"FCALL", b"twice", b"1", b"n", b"21"],
            &[b"SET", b"long", &long],
            &[b"GET", b"long"],
        ];
        let requests: Vec<_> = (0..length)
            .flat_map(|number| {
                let other = request(others[number % others.len()]);
                [request(others[0]), other]
            })
            .collect();
        let message = requests.concat();
        back_to_kernel(&mut clients[0]);
        let replies = clients.each_mut().map(|client| {
            client.send(&message);
            let replies = requests.iter().map(|_| client.reply());
            replies.collect::<Vec<_>>()
        });
        for (number, (ours, theirs)) in replies[0].iter().zip(&replies[1]).enumerate() {
            assert_eq!(ours, theirs, "reply {number} of {length}");
        }
    }
    assert!(all_kernel_calls(&mut clients[0]) > 0);
}

/// In a transaction of the client's a call is a part of it, and the daemon's.
#[test]
fn transactions_of_clients_have_their_calls() {
    let server = server();
    let mut client = server.client();
    load(&mut client, VOTER);
    client.say("SET contestant:1 Anna");
    let call = "FCALL vote 3 contestant:1 phone:1 votes:1 2";
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert_eq!(client.say(call), ":0\r\n");
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(client.say("GET votes:1"), "$-1\r\n");
    client.send(
        &[
            request(&[b"MULTI"]),
            super::common::words(call),
            request(&[b"EXEC"]),
        ]
        .concat(),
    );
    let replies = [client.reply(), client.reply(), client.reply()];
    assert_eq!(replies[2], b"*1\r\n:0\r\n");
    assert_eq!(client.say("GET votes:1"), "$1\r\n1\r\n");
    let mut expected = vec![":2\r\n", ":0\r\n"];
    until_in_kernel(&mut client, "vote", 1, |client| {
        assert_eq!(client.say(call), expected.pop().unwrap_or(":2\r\n"));
        expected = vec![":2\r\n"];
    });
}

/// What a library registers is known only if its text runs to its end.
#[test]
fn a_library_that_returns_early_is_the_interpreters() {
    let server = server();
    let mut client = server.client();
    load(
        &mut client,
        "#!lua name=lib\nif true then redis.register_function('f', function() return 1 end) return end\n\
         redis.register_function('f', function() return 2 end)",
    );
    for _ in 0..3 {
        back_to_kernel(&mut client);
        assert_eq!(ask(&mut client, &["FCALL", "f", "0"]).number(), Some(1));
    }
}

fn programs(client: &mut Client) -> u64 {
    let info = client.say("INFO bpfdb");
    let found = info
        .lines()
        .find_map(|line| line.strip_prefix("bpfdb_procedure_programs:"));
    found.expect("a field").parse().expect("a number")
}

/// Scripts that are forgotten while they are compiled leave no program.
#[test]
fn what_is_flushed_while_it_is_compiled_is_gone() {
    let server = server();
    let mut client = server.client();
    for _ in 0..4 {
        for _ in 0..10 {
            ask(
                &mut client,
                &["EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"],
            );
        }
        client.say("SCRIPT FLUSH");
    }
    for _ in 0..10 {
        ask(
            &mut client,
            &["EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"],
        );
    }
    super::wait_until("it is compiled, and nothing else", || {
        programs(&mut client) == 1
    });
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(programs(&mut client), 1);
    client.say("SCRIPT FLUSH");
    assert_eq!(programs(&mut client), 0);
}
