//! CONFIG.

use bpfdb_server::settings::Settings;

use crate::operation::server;
use bpfdb_tests::server::lent::plain;
use bpfdb_tests::server::{Client, Redis, TestServer};

#[test]
fn the_memory_limit_is_changed_at_run_time() {
    const MIB: u64 = 1 << 20;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 64 * MIB,
        memory_limit_max: 256 * MIB,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    let now = |client: &mut bpfdb_tests::server::Client| {
        let said = client.say("CONFIG GET maxmemory");
        let mib = (said.split("\r\n").nth(4)).and_then(|bytes| bytes.parse::<u64>().ok());
        mib.expect("a number") / MIB
    };
    assert_eq!(now(&mut client), 64);
    assert_eq!(client.say("CONFIG SET maxmemory 100mb"), "+OK\r\n");
    assert_eq!(now(&mut client), 112);
    assert!(
        client
            .say("INFO memory")
            .contains("maxmemory:117440512\r\n")
    );
    let start = "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - ";
    for (wanted, why) in [
        ("1g", "there is room for 256.0 MiB; more needs a restart"),
        ("lots", "argument must be a memory value, as 512M or 4G"),
    ] {
        let said = client.say(&format!("CONFIG SET timeout 5 maxmemory {wanted}"));
        assert_eq!(said, format!("{start}{why}\r\n"));
    }
    assert_eq!(now(&mut client), 112);
    assert_eq!(
        client.say("CONFIG GET timeout"),
        "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"
    );
    assert_eq!(client.say("CONFIG SET maxmemory 32mb"), "+OK\r\n");
    assert_eq!(now(&mut client), 32);
}

#[test]
fn settings_are_read_and_changed_all_or_nothing() {
    let server = plain();
    let mut client = server.client();
    assert_eq!(
        client.say("CONFIG GET TIMEOUT save"),
        "*4\r\n$7\r\nTIMEOUT\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n"
    );
    assert!(client.say("CONFIG GET slowlog-*").starts_with("*4\r\n"));
    let port = server.address.port();
    assert!(client.say("CONFIG GET port").contains(&port.to_string()));
    assert!(client.say("CONFIG GET maxmemory").contains("1073741824"));
    assert_eq!(client.say("CONFIG GET nothing"), "*0\r\n");

    assert_eq!(
        client.say("CONFIG SET timeout 7 slowlog-max-len 3"),
        "+OK\r\n"
    );
    for (command, error) in [
        (
            "CONFIG SET timeout 9 nonsense 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'\r\n",
        ),
        (
            "CONFIG SET timeout 9 port 1",
            "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config\r\n",
        ),
        (
            "CONFIG SET timeout 9 timeout 10",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter\r\n",
        ),
        (
            "CONFIG SET timeout 9 slowlog-max-len x",
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument couldn't be parsed into an integer\r\n",
        ),
        (
            "CONFIG SET timeout -1",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must be between 0 and 2147483647 inclusive\r\n",
        ),
        (
            "CONFIG SET timeout",
            "-ERR wrong number of arguments for 'config|set' command\r\n",
        ),
        (
            "CONFIG REWRITE",
            "-ERR The server is running without a config file\r\n",
        ),
    ] {
        assert_eq!(client.say(command), error, "{command}");
    }
    assert_eq!(
        client.say("CONFIG GET timeout"),
        "*2\r\n$7\r\ntimeout\r\n$1\r\n7\r\n"
    );
    // What only a restart changes may be set to what it is.
    let (is, other) = if bpfdb_tests::log::is_wanted() {
        ("yes", "no")
    } else {
        ("no", "yes")
    };
    assert_eq!(
        client.say(&format!("CONFIG SET appendonly {is}")),
        "+OK\r\n"
    );
    assert_eq!(
        client.say(&format!("CONFIG SET appendonly {other}")),
        "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - a new value needs a restart\r\n"
    );
    assert!(
        client
            .say("CONFIG SET maxclients 60000")
            .starts_with("-ERR CONFIG SET failed")
    );
    assert_eq!(client.say("CONFIG RESETSTAT"), "+OK\r\n");
}

/// As in Redis it is taken, and then nothing is written.
#[test]
fn a_memory_limit_below_everything() {
    const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";
    let server = server(Settings::default());
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.say("SET there 1"), "+OK\r\n");
    assert_eq!(client.say("CONFIG SET maxmemory 1"), "+OK\r\n");
    assert_eq!(
        client.say("CONFIG GET maxmemory"),
        "*2\r\n$9\r\nmaxmemory\r\n$1\r\n1\r\n"
    );
    for client in [&mut client, &mut other] {
        for command in ["SET a 1", "INCR there", "MSET a 1 b 2", "APPEND there 1"] {
            assert!(client.say(command).starts_with(OOM), "{command}");
        }
        assert_eq!(client.say("GET there"), "$1\r\n1\r\n");
        client.say("MULTI");
        assert!(client.say("SET a 1").starts_with(OOM));
        assert!(client.say("EXEC").starts_with("-EXECABORT "));
        // What needs no memory is not refused.
        assert_eq!(client.say("EXPIRE there 1000"), ":1\r\n");
        assert_eq!(client.say("DEL none"), ":0\r\n");
    }
    assert_eq!(client.say("CONFIG SET maxmemory 64mb"), "+OK\r\n");
    assert_eq!(other.say("INCR there"), ":2\r\n");
    assert_eq!(client.say("SET a 1"), "+OK\r\n");
}

/// Where something else is said than by Redis 7.0: docs/operation.md has the list.
const ELSEWHERE: &[&str] = &[
    // Redis can change them at run time.
    "bind", "port",
];

fn parameters(client: &mut Client) -> Vec<(String, String)> {
    let said = client.say("CONFIG GET *");
    let lines: Vec<&str> = said.split("\r\n").collect();
    let texts: Vec<&str> = lines[1..]
        .chunks(2)
        .filter_map(|pair| pair.get(1).copied())
        .collect();
    texts
        .chunks_exact(2)
        .map(|pair| (pair[0].to_owned(), pair[1].to_owned()))
        .collect()
}

#[test]
fn the_parameters_of_redis_are_known() {
    let server = plain();
    let redis = Redis::start();
    let (mut ours, mut theirs) = (server.client(), Client::connect(redis.address));
    let known = parameters(&mut ours);
    for (name, value) in parameters(&mut theirs) {
        let own = known.iter().find(|(known, _)| *known == name);
        let (_, own) = own.unwrap_or_else(|| panic!("{name} is not known"));
        let set = |client: &mut Client, value: &str| {
            let words: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()];
            String::from_utf8_lossy(&client.ask(&words)).into_owned()
        };
        let (said, expected) = (set(&mut ours, own), set(&mut theirs, &value));
        if !ELSEWHERE.contains(&&*name) {
            assert_eq!(said, expected, "{name} to its own value");
        }
    }
}

#[test]
fn values_are_as_in_redis() {
    let server = plain();
    let redis = Redis::start();
    let (mut ours, mut theirs) = (server.client(), Client::connect(redis.address));
    for (name, values) in [
        ("hz", &["abc", "-1", "0", "50", "1000", "3.5"][..]),
        ("maxmemory-samples", &["0", "7", "x"]),
        (
            "maxmemory-clients",
            &["5%", "0%", "100%", "101%", "x%", "1mb", "-5", "%", "0"],
        ),
        ("hash-max-ziplist-entries", &["-1", "77", "1k"]),
        ("hash-max-listpack-value", &["1kb", "-1", "x"]),
        ("list-max-listpack-size", &["-5", "99999999999"]),
        ("repl-backlog-size", &["2mb", "0"]),
        ("repl-timeout", &["0", "70"]),
        ("slave-priority", &["7", "-7"]),
        ("lazyfree-lazy-expire", &["yes", "YES", "no", "true", "1"]),
        ("latency-tracking", &["maybe", "yes"]),
        ("appendfsync", &["no", "everysec", "ALWAYS", "never"]),
        ("sanitize-dump-payload", &["clients", "some"]),
        ("active-expire-effort", &["11", "3"]),
        ("lua-time-limit", &["6000"]),
        ("databases", &["1", "17"]),
        ("dir", &["/"]),
        ("tracking-table-max-keys", &["5"]),
        (
            "client-output-buffer-limit",
            &[
                "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
                "pubsub 1mb 2 3",
                "replica 5 4 3 normal 7 6 5",
                "normal 1 1",
                "odd 1 1 1",
                "normal x 1 1",
                "normal 1 1 -1",
            ],
        ),
    ] {
        for value in values {
            let mut said = [&mut ours, &mut theirs].map(|client| {
                let words: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()];
                let said = String::from_utf8_lossy(&client.ask(&words)).into_owned();
                let shown = client.say(&format!("CONFIG GET {name}"));
                (said, shown)
            });
            if ["dir", "databases"].contains(&name) {
                for (_, shown) in &mut said {
                    shown.clear();
                }
            }
            assert_eq!(said[0], said[1], "{name} {value}");
        }
    }
    let both = "CONFIG GET lua-time-limit busy-reply-threshold";
    let mut said = [&mut ours, &mut theirs].map(|client| client.say(both));
    for said in &mut said {
        assert_eq!(said.matches("6000").count(), 2, "{said}");
    }
    for (name, value) in [("save", "60 1"), ("activedefrag", "yes")] {
        let words: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()];
        let said = ours.ask(&words);
        assert!(said.starts_with(b"-ERR CONFIG SET failed"), "{name}");
    }
}
