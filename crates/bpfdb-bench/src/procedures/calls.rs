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
}

const EXTEND: &str = "FCALL lock_extend 1 lock:######## token 100000 1";

pub(super) fn libraries() -> [&'static str; 4] {
    let voter = Voter::new(CONTESTANTS, 1, 1, Distribution::Uniform);
    let bank = SmallBank::new(1, 1);
    let home = Tatp::new(1);
    [
        voter.library(),
        bank.library(),
        home.library(),
        lock::LIBRARY,
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
            Self::Lock => Ok(()),
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

fn application<A: Application + Send + 'static>(app: A, mut random: Random) -> Writer {
    Box::new(move |to| {
        let call = app.next(&mut random);
        app.write(&call, to);
    })
}
