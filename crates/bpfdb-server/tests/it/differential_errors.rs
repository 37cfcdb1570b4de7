//! What is said about the server and the connection, mistakes above all: the same requests
//! to Redis and to bpfdb.

use bpfdb_tests::server as common;

use common::{Client, Redis, TestServer, show};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const COMMANDS: &[&str] = &[
    "AUTH",
    "CLIENT",
    "CLIENT CACHING",
    "CLIENT GETNAME",
    "CLIENT GETREDIR",
    "CLIENT HELP",
    "CLIENT ID",
    "CLIENT INFO",
    "CLIENT KILL",
    "CLIENT LIST",
    "CLIENT NO-EVICT",
    "CLIENT PAUSE",
    "CLIENT REPLY",
    "CLIENT SETNAME",
    "CLIENT TRACKING",
    "CLIENT TRACKINGINFO",
    "CLIENT UNBLOCK",
    "CLIENT UNPAUSE",
    "COMMAND COUNT",
    "COMMAND DOCS",
    "COMMAND GETKEYS",
    "COMMAND GETKEYSANDFLAGS",
    "COMMAND HELP",
    "COMMAND INFO",
    "COMMAND LIST",
    "CONFIG",
    "CONFIG GET",
    "CONFIG HELP",
    "CONFIG RESETSTAT",
    "CONFIG REWRITE",
    "CONFIG SET",
    "DBSIZE",
    "DEBUG",
    "ECHO",
    "FLUSHALL",
    "FLUSHDB",
    "HELLO",
    "INFO",
    "LASTSAVE",
    "LATENCY",
    "LATENCY DOCTOR",
    "LATENCY GRAPH",
    "LATENCY HELP",
    "LATENCY HISTOGRAM",
    "LATENCY HISTORY",
    "LATENCY LATEST",
    "LATENCY RESET",
    "MEMORY",
    "MEMORY DOCTOR",
    "MEMORY HELP",
    "MEMORY MALLOC-STATS",
    "MEMORY PURGE",
    "MEMORY STATS",
    "MEMORY USAGE",
    "OBJECT",
    "OBJECT ENCODING",
    "OBJECT FREQ",
    "OBJECT HELP",
    "OBJECT IDLETIME",
    "OBJECT REFCOUNT",
    "PING",
    "REPLICAOF",
    "RESET",
    "ROLE",
    "SELECT",
    "SLAVEOF",
    "SLOWLOG",
    "SLOWLOG GET",
    "SLOWLOG HELP",
    "SLOWLOG LEN",
    "SLOWLOG RESET",
    "TIME",
    "WAIT",
];

const ARGUMENTS: &[&str] = &[
    "",
    "abc",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "99999999999999999999",
    "+1",
    "01",
    " 1",
    "1.5",
    "on",
    "OFF",
    "yes",
    "no",
    "skip",
    "get",
    "set",
    "mset",
    "none",
    "user",
    "default",
    "type",
    "normal",
    "pubsub",
    "slave",
    "id",
    "skipme",
    "addr",
    "127.0.0.1:1",
    "laddr",
    "timeout",
    "error",
    "write",
    "all",
    "async",
    "sync",
    "filterby",
    "aclcat",
    "pattern",
    "module",
    "read",
    "g*",
    "a b",
    "samples",
    "redirect",
    "bcast",
    "optin",
    "prefix",
    "noloop",
    "auth",
    "setname",
    "é",
    "help",
    "nosuch",
    "a\nb",
];

/// What is not to be asked, or has no answer that could be compared.
fn is_left_out(words: &[&str]) -> bool {
    let all = words.join(" ").to_ascii_lowercase();
    let is = |name: &str| all.starts_with(name);
    let has = |word: &str| words.iter().any(|other| other.eq_ignore_ascii_case(word));
    // These stop clients, or this one.
    (is("client pause") && words.len() < 5)
        || (is("client reply") && words.len() == 3)
        || (is("client kill") && (has("no") || has("normal")))
        || (is("wait") && words.len() == 3)
        // Whatever Redis has and bpfdb does not.
        || (is("client tracking") && has("on"))
        || (is("replicaof") || is("slaveof")) && words.len() == 3
        || is("object idletime")
        || (is("command getkeys") && has("sync"))
        // Repeats the word in capitals, whatever was written.
        || (words[..2.min(words.len())] == ["SLOWLOG", "get"] && words.len() > 3)
        // A key is not empty.
        || ((is("object") || is("memory usage")) && has(""))
}

/// Redis's errors are ours, to the byte; and where it has none, there is none. What else
/// is replied is another matter: ids, times, memory.
fn compare(redis: &mut Client, server: &mut Client, words: &[&str]) {
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let (expected, got) = (redis.ask(&bytes), server.ask(&bytes));
    let same = if expected[0] == b'-' {
        expected == got
    } else {
        expected[0] == got[0]
    };
    assert!(
        same,
        "{words:?}\n redis: {}\n bpfdb: {}",
        show(&expected),
        show(&got)
    );
}

#[test]
fn mistakes_are_called_the_same() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    let (mut a, mut b) = (Client::connect(redis.address), server.client());
    let mut asked = 0;
    let mut ask = |words: &[&str]| {
        if !is_left_out(words) {
            compare(&mut a, &mut b, words);
            asked += 1;
        }
    };
    for command in COMMANDS {
        let name: Vec<&str> = command.split(' ').collect();
        ask(&name);
        for argument in ARGUMENTS {
            ask(&[&name[..], &[argument]].concat());
        }
    }
    let mut runner = TestRunner::deterministic();
    let arguments = proptest::collection::vec(select(ARGUMENTS), 2..5);
    let strategy = (select(COMMANDS), arguments);
    for _ in 0..6000 {
        let (command, arguments) = strategy.new_tree(&mut runner).expect("words").current();
        let name: Vec<&str> = command.split(' ').collect();
        ask(&[name, arguments].concat());
    }
    assert!(asked > 8000, "{asked}");
}

/// Inline commands: the bytes, and what comes back up to PONG.
#[test]
fn lines_are_read_the_same_way() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    for line in [
        &b"ping \x0b x\r\n"[..],
        b"echo a\x0bb\x0cc\r\n",
        b"echo 'a'\x0b\r\n",
        b"ping\r\r\n",
        b" \r\n\r\nping\n",
        b"ping\t\"\\x41\\n\"\r\n",
    ] {
        let reply = |mut client: Client| {
            client.send(line);
            client.reply()
        };
        let expected = reply(Client::connect(redis.address));
        assert_eq!(show(&expected), show(&reply(server.client())));
    }
    // Such a line goes on for ever, and so does not get a reply before it is too long.
    for start in [&b"ping\0\r\n"[..], b"\0", b"*1\0\r\n", b"*1\r\n$4\0\r\n"] {
        let mut line = start.to_vec();
        line.resize(line.len() + (64 << 10), b'1');
        let reply = |mut client: Client| {
            client.send(&line);
            client.reply()
        };
        let expected = reply(Client::connect(redis.address));
        assert!(expected.starts_with(b"-ERR Protocol error: too big "));
        assert_eq!(show(&expected), show(&reply(server.client())));
    }
}

/// INFO errorstats: an error that a script passes on is counted once, and one of a command that is
/// not executed too.
#[test]
fn errors_of_scripts_are_counted_as_redis_does() {
    let server = TestServer::shared();
    let redis = Redis::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), server.client());
    let mut both = |words: &[&[u8]]| [theirs.ask(words), ours.ask(words)];
    both(&[b"SET", b"text", b"no number"]);
    for script in [
        "return redis.call('INCR', 'text')",
        "return redis.pcall('INCR', 'text')",
        "redis.pcall('INCR', 'text') return 1",
        "return redis.call('NONSENSE')",
        "return redis.pcall('NONSENSE')",
        "redis.pcall('GET') return 1",
        "return redis.call()",
        "redis.pcall() return 1",
        "return redis.call('SAVE')",
        "return redis.error_reply('MY error')",
        "return {err = 'MY error'}",
        "error('MY error')",
        "error({err = 'MY error'})",
        "local e = redis.pcall('INCR', 'text') return {err = e.err}",
        "return 1",
    ] {
        both(&[b"CONFIG", b"RESETSTAT"]);
        both(&[b"EVAL", script.as_bytes(), b"0"]);
        let [redis, bpfdb] = both(&[b"INFO", b"errorstats"]).map(|page| {
            let page = String::from_utf8_lossy(&page).into_owned();
            let lines = page.lines().filter(|line| line.starts_with("errorstat_"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(bpfdb, redis, "{script}");
    }
}

/// The subcommand is repeated as it was written.
#[test]
fn wrong_numbers_of_arguments_of_subcommands() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    let (mut theirs, mut ours) = (Client::connect(redis.address), server.client());
    for command in [
        "FUNCTION flush x y",
        "function FLUSH x y",
        "function Restore x append y",
        "client Pause 1 all x",
        "client unblock 1 error x",
        "slowlog gET 1 2",
    ] {
        assert_eq!(ours.say(command), theirs.say(command), "{command}");
    }
}
