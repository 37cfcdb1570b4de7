//! Jobs in a list: producers add them at one end, consumers take them at the other, by single commands,
//! in blocks and in transactions, of which some are rolled back and some lose their connection. Each job
//! that a producer got a reply for is taken once, and none twice.
//!
//! A consumer keeps what it takes in a list of its own, so that a job for which its client got no
//! reply is either there or still in the queue. Jobs of one producer, as far as it got replies for them
//! one after the other, are taken in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bpfdb_tests::random::Random;
use bpfdb_tests::server::procedures::{ask, parsed};
use bpfdb_tests::server::{Client, Reply, words};

use super::is_refused;
use crate::isolation::paths::{Path, Served};
use crate::isolation::{SHORT, alone, seed, volume};

const JOBS: usize = 250;
const PRODUCERS: usize = 3;
const QUEUE: &str = "jobs";

/// What a producer knows of its jobs.
#[derive(Default)]
struct Made {
    sent: BTreeSet<String>,
    /// Those of which the server said that they are in the queue.
    known: BTreeSet<String>,
}

/// How a consumer takes a job.
#[derive(Clone, Copy, Debug)]
enum Way {
    RpopLpush,
    Lmove,
    /// LMOVE between MULTI and EXEC, or DISCARD.
    Block,
    /// RPOP and LPUSH between BEGIN and COMMIT, or ROLLBACK, or the end of the connection.
    Steps,
    /// The same, sent at once: the connection may end before the server has said anything.
    AtOnce,
    /// A look at the queue, then RPOP and LPUSH, without a transaction: which must be noticed.
    Pieces,
}

const WAYS: [Way; 5] = [
    Way::RpopLpush,
    Way::Lmove,
    Way::Block,
    Way::Steps,
    Way::AtOnce,
];

struct Peer<'a> {
    served: &'a Served,
    client: Client,
    random: Random,
    number: usize,
}

impl<'a> Peer<'a> {
    fn new(served: &'a Served, number: usize, seed: u64) -> Self {
        Self {
            served,
            client: served.client(),
            random: Random::new(seed + number as u64),
            number,
        }
    }

    /// Its connection ends; it has another one.
    fn reconnect(&mut self) {
        self.client = self.served.client();
    }

    fn ask(&mut self, command: &str) -> Reply {
        parsed(self.client.say(command).as_bytes())
    }

    /// Nil if others were in the way, too: it is tried again.
    fn ask_to_change(&mut self, command: &str) -> Result<Option<String>, String> {
        let reply = self.ask(command);
        match reply.is_error() {
            true if is_refused(&reply) => Ok(None),
            true => Err(format!("{command}: {reply}")),
            false => Ok((!reply.is_nil).then(|| text(&reply))),
        }
    }

    // ---- Producer ------------------------------------------------------------------

    fn produce(&mut self, jobs: usize) -> Result<Made, String> {
        let mut made = Made::default();
        for number in 0..jobs {
            let job = format!("{}:{number}", self.number);
            made.sent.insert(job.clone());
            let command = format!("LPUSH {QUEUE} {job}");
            if self.random.one_in(20) {
                self.client.send(&words(&command));
                self.reconnect();
                continue;
            }
            if self.random.one_in(4) {
                self.produce_in_steps(&command)?;
            } else {
                while self.ask_to_change(&command)?.is_none() {}
            }
            made.known.insert(job);
        }
        Ok(made)
    }

    fn produce_in_steps(&mut self, command: &str) -> Result<(), String> {
        loop {
            self.say("BEGIN")?;
            let pushed = self.ask_to_change(command)?.is_some();
            if pushed && !self.random.one_in(4) {
                return self.say("COMMIT");
            }
            self.say("ROLLBACK")?;
        }
    }

    fn say(&mut self, command: &str) -> Result<(), String> {
        let reply = self.ask(command);
        match reply.is("OK") {
            true => Ok(()),
            false => Err(format!("{command}: {reply}")),
        }
    }

    // ---- Consumer ------------------------------------------------------------------

    fn taken(&self) -> String {
        format!("taken:{}", self.number)
    }

    fn take(&mut self, way: Way) -> Result<(), String> {
        let taken = self.taken();
        match way {
            Way::RpopLpush => (self.ask_to_change(&format!("RPOPLPUSH {QUEUE} {taken}"))).map(drop),
            Way::Lmove => {
                let command = format!("LMOVE {QUEUE} {taken} RIGHT LEFT");
                self.ask_to_change(&command).map(drop)
            }
            Way::Block => self.take_in_a_block(),
            Way::Steps => self.take_in_steps(),
            Way::AtOnce => self.take_at_once(),
            Way::Pieces => self.take_in_pieces(),
        }
    }

    fn take_in_a_block(&mut self) -> Result<(), String> {
        let end = if self.random.one_in(4) {
            "DISCARD"
        } else {
            "EXEC"
        };
        let take = format!("LMOVE {QUEUE} {} RIGHT LEFT", self.taken());
        let block = ["MULTI", &take, end];
        self.client.send(&block.map(words).concat());
        let [_, _, last] = block.map(|_| parsed(&self.client.reply()));
        let wrong = last.items.iter().find(|result| result.is_error());
        match wrong.or((last.is_error() && !is_refused(&last)).then_some(&last)) {
            Some(wrong) => Err(format!("the server says {wrong}")),
            None => Ok(()),
        }
    }

    fn take_in_steps(&mut self) -> Result<(), String> {
        self.say("BEGIN")?;
        let Some(job) = self.ask_to_change(&format!("RPOP {QUEUE}"))? else {
            return self.say("ROLLBACK");
        };
        let kept = self.ask_to_change(&format!("LPUSH {} {job}", self.taken()))?;
        match self.random.below(5) {
            0 => {
                self.reconnect();
                Ok(())
            }
            1 => self.say("ROLLBACK"),
            _ if kept.is_none() => self.say("ROLLBACK"),
            _ => self.say("COMMIT"),
        }
    }

    fn take_at_once(&mut self) -> Result<(), String> {
        let take = format!("RPOPLPUSH {QUEUE} {}", self.taken());
        let block = ["BEGIN", &take, "COMMIT"];
        self.client.send(&block.map(words).concat());
        if self.random.one_in(3) {
            self.reconnect();
            return Ok(());
        }
        let [begun, taken, ended] = block.map(|_| parsed(&self.client.reply()));
        let is_well = match taken.is_error() {
            // Its COMMIT says that there is nothing to commit, or that it was rolled back.
            true => is_refused(&taken),
            false => ended.is("OK"),
        };
        match begun.is("OK") && is_well {
            true => Ok(()),
            false => Err(format!("the server says {begun}, {taken}, {ended}")),
        }
    }

    fn take_in_pieces(&mut self) -> Result<(), String> {
        let Some(job) = self.ask_to_change(&format!("LINDEX {QUEUE} -1"))? else {
            return Ok(());
        };
        self.ask_to_change(&format!("LPUSH {} {job}", self.taken()))?;
        self.ask_to_change(&format!("RPOP {QUEUE}")).map(drop)
    }
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.text).into_owned()
}

/// The elements of a list, the oldest first.
fn list(client: &mut Client, key: &str) -> Vec<String> {
    let reply = ask(client, &["LRANGE", key, "0", "-1"]);
    assert!(!reply.is_error(), "{key}: {reply}");
    reply.items.iter().rev().map(text).collect()
}

fn check_order(taken: &[String], made: &Made) -> Result<(), String> {
    let mut newest: BTreeMap<&str, usize> = BTreeMap::new();
    for job in taken.iter().filter(|job| made.known.contains(*job)) {
        let (producer, number) = job.split_once(':').ok_or("no job")?;
        let number = number.parse().map_err(|_| "no number")?;
        match newest.insert(producer, number) {
            Some(before) if before > number => {
                return Err(format!("{job} was taken after {producer}:{before}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// All that was taken, in lists of the consumers.
fn check(taken: &[Vec<String>], made: &Made) -> Result<(), String> {
    let mut found = BTreeSet::new();
    for job in taken.iter().flatten() {
        if !found.insert(job.clone()) {
            return Err(format!("{job} was taken twice"));
        }
    }
    if let Some(lost) = made.known.difference(&found).next() {
        return Err(format!("{lost} is lost"));
    }
    if let Some(unknown) = found.difference(&made.sent).next() {
        return Err(format!("{unknown} was taken, and never made"));
    }
    taken.iter().try_for_each(|taken| check_order(taken, made))
}

/// With one consumer for each of these ways. How many jobs were taken.
fn run(served: &Served, seed: u64, jobs: usize, ways: &[Way]) -> Result<usize, String> {
    let mut client = served.client();
    let lists: Vec<String> = (0..ways.len())
        .map(|number| format!("taken:{number}"))
        .collect();
    for key in lists.iter().map(String::as_str).chain([QUEUE]) {
        client.say(&format!("DEL {key}"));
    }
    let (producing, failed) = (AtomicUsize::new(PRODUCERS), AtomicBool::new(false));
    let (producing, failed) = (&producing, &failed);
    let made = thread::scope(|scope| {
        let producer = |number| {
            let mut peer = Peer::new(served, number, seed + 1000);
            scope.spawn(move || {
                let made = peer.produce(jobs);
                producing.fetch_sub(1, Ordering::Release);
                made
            })
        };
        let producers: Vec<_> = (0..PRODUCERS).map(producer).collect();
        let consumer = |(number, &way): (usize, &Way)| {
            let mut peer = Peer::new(served, number, seed);
            scope.spawn(move || {
                let mut taken = Ok(());
                while taken.is_ok() && !failed.load(Ordering::Relaxed) {
                    // Before the look: what is there afterwards came before.
                    let is_over = producing.load(Ordering::Acquire) == 0;
                    if is_over && peer.ask(&format!("LLEN {QUEUE}")).number() == Some(0) {
                        break;
                    }
                    taken = peer.take(way);
                }
                failed.fetch_or(taken.is_err(), Ordering::Relaxed);
                taken
            })
        };
        let consumers: Vec<_> = ways.iter().enumerate().map(consumer).collect();
        let mut made = Made::default();
        for producer in producers {
            let of_one = producer.join().expect("no panic")?;
            made.sent.extend(of_one.sent);
            made.known.extend(of_one.known);
        }
        for consumer in consumers {
            consumer.join().expect("no panic")?;
        }
        Ok::<Made, String>(made)
    });
    // What a connection has sent before its end is done, or never will be.
    served.check_nothing_held();
    let mut taken: Vec<Vec<String>> = lists.iter().map(|key| list(&mut client, key)).collect();
    // A job for which its producer got no reply may have come late.
    taken.push(list(&mut client, QUEUE));
    check(&taken, &made?)?;
    Ok(taken.iter().map(Vec::len).sum())
}

fn exactly_once(path: Path, scale: usize) {
    let served = Served::shared(path);
    let _alone = alone();
    let seed = seed(scale);
    let ways = WAYS.repeat(1 + usize::from(scale > SHORT));
    let taken = run(&served, seed, volume(JOBS * scale), &ways);
    let taken = taken.unwrap_or_else(|error| panic!("{path:?}, BPFDB_SEED={seed}: {error}"));
    println!("{path:?}: {taken} jobs");
    assert!(taken > 0);
}

#[test]
fn each_job_is_taken_once_over_tcp() {
    exactly_once(Path::Tcp, SHORT);
}

#[test]
fn each_job_is_taken_once_in_send() {
    exactly_once(Path::Send, SHORT);
}

#[test]
fn each_job_is_taken_once_by_the_daemon() {
    exactly_once(Path::Daemon, SHORT);
}

/// A test of the test.
#[test]
fn jobs_taken_in_pieces_are_noticed() {
    let served = Served::shared(Path::Tcp);
    let _alone = alone();
    let found = (0..20).find_map(|seed| run(&served, seed, JOBS, &[Way::Pieces; 4]).err());
    println!("{}", found.expect("a job that is lost, or taken twice"));
}

#[test]
#[ignore = "takes minutes"]
fn soak_each_job_is_taken_once() {
    for path in [Path::Tcp, Path::Send, Path::Daemon] {
        exactly_once(path, 60);
    }
}
