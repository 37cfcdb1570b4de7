//! What is called.

use std::time::Instant;

use anyhow::Result;
use bpfdb_apps::application::Application;
use bpfdb_apps::client::Client;
use bpfdb_apps::lock;
use bpfdb_apps::pattern::Pattern;
use bpfdb_apps::random::{Distribution, Random};
use bpfdb_apps::smallbank::SmallBank;
use bpfdb_apps::tatp::Tatp;
use bpfdb_apps::voter::{CONTESTANTS, Voter};

use crate::plan::Plan;
use crate::tcp::{Batches, Sent, Values, Writer};

/// More votes than any phone casts: all but the invalid ones write.
pub(super) const VOTES_OF_PHONE: u32 = 1_000_000_000;
/// Cents.
pub(super) const BALANCE: i64 = 1_000_000;
/// Keys that are filled before the replies are read.
const CHUNK: u32 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Phones uniform
    Voter,
    /// Phones by Zipf
    HotVoter,
    /// redis-py's extend, of locks that are the caller's
    Extend,
    /// A lock's life: SET NX PX, extend, release
    Lock,
    SmallBank,
    Tatp,
    /// Points on a board of up to 100 players, and the player's hash
    Board,
    /// A job into a queue of 20, and one out of it
    Queue,
}

/// Of boards and queues.
const COLLECTIONS: &str = include_str!("collections.lua");
const PLAYERS: u64 = 100;
const POINTS: u64 = 90;

const EXTEND: &str = "FCALL lock_extend 1 lock:######## token 100000 1";

pub(super) fn libraries() -> [&'static str; 5] {
    let voter = Voter::new(CONTESTANTS, 1, 1, Distribution::Uniform);
    let bank = SmallBank::new(1, 1);
    let home = Tatp::new(1);
    [
        voter.library(),
        bank.library(),
        home.library(),
        lock::LIBRARY,
        COLLECTIONS,
    ]
}

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Voter => "Voter",
            Self::HotVoter => "Voter, Zipf 0.99",
            Self::Extend => "lock: extend",
            Self::Lock => "lock: SET, extend, release",
            Self::SmallBank => "SmallBank",
            Self::Tatp => "TATP",
            Self::Board => "leaderboard",
            Self::Queue => "queue: put, take",
        }
    }

    /// Calls of functions in a request.
    pub(super) fn functions(self) -> u32 {
        if self == Self::Lock { 2 } else { 1 }
    }

    /// In a request.
    fn commands(self) -> usize {
        if self == Self::Lock { 3 } else { 1 }
    }

    /// Customers, subscribers or locks.
    pub(super) fn keys(plan: &Plan) -> u32 {
        plan.tcp_keys / 10
    }

    pub(super) fn voter(self, plan: &Plan) -> Voter {
        let distribution = match self {
            Self::HotVoter => Distribution::Zipf,
            _ => Distribution::Uniform,
        };
        Voter::new(CONTESTANTS, plan.tcp_keys, VOTES_OF_PHONE, distribution)
    }

    pub(super) fn bank(plan: &Plan) -> SmallBank {
        SmallBank::new(Self::keys(plan), BALANCE)
    }

    pub(super) fn tatp(plan: &Plan) -> Tatp {
        Tatp::new(Self::keys(plan))
    }

    pub(super) fn fill(self, plan: &Plan, client: &mut Client) -> Result<()> {
        match self {
            Self::Voter | Self::HotVoter => self.voter(plan).fill(client),
            Self::SmallBank => Self::bank(plan).fill(client),
            Self::Tatp => Self::tatp(plan).fill(client),
            Self::Lock | Self::Board | Self::Queue => Ok(()),
            Self::Extend => {
                let set = Pattern::new("SET lock:######## token PX 100000");
                for first in (0..Self::keys(plan)).step_by(CHUNK as usize) {
                    let all = first..(first + CHUNK).min(Self::keys(plan));
                    let mut requests = Vec::new();
                    for lock in all.clone() {
                        set.write(&mut requests, &[lock.into()]);
                    }
                    client.all_ok(&requests, all.len())?;
                }
                Ok(())
            }
        }
    }

    /// What writes one request after the other.
    fn writer(self, plan: &Plan, seed: u64) -> Writer {
        let mut random = Random::new(seed);
        let locks = Self::keys(plan).into();
        let set = Pattern::new("SET lock:######## token NX PX 100000");
        let release = Pattern::new("FCALL lock_release 1 lock:######## token");
        let extend = Pattern::new(EXTEND);
        match self {
            Self::Voter | Self::HotVoter => application(self.voter(plan), random),
            Self::SmallBank => application(Self::bank(plan), random),
            Self::Tatp => application(Self::tatp(plan), random),
            Self::Extend => Box::new(move |to| {
                extend.write(to, &[random.below(locks) as i64]);
            }),
            Self::Board => board(plan, random),
            Self::Queue => queue(plan, random),
            Self::Lock => Box::new(move |to| {
                let lock = [random.below(locks) as i64];
                for request in [&set, &extend, &release] {
                    request.write(to, &lock);
                }
            }),
        }
    }

    /// What a thread sends.
    pub(super) fn batches(
        self,
        plan: &Plan,
        pipeline: u32,
        seed: u64,
    ) -> impl Batches<Replies = Values> + use<> {
        Sent::new(
            self.writer(plan, seed),
            pipeline,
            self.commands(),
            Values::default,
        )
    }

    /// Nanoseconds that the client takes to write a request.
    pub(super) fn cost(self, plan: &Plan) -> f64 {
        const REQUESTS: u32 = 100_000;
        let mut write = self.writer(plan, 1);
        let mut bytes = Vec::new();
        let start = Instant::now();
        for _ in 0..REQUESTS {
            bytes.clear();
            write(&mut bytes);
        }
        start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
    }
}

/// Players have a number, of which the last two digits are their place on one of the boards.
fn board(plan: &Plan, mut random: Random) -> Writer {
    let request =
        Pattern::new("FCALL board_score 2 board:######## player:######## player:######## ##");
    let players = Work::keys(plan).into();
    Box::new(move |to| {
        let player = random.below(players);
        let (board, points) = (player / PLAYERS, 10 + random.below(POINTS));
        let numbers = [board, player, player, points].map(|number| number as i64);
        request.write(to, &numbers);
    })
}

fn queue(plan: &Plan, mut random: Random) -> Writer {
    let request =
        Pattern::new("FCALL queue_pass 2 queue:######## counters:######## job:######## 20");
    let queues = u64::from(Work::keys(plan)) / PLAYERS;
    Box::new(move |to| {
        let queue = random.below(queues.max(1)) as i64;
        let job = random.below(1 << 26) as i64;
        request.write(to, &[queue, queue, job]);
    })
}

fn application<A: Application + Send + 'static>(app: A, mut random: Random) -> Writer {
    Box::new(move |to| {
        let call = app.next(&mut random);
        app.write(&call, to);
    })
}
