//! Generated commands on both servers: the events of each step are the same.

use std::collections::{BTreeMap, BTreeSet};

use bpfdb_tests::server::{Client, Redis, Reply, TestServer};
use bpfdb_tests::settings;
use proptest::strategy::{Strategy, ValueTree};

use super::{Heard, Listener, silence};
use crate::generated::case::{self, CONNECTIONS, Case, Step};
use crate::generated::commands::{self, Command};
use crate::generated::compare::{self, Aside, Asked};
use crate::generated::{collections, differences, runner};

/// What is published: all but `expired`, which depends on the time.
const LETTERS: &str = "KEg$lshztmn";

/// A server, its clients, and the subscriber to its events.
struct Side {
    clients: [Client; CONNECTIONS],
    listener: Listener,
}

impl Side {
    fn start(address: std::net::SocketAddr, resp3: bool) -> Self {
        Self {
            clients: std::array::from_fn(|_| Client::connect(address)),
            listener: Listener::start(address, LETTERS, resp3),
        }
    }

    fn step(&mut self, step: &Step) -> (Reply, Vec<Heard>) {
        let client = &mut self.clients[step.connection];
        client.send(&step.bytes());
        let reply = Reply::parse(&client.reply()).expect("whole").0;
        (reply, self.listener.heard())
    }
}

/// A difference of one step: the command, and what was heard.
fn check(case: &Case, sides: &mut [Side; 2], aside: &mut Aside) -> Option<(String, String)> {
    let mut queued = Vec::new();
    for step in case.cleared() {
        let [(redis, theirs), (bpfdb, ours)] = sides.each_mut().map(|side| side.step(&step));
        if redis.is("QUEUED") {
            queued.push(step.words.clone());
        }
        if theirs != ours && !is_known(&step, &bpfdb, &ours) {
            let kind = format!("{} {}", name(&step), queued.len());
            let message = format!("{step:?} {queued:?}\n redis {theirs:?}\n bpfdb {ours:?}");
            return Some((kind, message));
        }
        let asked = Asked {
            words: &step.words,
            queued: &queued,
        };
        if !compare::same(&asked, &redis, &bpfdb, aside)
            && differences::explain(&asked, &redis, &bpfdb).is_none_or(|known| known.diverges)
        {
            return None;
        }
        if !redis.is("QUEUED") {
            queued.clear();
        }
    }
    None
}

/// What docs/keyspace-events.md says of events that only Redis has: what is refused, and a script that fails and is
/// rolled back, has none, also where Redis looks for the key before it looks at the arguments; and SCAN
/// publishes no key that has expired.
fn is_known(step: &Step, reply: &Reply, ours: &[Heard]) -> bool {
    ours.is_empty() && (reply.is_error() || step.is("scan"))
}

fn name(step: &Step) -> String {
    let words = commands::inner(&step.words);
    String::from_utf8_lossy(&words[0]).to_ascii_lowercase()
}

fn compare(about: impl Fn(&Command) -> bool, cases: usize) {
    let (server, redis) = (TestServer::shared(), Redis::start());
    let seed = settings::number("BPFDB_SEED").unwrap_or(3);
    let mut runner = runner(seed);
    let chosen: Vec<_> = commands::all().filter(|command| about(command)).collect();
    let strategy = case::case(&chosen);
    let mut aside = Aside {
        redis: Client::connect(redis.address),
        bpfdb: Client::connect(server.address),
    };
    let known: BTreeSet<String> = ["flushall".to_owned()].into();
    let wipe = case::wipe(&known);
    let wipe: Vec<&[u8]> = wipe.iter().map(Vec::as_slice).collect();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut steps = 0;
    for number in 0..cases {
        let case = strategy.new_tree(&mut runner).expect("a case").current();
        aside.redis.ask(&wipe);
        aside.bpfdb.ask(&wipe);
        let resp3 = number % 2 == 1;
        let mut sides = [redis.address, server.address].map(|address| Side::start(address, resp3));
        steps += case.steps.len();
        if let Some((kind, message)) = check(&case, &mut sides, &mut aside) {
            found.entry(kind).or_insert(message);
        }
    }
    silence(&server);
    let found: Vec<String> = found.into_values().collect();
    assert!(steps > 10 * cases);
    assert!(found.is_empty(), "BPFDB_SEED={seed}\n{}", found.join("\n"));
}

/// Commands that are none of a client's keys, or end what both servers have in common.
const LEFT_OUT: &[&str] = &["client", "reset", "hello", "randomkey", "nonsense"];

#[test]
fn events_are_those_of_redis() {
    compare(|command| !LEFT_OUT.contains(&command.name), 150);
}

#[test]
fn events_of_collections_are_those_of_redis() {
    let is_one = |command: &Command| {
        let beside = ["del", "rename", "copy", "multi", "exec", "expire"];
        collections::find(command.name.as_bytes()).is_some() || beside.contains(&command.name)
    };
    compare(is_one, 150);
}
