//! `notify-keyspace-events`: what is published of changes of keys is what redis-server publishes.
#![allow(unreachable_pub, reason = "the modules of one test")]

mod evicted;
mod expired;
mod fixed;
mod random;
mod settings;

use std::net::SocketAddr;

use bpfdb_tests::server::{Client, Reply, TestServer};

/// A client that hears all events, and one that marks where they end.
struct Listener {
    listening: Client,
    marking: Client,
    marks: usize,
}

/// The pattern of a channel, its name, and what was published there.
type Heard = Vec<String>;

impl Listener {
    /// Has the server publish what these letters say. With RESP3 the events come as pushes.
    fn start(address: SocketAddr, letters: &str, resp3: bool) -> Self {
        let mut marking = Client::connect(address);
        let set = format!("CONFIG SET notify-keyspace-events {letters}");
        assert_eq!(marking.say(&set), "+OK\r\n");
        let mut listening = Client::connect(address);
        if resp3 {
            listening.say("HELLO 3");
        }
        for (word, name) in [("PSUBSCRIBE", "__key*__:*"), ("SUBSCRIBE", "mark")] {
            let confirmed = listening.ask(&[word.as_bytes(), name.as_bytes()]);
            let marker = if resp3 { b'>' } else { b'*' };
            assert_eq!(confirmed[0], marker);
        }
        Self {
            listening,
            marking,
            marks: 0,
        }
    }

    /// What was published since this was asked last.
    fn heard(&mut self) -> Vec<Heard> {
        self.marks += 1;
        let mark = self.marks.to_string();
        self.marking.ask(&[b"PUBLISH", b"mark", mark.as_bytes()]);
        let mut all = Vec::new();
        loop {
            let message = self.listening.reply();
            let message = Reply::parse(&message).expect("whole").0;
            let words: Heard = message.items.iter().map(text).collect();
            if words[0] == "message" {
                assert_eq!(words[1..], ["mark".to_owned(), mark]);
                return all;
            }
            assert_eq!(words[0], "pmessage");
            all.push(words[1..].to_vec());
        }
    }

    /// The same, only those by key, as `key event`.
    fn heard_by_key(&mut self) -> Vec<String> {
        let by_key = |heard: Heard| {
            let channel = heard[1].strip_prefix("__keyspace@")?;
            let (database, key) = channel.split_once("__:").expect("a key");
            let event = &heard[2];
            Some(match database {
                "0" => format!("{key} {event}"),
                other => format!("{other}:{key} {event}"),
            })
        };
        self.heard().into_iter().filter_map(by_key).collect()
    }
}

fn text(reply: &Reply) -> String {
    reply.text.escape_ascii().to_string()
}

/// Publishes nothing any more.
fn silence(server: &TestServer) {
    let set = server
        .client()
        .ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b""]);
    assert_eq!(set, b"+OK\r\n");
}
