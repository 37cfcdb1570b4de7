//! Changes of collections that stand behind each other in a pipeline and come to the daemon: they are executed together,
//! and each does and says what it would alone.

use std::thread;

use bpfdb_tests::server::{Client, Lent, TestServer};

use crate::groups::{figure, pipeline, text};

/// So many elements are in pages.
const MANY: usize = 3000;

fn server() -> (Lent, Client, Client) {
    let server = TestServer::shared();
    let (a, b) = (server.client(), server.client());
    (server, a, b)
}

/// Gives each of these keys so many elements.
fn fill(client: &mut Client, hash: &str, list: &str, zset: &str, elements: usize) {
    let number = |n: usize| format!("{n}").into_bytes();
    for (command, key) in [("HSET", hash), ("RPUSH", list), ("ZADD", zset)] {
        let mut words = vec![command.as_bytes().to_vec(), key.as_bytes().to_vec()];
        for n in 0..elements {
            words.push(number(n));
            if command != "RPUSH" {
                words.push(number(n));
            }
        }
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let reply = client.ask(&words);
        assert_eq!(reply, format!(":{elements}\r\n").into_bytes());
    }
}

/// The next requests come to the daemon.
fn keep(client: &mut Client) {
    client.say("DUMP none");
}

#[test]
fn they_are_one_transaction_that_writes_each_page_once() {
    for elements in [5, MANY] {
        let (_server, mut a, mut b) = server();
        fill(&mut a, "h", "l", "z", elements);
        let lots = [
            ("LPUSH l x", 8),
            ("HINCRBY h 1 2", 3),
            ("ZINCRBY z 1 3", 8),
            ("RPOP l", 8),
        ];
        for (command, most) in lots {
            keep(&mut a);
            let before = ["commit", "set"].map(|name| figure(&mut b, &of(name)));
            let replies = pipeline(&mut a, vec![command; 30]);
            assert!(
                !replies.iter().any(|reply| reply.starts_with('-')),
                "{replies:?}"
            );
            let after = ["commit", "set"].map(|name| figure(&mut b, &of(name)));
            let commits = after[0] - before[0];
            assert!((1..=4).contains(&commits), "{command}: {commits} commits");
            let sets = after[1] - before[1];
            assert!((1..=most).contains(&sets), "{command}: {sets} sets");
        }
        assert_eq!(a.say("HGET h 1"), text("61"));
        assert_eq!(a.say("ZSCORE z 3"), text("33"));
        assert_eq!(a.say("LLEN l"), format!(":{elements}\r\n"));
    }
}

fn of(operation: &str) -> String {
    format!("bpfdb_operations_{operation}")
}

/// In one pipeline, and one by one: the same replies, and the same elements.
#[test]
fn each_says_what_it_would_alone() {
    let (_server, mut a, mut b) = server();
    for elements in [1, 1020, MANY] {
        let commands = |kind: &str| {
            let mut commands = Vec::new();
            for n in 0..40 {
                commands.push(format!("HSET {kind}h new{n} {n} {n} {n}"));
                commands.push(format!("HSETNX {kind}h {n} other"));
                commands.push(format!("HINCRBY {kind}h {n} 5"));
                commands.push(format!("HINCRBY {kind}l {n} 5"));
                commands.push(format!("HDEL {kind}h {} none", n * 2));
                commands.push(format!("LPUSH {kind}l a{n} b{n}"));
                commands.push(format!("RPUSHX {kind}l c{n}"));
                commands.push(format!("LPOP {kind}l 3"));
                commands.push(format!("RPOP {kind}l"));
                commands.push(format!("ZADD {kind}z CH {n}.5 {n} 7 new{n}"));
                commands.push(format!("ZINCRBY {kind}z inf new{n}"));
                commands.push(format!("ZADD {kind}z INCR -inf new{n}"));
                commands.push(format!("ZREM {kind}z {n} none"));
                commands.push(format!("SADD {kind}s {n} {}", n + 1));
                commands.push(format!("SREM {kind}s {}", n / 2));
            }
            commands.push(format!("RPOP {kind}l 100000"));
            commands.push(format!("RPUSHX {kind}l x"));
            commands.push(format!("LPOP {kind}l"));
            commands.push(format!("RPUSH {kind}l x"));
            commands
        };
        for kind in ["one", "all"] {
            let names = ["h", "l", "z"].map(|name| format!("{kind}{name}"));
            b.say(&format!("DEL {} {kind}s", names.join(" ")));
            fill(&mut b, &names[0], &names[1], &names[2], elements);
        }
        let alone: Vec<String> = commands("one")
            .iter()
            .map(|command| b.say(command))
            .collect();
        keep(&mut a);
        let together = commands("all");
        assert_eq!(pipeline(&mut a, together.iter().map(String::as_str)), alone);
        for command in ["HGETALL", "LRANGE", "ZRANGE", "SMEMBERS"] {
            let [one, all] = ["one", "all"].map(|kind| whole(&mut b, command, kind));
            assert_eq!(one, all, "{command} of {elements}");
        }
    }
}

/// All of a collection; what has no order by its lines.
fn whole(client: &mut Client, command: &str, kind: &str) -> Vec<String> {
    let (name, rest) = match command {
        "HGETALL" => ("h", ""),
        "LRANGE" => ("l", " 0 -1"),
        "ZRANGE" => ("z", " 0 -1 WITHSCORES"),
        _ => ("s", ""),
    };
    let reply = client.say(&format!("{command} {kind}{name}{rest}"));
    let mut lines: Vec<String> = reply.lines().map(Into::into).collect();
    if rest.is_empty() {
        lines.sort_unstable();
    }
    lines
}

/// What somebody else has locked is the affair of those who want it.
#[test]
fn a_conflict_is_that_of_one() {
    let (_server, mut a, mut b) = server();
    fill(&mut a, "h", "l", "z", MANY);
    b.say("BEGIN");
    b.say("HSET h 1 theirs");
    keep(&mut a);
    let replies = pipeline(
        &mut a,
        ["LPUSH l x", "HSET h 2 mine", "LPUSH l x", "SADD s x"],
    );
    assert_eq!(replies[0], format!(":{}\r\n", MANY + 1));
    assert!(replies[1].starts_with("-CONFLICT "), "{}", replies[1]);
    assert_eq!(replies[2], format!(":{}\r\n", MANY + 2));
    assert_eq!(replies[3], ":1\r\n");
    assert_eq!(b.say("COMMIT"), "+OK\r\n");
    assert_eq!(a.say("HGET h 2"), text("2"));
}

/// Clients in the kernel and in the daemon change one hash and one list: nothing is lost, and nothing done twice.
#[test]
fn nothing_is_lost_among_many() {
    const ROUNDS: usize = 100;
    const DEPTH: usize = 16;
    let (server, mut a, _) = server();
    fill(&mut a, "h", "l", "z", MANY);
    let changed: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|number| {
                let mut client = server.client();
                scope.spawn(move || {
                    let mut changed = 0;
                    for round in 0..ROUNDS {
                        if number % 2 == 0 {
                            keep(&mut client);
                        }
                        let commands: Vec<String> = (0..DEPTH)
                            .map(|at| match at % 2 {
                                0 => format!("HINCRBY h {} 1", (at + round) % 50),
                                _ => "LPUSH l x".into(),
                            })
                            .collect();
                        let replies = pipeline(&mut client, commands.iter().map(String::as_str));
                        changed += replies
                            .iter()
                            .filter(|reply| !reply.starts_with('-'))
                            .count();
                    }
                    changed
                })
            })
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("ends"));
        ended.sum()
    });
    assert!(changed > ROUNDS * DEPTH, "few changes: {changed}");
    let pushed = line(&a.say("LLEN l")) - MANY;
    let added: usize = (0..50)
        .map(|field| line(&a.say(&format!("HGET h {field}"))) - field)
        .sum();
    assert_eq!(pushed + added, changed);
}

/// The number in the last line of a reply.
fn line(reply: &str) -> usize {
    let line = reply.lines().last().expect("a line");
    line.trim_start_matches(':').parse().expect("a number")
}
