//! Malformed requests and inline commands: Redis's words, and which connection stays.

use bpfdb_tests::server as common;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Shutdown;

use bpfdb_server::testing::MISSING;
use common::{Client, Redis, Reply, TestServer, request, show};

/// Sends the bytes, ends the sending side, and takes all that comes.
fn all_replies(mut client: Client, bytes: &[u8]) -> Vec<u8> {
    client.send(bytes);
    client
        .stream
        .shutdown(Shutdown::Write)
        .expect("half closed");
    client.until_closed()
}

#[test]
fn malformed_requests_get_redis_answers() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    let long = |start: &[u8]| [start, &[b'1'; 70_000]].concat();
    let cases: Vec<Vec<u8>> = vec![
        b"*a\r\n".to_vec(),
        b"*1\r\n+PING\r\n".to_vec(),
        b"*1\r\nPING\r\n".to_vec(),
        b"*2\r\n$4\r\nECHO\r\n:1\r\n".to_vec(),
        b"*1\r\n$-1\r\n".to_vec(),
        b"*1\r\n$x\r\n".to_vec(),
        b"*1\r\n$04\r\nPING\r\n".to_vec(),
        b"*2\r\n$4\r\nECHO\r\n$010\r\n0123456789\r\n".to_vec(),
        b"*2\r\n$3\r\nGET\r\n$00010\r\n0123456789\r\n".to_vec(),
        b"*010\r\n$4\r\nMGET\r\n".to_vec(),
        b"*1\r\n$536870913\r\n".to_vec(),
        b"*2147483648\r\n".to_vec(),
        b"*01\r\n$4\r\nPING\r\n".to_vec(),
        b"*+1\r\n$4\r\nPING\r\n".to_vec(),
        b"*0\r\n*-1\r\n\r\n\r\nPING\r\n".to_vec(),
        b"PING\r\nping hello\r\n  echo  'a b'  \n".to_vec(),
        b"echo \"\\x41\\n\"\r\n".to_vec(),
        b"echo \"open\r\n".to_vec(),
        b"echo 'a'b\r\n".to_vec(),
        b"\0\0\r\n".to_vec(),
        b"nonsense one two\r\n".to_vec(),
        long(b"*"),
        long(b"*1\r\n$"),
        long(b"PING "),
        [request(&[b"ping"]), b"*x\r\n".to_vec(), request(&[b"ping"])].concat(),
        // The bytes behind a bulk string are skipped, whatever they are.
        b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n".to_vec(),
        // Unknown, with everything that makes its text long or odd.
        request(&[b"get"]),
        request(&[b"nonsense", &[b'a'; 300], b"never shown"]),
        request(&[&[b'n'; 300], b"a\0b", b"c\r\nd", b"\xff\xfe"]),
        request(&[b"", b"x"]),
        request(&[b"client", b"nonsense"]),
    ];
    for bytes in cases {
        let expected = all_replies(Client::connect(redis.address), &bytes);
        let got = all_replies(server.client(), &bytes);
        assert!(
            expected == got,
            "{}\n redis: {}\n bpfdb: {}",
            show(&bytes),
            show(&expected),
            show(&got)
        );
    }
}

/// What a browser can be made to send: nothing behind it is executed.
#[test]
fn http_is_closed() {
    let server = TestServer::shared();
    let set = request(&[b"SET", b"http-victim", b"1"]);
    let heads = [
        b"POST / HTTP/1.1\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"host: x\r\n".to_vec(),
        request(&[b"Post", b"/"]),
        [request(&[b"MULTI"]), request(&[b"POST"])].concat(),
    ];
    for head in heads {
        let replies = all_replies(server.client(), &[&head[..], &set[..]].concat());
        let text = show(&replies);
        assert!(
            !replies.ends_with(b"+OK\r\n") || head.starts_with(b"*1\r\n$5"),
            "{text}"
        );
        assert_eq!(
            server.client().say("EXISTS http-victim"),
            ":0\r\n",
            "{}",
            show(&head)
        );
    }
}

#[test]
fn inline_commands_follow_an_error() {
    let server = TestServer::shared();
    let mut client = server.client();
    assert!(client.say("nonsense").starts_with("-ERR unknown command"));
    client.send(b"ping\r\n");
    assert_eq!(client.reply(), b"+PONG\r\n");
    assert_eq!(client.say("ping"), "+PONG\r\n");
}

#[test]
fn quit_closes() {
    let server = TestServer::shared();
    let mut client = server.client();
    assert_eq!(client.say("quit"), "+OK\r\n");
    assert!(client.is_closed());
}

#[test]
fn half_closed_connections_get_their_replies() {
    let server = TestServer::shared();
    for pipeline in [1, 100, 3000] {
        let mut client = server.client();
        for _ in 0..pipeline {
            client.stream.write_all(&request(&[b"ping"])).expect("sent");
        }
        client
            .stream
            .shutdown(Shutdown::Write)
            .expect("half closed");
        let replies = client.until_closed();
        assert_eq!(replies.len(), pipeline * b"+PONG\r\n".len());
    }
    // A request that never ends is not waited for.
    let replies = all_replies(
        server.client(),
        b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$10\r\nabc",
    );
    assert_eq!(replies, b"+PONG\r\n");
}

#[test]
fn what_clients_ask_when_they_connect() {
    let server = TestServer::shared();
    let mut client = server.client();
    let appendonly = match bpfdb_tests::log::is_wanted() {
        true => "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n",
        false => "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n",
    };
    assert_eq!(client.say("CONFIG GET appendonly"), appendonly);
    assert!(client.say("INFO").contains("redis_version:"));
    assert!(client.say("HELLO 2").starts_with("*14\r\n"));
    assert!(client.say("COMMAND").starts_with('*'));
    assert!(client.say("DBSIZE").starts_with(':'));
}

/// COMMAND DOCS, by command and `command|subcommand`: what is said of its arguments.
fn described(mut client: Client) -> BTreeMap<String, Option<Reply>> {
    fn take(all: &mut BTreeMap<String, Option<Reply>>, commands: &Reply) {
        for pair in commands.items.chunks_exact(2) {
            let (name, about) = (show(&pair[0].text), &pair[1]);
            all.insert(name, about.field("arguments").cloned());
            if let Some(subcommands) = about.field("subcommands") {
                take(all, subcommands);
            }
        }
    }
    client.ask(&[b"hello", b"3"]);
    let bytes = client.ask(&[b"command", b"docs"]);
    let (reply, _) = Reply::parse(&bytes).expect("whole");
    let mut all = BTreeMap::new();
    take(&mut all, &reply);
    all
}

#[test]
fn arguments_are_described_as_redis_does() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    let redis = described(Client::connect(redis.address));
    let ours = described(server.client());
    let mut compared = 0;
    for (name, arguments) in &ours {
        let Some(expected) = redis.get(name) else {
            continue;
        };
        assert!(
            arguments == expected,
            "{name}\n redis: {expected:?}\n bpfdb: {arguments:?}"
        );
        compared += usize::from(expected.is_some());
    }
    assert!(compared > 70, "{compared} commands with arguments");
}

fn word(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.text).into_owned()
}

/// COMMAND INFO, by command and `command|subcommand`.
fn informed(mut client: Client) -> BTreeMap<String, Reply> {
    fn take(all: &mut BTreeMap<String, Reply>, commands: &Reply) {
        for about in &commands.items {
            all.insert(word(&about.items[0]), about.clone());
            take(all, &about.items[9]);
        }
    }
    let bytes = client.ask(&[b"command"]);
    let (reply, _) = Reply::parse(&bytes).expect("whole");
    let mut all = BTreeMap::new();
    take(&mut all, &reply);
    all
}

/// What is said of one, with sets in one order, and keys without their notes.
fn about(command: &Reply) -> Vec<String> {
    let sorted = |reply: &Reply| {
        let mut words: Vec<String> = reply.items.iter().map(word).collect();
        words.sort();
        words.join(" ")
    };
    let keys = command.items[8].items.iter().map(|keys| {
        let pairs = keys.items.chunks_exact(2);
        let pairs = pairs.filter(|pair| pair[0].text != b"notes");
        let pairs = pairs.map(|pair| match &pair[0].text[..] {
            b"flags" => format!("flags {}", sorted(&pair[1])),
            _ => format!("{pair:?}"),
        });
        pairs.collect::<Vec<_>>().join(", ")
    });
    let numbers = [1, 3, 4, 5].map(|field| format!("{:?}", command.items[field].number()));
    let sets = [2, 6, 7].map(|field| sorted(&command.items[field]));
    numbers.into_iter().chain(sets).chain(keys).collect()
}

/// All 366 commands of Redis 7.0 are there, or docs/commands.md says why not; and clients hear the same of them.
#[test]
fn every_command_of_redis_is_there() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    let redis = informed(Client::connect(redis.address));
    let ours = informed(server.client());
    let missing: Vec<String> = redis
        .keys()
        .filter(|name| !ours.contains_key(*name))
        .map(|name| name.to_ascii_uppercase())
        .collect();
    let named: Vec<&str> = MISSING.iter().map(|(name, _)| *name).collect();
    assert_eq!(missing, named);
    assert!(redis.len() >= 366, "{} commands", redis.len());
    for (name, expected) in &redis {
        if let Some(ours) = ours.get(name) {
            assert_eq!(about(ours), about(expected), "{name}");
        }
    }
}
