//! Generated sequences of commands: Redis and bpfdb must say the same, over two
//! connections, in RESP2 and RESP3, whatever is valid in them and whatever not.
//!
//! A failure is made smaller until little is left of it. `BPFDB_SEED` repeats a
//! run.
#![allow(unreachable_pub, reason = "the modules of one test")]

pub mod case;
mod chance;
pub mod collections;
pub mod commands;
use bpfdb_tests::server as common;
pub mod compare;
pub mod differences;
mod grown;
mod types;
mod words;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::settings;
use case::{CONNECTIONS, Case, Step};
use commands::{Command, NOT_COMPARED};
use common::{Client, Lent, Redis, Reply, TestServer, show};
use compare::{Aside, Asked};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use words::Words;

/// The commands that the server knows.
fn known(client: &mut Client) -> BTreeSet<String> {
    let all = client.ask(&[b"command"]);
    let (all, _) = Reply::parse(&all).expect("whole");
    all.items
        .iter()
        .map(|command| String::from_utf8(command.items[0].text.clone()).expect("a name"))
        .collect()
}

// ---- One case on one server -----------------------------------------------------

/// The replies of one server to a case, step by step.
struct Talk {
    clients: [Client; CONNECTIONS],
    replies: Vec<Reply>,
}

impl Talk {
    fn on(address: std::net::SocketAddr) -> Self {
        Self {
            clients: std::array::from_fn(|_| Client::connect(address)),
            replies: Vec::new(),
        }
    }

    fn run(mut self, case: &Case, steps: &[Step]) -> Vec<Reply> {
        let mut pipelines = case.pipelines.iter().copied();
        let mut pieces = case.pieces.iter().copied();
        let mut rest = steps;
        while let Some(first) = rest.first() {
            let most = pipelines.next().unwrap_or(1);
            let alone = |step: &Step| step.cursor().is_some();
            let count = rest
                .iter()
                .take(most)
                .take_while(|step| step.connection == first.connection && !alone(step))
                .count()
                .max(1);
            let (now, later) = rest.split_at(count);
            self.pipeline(now, &mut pieces);
            if alone(first) {
                self.scan_on(first);
            }
            rest = later;
        }
        self.replies
    }

    fn pipeline(&mut self, steps: &[Step], pieces: &mut impl Iterator<Item = usize>) {
        let client = &mut self.clients[steps[0].connection];
        let bytes: Vec<u8> = steps.iter().flat_map(Step::bytes).collect();
        let pieces: Vec<usize> = pieces.take(steps.len()).collect();
        // From another thread: neither side may block the other.
        let mut sender = Client::from_stream(client.stream.try_clone().expect("a second handle"));
        thread::scope(|scope| {
            let send = move || {
                let mut rest = bytes.as_slice();
                for len in pieces {
                    let (piece, behind) = rest.split_at(len.min(rest.len()));
                    sender.send(piece);
                    rest = behind;
                }
                sender.send(rest);
            };
            if steps.len() > 1 {
                scope.spawn(send);
            } else {
                send();
            }
            for (number, step) in steps.iter().enumerate() {
                let reply = catch_unwind(AssertUnwindSafe(|| client.reply()));
                let reply = reply.unwrap_or_else(|_| {
                    panic!("no reply to {step:?}, request {number} of the pipeline {steps:?}")
                });
                self.replies
                    .push(Reply::parse(&reply).expect("a whole reply").0);
            }
        });
    }

    /// Follows a SCAN to its end; its reply then is all that it replied, in order. HSCAN and ZSCAN
    /// tell pairs.
    fn scan_on(&mut self, step: &Step) {
        const ROUNDS: usize = 10_000;
        let together = if step.is("hscan") || step.is("zscan") {
            2
        } else {
            1
        };
        let cursor_at = step.cursor().expect("a command with a cursor");
        let client = &mut self.clients[step.connection];
        let last = self.replies.last_mut().expect("the first reply");
        if last.is_error() || last.items.len() != 2 {
            return;
        }
        let mut found: BTreeSet<Words> = BTreeSet::new();
        for _ in 0..ROUNDS {
            let [cursor, keys] = last.items.as_slice() else {
                return;
            };
            let texts = |keys: &[Reply]| keys.iter().map(|key| key.text.clone()).collect();
            found.extend(keys.items.chunks(together).map(texts));
            if cursor.text == b"0" {
                let item = |text: Vec<u8>| Reply {
                    marker: b'$',
                    text,
                    items: Vec::new(),
                    is_nil: false,
                };
                last.items = found.into_iter().flatten().map(item).collect();
                return;
            }
            let mut words: Vec<&[u8]> = step.words.iter().map(Vec::as_slice).collect();
            words[cursor_at] = &cursor.text;
            let reply = client.ask(&words);
            *last = Reply::parse(&reply).expect("a whole reply").0;
        }
        panic!("{step:?} has no end");
    }
}

// ---- Both ---------------------------------------------------------------------

/// What is to be seen of MULTI from outside.
#[derive(Default)]
struct Queues([Vec<Words>; CONNECTIONS]);

impl Queues {
    /// The commands that this step executes, judged by what Redis says.
    fn step(&mut self, step: &Step, reply: &Reply) -> Vec<Words> {
        let queue = &mut self.0[step.connection];
        if reply.is("QUEUED") {
            queue.push(step.words.clone());
            return Vec::new();
        }
        if ["multi", "exec", "discard", "reset"]
            .iter()
            .any(|name| step.is(name))
            && !reply.is_error()
            || reply.text.starts_with(b"EXECABORT")
        {
            return std::mem::take(queue);
        }
        Vec::new()
    }
}

/// What Redis is compared with.
enum Rival {
    Bpfdb(Box<Lent>),
    /// Another Redis: what differs then is left to chance, and must not be compared.
    Redis(Redis),
}

impl Rival {
    fn address(&self) -> std::net::SocketAddr {
        match self {
            Self::Bpfdb(server) => server.address,
            Self::Redis(redis) => redis.address,
        }
    }
}

struct Pair {
    redis: Redis,
    rival: Rival,
    aside: Aside,
    known: BTreeSet<String>,
    met: BTreeMap<&'static str, usize>,
    /// Failures that are to be reported; they end a case as a difference does.
    failed: BTreeSet<String>,
    steps: usize,
}

/// The replies to one step are not the same.
struct Failure {
    /// Much alike for failures with one cause.
    kind: String,
    message: String,
}

impl Pair {
    fn start() -> Self {
        Self::with(Rival::Bpfdb(Box::new(TestServer::shared())))
    }

    fn with(rival: Rival) -> Self {
        let redis = Redis::start();
        let aside = Aside {
            redis: Client::connect(redis.address),
            bpfdb: Client::connect(rival.address()),
        };
        Self {
            redis,
            known: known(&mut Client::connect(rival.address())),
            rival,
            aside,
            met: BTreeMap::new(),
            failed: BTreeSet::new(),
            steps: 0,
        }
    }

    /// What both know of this.
    fn commands(&self, about: About) -> Vec<&'static Command> {
        commands::all()
            .filter(|command| self.known.contains(command.name) || command.name == "nonsense")
            .filter(|command| about.includes(command))
            .chain(about.filling())
            .filter(|command| command.name != "dbsize" || self.known.contains("flushall"))
            .collect()
    }

    fn check(&mut self, case: &Case) -> Result<(), Failure> {
        let steps = case.whole(&self.known);
        let wipe = case::wipe(&self.known);
        let wipe: Vec<&[u8]> = wipe.iter().map(Vec::as_slice).collect();
        self.aside.redis.ask(&wipe);
        self.aside.bpfdb.ask(&wipe);
        let redis = Talk::on(self.redis.address).run(case, &steps);
        let bpfdb = Talk::on(self.rival.address()).run(case, &steps);
        let mut queues = Queues::default();

        for ((step, redis), bpfdb) in steps.iter().zip(&redis).zip(&bpfdb) {
            self.steps += 1;
            let queued = queues.step(step, redis);
            let asked = Asked {
                words: &step.words,
                queued: &queued,
            };
            if compare::same(&asked, redis, bpfdb, &mut self.aside) {
                continue;
            }
            let Some(difference) = differences::explain(&asked, redis, bpfdb) else {
                let kind = kind(step, redis, bpfdb);
                if self.failed.contains(&kind) {
                    break;
                }
                let message = message(step, &queued, redis, bpfdb);
                return Err(Failure { kind, message });
            };
            *self.met.entry(difference.name).or_default() += 1;
            if difference.diverges {
                break;
            }
        }
        Ok(())
    }

    /// Goes on after a failure that has been noted: there may be others. False
    /// if there are many already, or if this one does not come back.
    fn accept(&mut self, case: &Case) -> bool {
        const MANY: usize = 20;
        let Err(failure) = self.check(case) else {
            return false;
        };
        self.failed.insert(failure.kind) && self.failed.len() < MANY
    }

    fn tell(&self, cases: usize) {
        println!("{cases} cases, {} commands", self.steps);
        for difference in differences::DIFFERENCES {
            let times = self.met.get(difference.name).unwrap_or(&0);
            println!("{times} times {}: {}", difference.name, difference.reason);
        }
    }
}

fn kind(step: &Step, redis: &Reply, bpfdb: &Reply) -> String {
    let name = String::from_utf8_lossy(&step.words[0]).to_ascii_lowercase();
    let of = |reply: &Reply| {
        let mut kind = String::from(reply.marker as char);
        if reply.is_error() {
            let text = String::from_utf8_lossy(&reply.text);
            kind.extend(text.chars().filter(|c| !c.is_ascii_digit()).take(40));
        }
        kind
    };
    format!("{name} {} {}", of(redis), of(bpfdb))
}

fn message(step: &Step, queued: &[Words], redis: &Reply, bpfdb: &Reply) -> String {
    let of_queue: String = queued
        .iter()
        .zip(redis.items.iter().zip(&bpfdb.items))
        .filter(|(_, (redis, bpfdb))| redis != bpfdb)
        .map(|(words, (redis, bpfdb))| {
            let words: Vec<String> = words.iter().map(|word| show(word)).collect();
            format!("\n in it {words:?}\n  redis: {redis}\n  bpfdb: {bpfdb}")
        })
        .collect();
    format!("{step:?}\n redis: {redis}\n bpfdb: {bpfdb}{of_queue}")
}

// ---- Tests --------------------------------------------------------------------

pub fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 3000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// The commands of a comparison.
#[derive(Clone, Copy)]
enum About {
    All,
    /// Those of one type, beside those for any type: cases in which collections have a history.
    Type(&'static [Command]),
    /// The same, and others that fill what they work on.
    Filled(&'static [Command], &'static [Command]),
}

/// Commands beside those of a type.
const BESIDE: &[&str] = &[
    "copy", "del", "discard", "exec", "exists", "expire", "get", "keys", "multi", "object",
    "persist", "pttl", "rename", "renamenx", "scan", "set", "touch", "type", "unlink", "watch",
];

impl About {
    fn filling(self) -> impl Iterator<Item = &'static Command> {
        let filling = match self {
            Self::Filled(_, filling) => filling,
            _ => &[],
        };
        filling.iter()
    }

    fn includes(self, command: &Command) -> bool {
        match self {
            Self::All => true,
            Self::Type(commands) => {
                let is_one = |other: &Command| other.name == command.name;
                BESIDE.contains(&command.name) || commands.iter().any(is_one)
            }
            Self::Filled(commands, _) => Self::Type(commands).includes(command),
        }
    }
}

/// Compares so many cases, as far as there is time.
fn compare(pair: Pair, about: About, most: usize, time: Duration, seed: u64) {
    let seed = settings::number("BPFDB_SEED").unwrap_or(seed);
    let commands = pair.commands(about);
    let pair = RefCell::new(pair);
    let strategy = case::case(&commands);
    let mut runner = runner(seed);
    let start = Instant::now();
    let mut cases = 0;
    let mut told = String::new();

    while cases < most && start.elapsed() < time {
        let tree = strategy.new_tree(&mut runner).expect("a case");
        let check = |case: Case| {
            let checked = pair.borrow_mut().check(&case);
            checked.map_err(|failure| TestCaseError::fail(failure.message))
        };
        cases += 1;
        match runner.run_one(tree, check) {
            Ok(_) => {}
            Err(TestError::Fail(reason, case)) => {
                told += &format!("case {cases}: {reason}\n{case:?}");
                if !pair.borrow_mut().accept(&case) {
                    break;
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    pair.borrow().tell(cases);
    assert!(told.is_empty(), "BPFDB_SEED={seed}\n{told}");
}

#[test]
fn redis_and_bpfdb_say_the_same() {
    // The same cases each time, however busy the machine is: chance is for the long run.
    compare(Pair::start(), About::All, 150, Duration::MAX, 1);
}

/// Cases of each type of collection.
const OF_A_TYPE: usize = 40;

#[test]
fn hashes_are_the_same() {
    let about = About::Type(collections::HASH);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

#[test]
fn lists_are_the_same() {
    let about = About::Type(collections::LIST);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

#[test]
fn sets_are_the_same() {
    let about = About::Type(collections::SET);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

#[test]
fn sorted_sets_are_the_same() {
    let about = About::Type(collections::SORTED_SET);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

#[test]
fn streams_are_the_same() {
    let about = About::Type(collections::STREAM);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

#[test]
fn places_are_the_same() {
    let about = About::Type(collections::GEO);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

#[test]
fn what_is_sorted_is_the_same() {
    let about = About::Filled(collections::SORT, collections::FILLED);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

#[test]
fn fields_of_bits_are_the_same() {
    let about = About::Type(collections::BITFIELD);
    compare(Pair::start(), about, OF_A_TYPE, Duration::MAX, 1);
}

/// A test of the test: no case depends on chance.
#[test]
fn redis_says_the_same_as_redis() {
    let types = collections::TYPES.map(|(_, commands)| About::Type(commands));
    let others = collections::OTHERS.map(About::Type);
    let sort = About::Filled(collections::SORT, collections::FILLED);
    for about in types.into_iter().chain(others).chain([sort, About::All]) {
        let pair = Pair::with(Rival::Redis(Redis::start()));
        compare(pair, about, 10, Duration::MAX, 2);
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_redis_and_bpfdb_say_the_same() {
    let seed = settings::fresh_seed();
    let time = Duration::from_secs(600);
    compare(Pair::start(), About::All, usize::MAX, time, seed);
}

#[test]
#[ignore = "long: make soak"]
fn soak_collections_are_the_same() {
    for (name, commands) in collections::TYPES {
        println!("{name}");
        let seed = settings::fresh_seed();
        let time = Duration::from_secs(200);
        compare(Pair::start(), About::Type(commands), usize::MAX, time, seed);
    }
}

/// A command that is not compared must have a reason.
#[test]
fn every_command_is_compared() {
    let server = TestServer::shared();
    let missing: Vec<String> = known(&mut server.client())
        .into_iter()
        .filter(|name| commands::find(name.as_bytes()).is_none())
        .filter(|name| NOT_COMPARED.iter().all(|(other, _)| other != name))
        .collect();
    assert!(
        missing.is_empty(),
        "{missing:?}: neither in COMMANDS nor, with a reason, in NOT_COMPARED (commands.rs)"
    );
}
