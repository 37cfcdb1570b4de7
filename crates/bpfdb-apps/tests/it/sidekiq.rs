//! Sidekiq's commands, as version 7 sends them, on bpfdb and on Redis: the same replies. The gem itself needs a
//! Ruby that is newer than those of many machines.

use std::net::SocketAddr;
use std::thread;

use bpfdb_tests::server as common;
use common::lent::plain;
use common::{Client, Redis, kernel_calls, request, show, words};

/// As its poller has it: the first job whose time has come.
const TAKE_DUE: &str = r#"
    local key, now = KEYS[1], ARGV[1]
    local jobs = redis.call("zrange", key, "-inf", now, "byscore", "limit", 0, 1)
    if jobs[1] then
      redis.call("zrem", key, jobs[1])
      return jobs[1]
    end
"#;

/// Messages of one connection, one after the other: the commands of each, which are sent at once.
type Messages = &'static [&'static [&'static str]];

/// A client pushes jobs for now and for later.
const PUSH: Messages = &[
    &["HELLO 3"],
    &[
        "SADD queues default",
        r#"LPUSH queue:default {"jid":"1"} {"jid":"2"} {"jid":"3"}"#,
    ],
    &["SADD queues low", r#"LPUSH queue:low {"jid":"4"}"#],
    &[r#"ZADD schedule 1700000000.25 {"jid":"5"}"#],
    &[r#"ZADD schedule 9999999999.5 {"jid":"6"}"#],
];

/// A process takes jobs of two queues, and says that it lives; one job fails, and one is too old.
const WORK: Messages = &[
    &["HELLO 3"],
    &["BRPOP queue:default queue:low 2"],
    &["BRPOP queue:default queue:low 2"],
    &[
        "MULTI",
        "UNLINK host:1:work",
        r#"HSET host:1:work tid1 {"queue":"default"}"#,
        "EXPIRE host:1:work 60",
        "EXEC",
    ],
    &["PING"],
    &[
        "MULTI",
        "SADD processes host:1",
        "EXISTS host:1",
        r#"HSET host:1 info {"hostname":"host"} busy 1 beat 1700000000.125 rtt_us 90 quiet false rss 60000"#,
        "EXPIRE host:1 60",
        "RPOP host:1-signals",
        "EXEC",
    ],
    &[r#"ZADD retry 1700000100.5 {"jid":"2","retry_count":0}"#],
    &[
        "MULTI",
        r#"ZADD dead 1700000000.75 {"jid":"1"}"#,
        "ZREMRANGEBYSCORE dead -inf 1684448000.75",
        "ZREMRANGEBYRANK dead 0 -10000",
        "EXEC",
    ],
    &[
        "INCRBY stat:processed 2",
        "INCRBY stat:processed:2026-12-01 2",
        "EXPIRE stat:processed:2026-12-01 157680000",
        "INCRBY stat:failed 1",
        "INCRBY stat:failed:2026-12-01 1",
    ],
    &[
        "HINCRBY j|20261201|2:1 Job|ms 12",
        "HINCRBY j|20261201|2:1 Job|p 1",
        "EXPIRE j|20261201|2:1 28800",
        "BITFIELD Job-1-2:1 OVERFLOW SAT INCRBY u16 #0 1 INCRBY u16 #3 2",
    ],
    // It is told to be quiet, and hears of that at its next beat.
    &[
        "MULTI",
        "LPUSH host:1-signals TSTP",
        "EXPIRE host:1-signals 60",
        "EXEC",
    ],
    &["RPOP host:1-signals"],
    // It ends, and gives back what it has taken.
    &[r#"RPUSH queue:default {"jid":"2"}"#],
];

/// What its pages show, what they delete, and how processes that are gone are forgotten.
const LOOK: Messages = &[
    &[
        "GET stat:processed",
        "GET stat:failed",
        "ZCARD schedule",
        "ZCARD retry",
        "ZCARD dead",
        "SCARD processes",
        "LINDEX queue:default -1",
    ],
    &[
        "SSCAN processes 0",
        "LLEN queue:default",
        "LLEN queue:low",
        "HGET host:1 busy",
    ],
    &["MGET stat:processed:2026-12-01 stat:processed:2026-11-30"],
    &["LRANGE queue:default 0 49", "HGETALL host:1:work"],
    &[
        "HGETALL j|20261201|2:1",
        "BITFIELD_RO Job-1-2:1 GET u16 #0 GET u16 #3",
    ],
    &["ZRANGE retry 0 49 REV WITHSCORES"],
    &["ZSCAN schedule 0 MATCH *\"6\"* COUNT 100"],
    &["ZRANGE schedule 9999999999.5 9999999999.5 BYSCORE"],
    &[
        "MULTI",
        "ZRANGE retry 1700000100.5 1700000100.5 BYSCORE",
        "ZREMRANGEBYSCORE retry 1700000100.5 1700000100.5",
        "EXEC",
    ],
    &[
        r#"LREM queue:default 1 {"jid":"3"}"#,
        r#"ZREM dead {"jid":"1"}"#,
    ],
    &["MULTI", "UNLINK queue:low", "SREM queues low", "EXEC"],
    &[
        "SET process_cleanup 1 NX EX 60",
        "SET process_cleanup 1 NX EX 60",
    ],
    &[
        "HGET host:1 info",
        "SREM processes host:1",
        "UNLINK host:1:work",
    ],
    &[
        "SMEMBERS queues",
        "SMEMBERS processes",
        "EXISTS dead retry queue:low",
    ],
];

/// The replies to all of them.
fn said(address: SocketAddr, messages: Messages) -> Vec<String> {
    let mut client = Client::connect(address);
    let mut replies = Vec::new();
    for message in messages {
        let bytes = message.iter().flat_map(|command| words(command));
        client.send(&bytes.collect::<Vec<u8>>());
        for command in *message {
            let reply = client.reply();
            // That of HELLO names the server.
            if !command.starts_with("HELLO") {
                replies.push(format!("{command}: {}", show(&reply)));
            }
        }
    }
    replies
}

/// What is due goes to its queue: the script is loaded when the server does not know it.
fn poll(address: SocketAddr) -> Vec<String> {
    let mut client = Client::connect(address);
    let ask = |client: &mut Client, words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        show(&client.ask(&words))
    };
    let sha = client.ask(&[b"SCRIPT", b"LOAD", TAKE_DUE.as_bytes()]);
    let sha = String::from_utf8(sha).expect("text");
    let sha = sha.split("\r\n").nth(1).expect("a bulk string").to_owned();
    ask(&mut client, &["SCRIPT", "FLUSH"]);
    let call = ["EVALSHA", &sha, "1", "schedule", "1800000000.5"];
    let unknown = ask(&mut client, &call);
    assert!(unknown.starts_with("-NOSCRIPT"), "{unknown}");
    ask(&mut client, &["SCRIPT", "LOAD", TAKE_DUE]);
    let due = [ask(&mut client, &call), ask(&mut client, &call)];
    let push = [ask(
        &mut client,
        &["LPUSH", "queue:default", r#"{"jid":"5"}"#],
    )];
    [&due[..], &push].concat()
}

/// A process waits for a job that a client pushes later.
fn wait(address: SocketAddr) -> String {
    let worker = thread::spawn(move || {
        let mut client = Client::connect(address);
        show(&client.ask(&[b"BRPOP", b"queue:late", b"queue:later", b"10"]))
    });
    let mut client = Client::connect(address);
    common::wait_until("it waits", || {
        client.say("INFO clients").contains("blocked_clients:1")
    });
    client.send(&request(&[b"LPUSH", b"queue:later", b"job"]));
    client.reply();
    worker.join().expect("a reply")
}

fn run(address: SocketAddr) -> Vec<String> {
    let info = Client::connect(address).say("INFO");
    assert!(info.contains("redis_version:7."), "as it asks for");
    assert!(info.contains("maxmemory_policy:noeviction"));
    let mut replies = said(address, PUSH);
    replies.extend(said(address, WORK));
    replies.extend(poll(address));
    replies.extend(said(address, LOOK));
    replies.push(wait(address));
    replies
}

#[test]
fn its_commands() {
    let (server, redis) = (plain(), Redis::start());
    server.loader.wait();
    let mut client = server.client();
    // Behind BRPOP of several queues, which is the daemon's, a connection comes back to the kernel sooner or later.
    let kernel = ["sadd", "lpush", "hset", "expire", "incrby", "zcard"];
    let mut calls = || {
        let calls = kernel.map(|command| kernel_calls(&mut client, command));
        calls.iter().sum::<u64>()
    };
    let before = calls();
    let (ours, theirs) = (run(server.address), run(redis.address));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(calls() > before, "none in the kernel");
}
