//! Applications whose calls depend on nothing but chance: many clients send them in pipelines,
//! and their data is checked at the end.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;
use std::thread;

use anyhow::{Context, Result, anyhow};

use crate::client::{Address, Client, Reply};
use crate::random::Random;

pub trait Application: Sync {
    /// What is called, with what.
    type Call: Copy + Send;
    /// What a client has to remember of its calls for the check.
    type Tally: Default + Send;

    /// The text for FUNCTION LOAD.
    fn library(&self) -> &'static str;

    /// Puts all data there. There is none of this application before.
    fn fill(&self, client: &mut Client) -> Result<()>;

    fn next(&self, random: &mut Random) -> Self::Call;

    /// The function that a call is of.
    fn function(&self, call: &Self::Call) -> &'static str;

    /// Adds the request.
    fn write(&self, call: &Self::Call, to: &mut Vec<u8>);

    /// Takes in the reply to a call: how it ended, in a word.
    fn count(
        &self,
        call: &Self::Call,
        reply: &Reply,
        tally: &mut Self::Tally,
    ) -> Result<&'static str>;

    /// Fails if the data is not what all calls together must have made of it.
    fn check(&self, client: &mut Client, tallies: Vec<Self::Tally>) -> Result<()>;
}

/// How an application is used.
#[derive(Clone, Debug)]
pub struct Usage {
    pub clients: usize,
    /// Of all clients together.
    pub calls: usize,
    /// Calls that a client sends before it looks at the replies.
    pub pipeline: usize,
    pub seed: u64,
}

impl Usage {
    /// Of each client.
    pub fn calls_each(&self) -> usize {
        self.calls.div_ceil(self.clients)
    }
}

/// What has become of all calls: how many, by function, and by how they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub calls: BTreeMap<&'static str, u64>,
    pub ends: BTreeMap<&'static str, u64>,
}

impl Outcome {
    pub fn add(&mut self, function: &'static str, end: &'static str) {
        *self.calls.entry(function).or_default() += 1;
        *self.ends.entry(end).or_default() += 1;
    }

    pub fn end(&self, end: &str) -> u64 {
        self.ends.get(end).copied().unwrap_or_default()
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        for (function, count) in other.calls {
            *self.calls.entry(function).or_default() += count;
        }
        for (end, count) in other.ends {
            *self.ends.entry(end).or_default() += count;
        }
    }
}

/// Fills the data, has the clients call, and checks the data. The library is there.
pub fn run<A: Application>(app: &A, address: &Address, usage: &Usage) -> Result<Outcome> {
    let mut client = Client::connect(address)?;
    app.fill(&mut client).context("fill the data")?;
    let done = in_parallel(usage, |seed| call(app, address, usage, seed))?;
    let (mut outcome, mut tallies) = (Outcome::default(), Vec::new());
    for (of_client, tally) in done {
        outcome += of_client;
        tallies.push(tally);
    }
    app.check(&mut client, tallies).context("check the data")?;
    Ok(outcome)
}

/// Runs all clients, each in a thread and with a seed of its own.
pub(crate) fn in_parallel<T: Send>(
    usage: &Usage,
    client: impl Fn(u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let client = &client;
        let seeds = (0..usage.clients as u64).map(|number| usage.seed * 1000 + number);
        let threads: Vec<_> = seeds
            .map(|seed| scope.spawn(move || client(seed)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<T>>| {
            thread.join().map_err(|_| anyhow!("a client panicked"))?
        };
        threads.into_iter().map(join).collect()
    })
}

fn call<A: Application>(
    app: &A,
    address: &Address,
    usage: &Usage,
    seed: u64,
) -> Result<(Outcome, A::Tally)> {
    let mut client = Client::connect(address)?;
    let mut random = Random::new(seed);
    let (mut outcome, mut tally) = (Outcome::default(), A::Tally::default());
    let (mut pending, mut requests) = (VecDeque::new(), Vec::new());
    let mut left = usage.calls_each();
    while left > 0 {
        requests.clear();
        for _ in 0..left.min(usage.pipeline) {
            let next = app.next(&mut random);
            app.write(&next, &mut requests);
            pending.push_back(next);
        }
        left -= pending.len();
        client.send(&requests)?;
        for next in pending.drain(..) {
            let function = app.function(&next);
            let reply = client.reply().context(function)?;
            let end = app.count(&next, &reply, &mut tally).context(function)?;
            outcome.add(function, end);
        }
    }
    Ok((outcome, tally))
}
