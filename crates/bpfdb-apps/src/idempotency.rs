//! A store of idempotency keys: `examples/procedures/idempotency.lua`.
//!
//! Clients send requests with few keys, each many times. A client whose request is new executes
//! it: it reads a counter of the key, and writes it back with one more.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use crate::application::{Outcome, Usage, in_parallel};
use crate::client::{Address, Client, Reply};
use crate::random::{Distribution, Draw, Random};

pub const LIBRARY: &str = include_str!("../../../examples/procedures/idempotency.lua");

/// Longer than a run takes: nothing expires.
const MILLISECONDS: &str = "100000";
/// One in so many clients that should execute a request fails, and gives up.
const FAIL_ONE_IN: u64 = 10;

/// Runs it with so many keys.
pub fn run(address: &Address, usage: &Usage, keys: u32) -> Result<Outcome> {
    let draw = Draw::new(Distribution::Zipf, keys);
    let done = in_parallel(usage, |seed| {
        let mut caller = Caller {
            client: Client::connect(address)?,
            token: format!("token-{seed}"),
            random: Random::new(seed),
            results: BTreeMap::new(),
            outcome: Outcome::default(),
        };
        for _ in 0..usage.calls_each() {
            let key = draw.next(&mut caller.random);
            caller.request(key)?;
        }
        Ok(caller)
    })?;
    let (mut outcome, mut results) = (Outcome::default(), BTreeMap::new());
    for caller in done {
        outcome += caller.outcome;
        for (key, result) in caller.results {
            let known = results.entry(key).or_insert_with(|| result.clone());
            ensure!(*known == result, "{key}: {known}, and {result}");
        }
    }
    check(&mut Client::connect(address)?, &results)?;
    Ok(outcome)
}

/// Every request was executed once, and its result is there.
fn check(client: &mut Client, results: &BTreeMap<u32, String>) -> Result<()> {
    let executed = client.all_numbers("once:executed:")?;
    let stored = client.all("once:key:")?;
    ensure!(executed.len() == results.len(), "requests are missing");
    for (key, result) in results {
        let times = executed.get(&key.to_string());
        ensure!(times == Some(&1), "{key} was executed {times:?} times");
        let state = stored.get(&key.to_string());
        let state = state.with_context(|| format!("{key} is not there"))?;
        ensure!(*state == format!("R{result}"), "{key}: {state}");
    }
    Ok(())
}

struct Caller {
    client: Client,
    token: String,
    random: Random,
    /// Of requests, as they were seen.
    results: BTreeMap<u32, String>,
    outcome: Outcome,
}

impl Caller {
    fn request(&mut self, key: u32) -> Result<()> {
        let name = format!("once:key:{key}");
        let token = self.token.clone();
        let begin = ["FCALL", "once_begin", "1", &name, &token, MILLISECONDS];
        let reply = self.client.ask(&begin)?;
        let words = reply.array()?.iter().map(Reply::text);
        match words.collect::<Result<Vec<_>>>()?[..] {
            ["new"] => {
                self.outcome.add("once_begin", "new");
                self.execute(key, &name)
            }
            ["pending"] => {
                self.outcome.add("once_begin", "pending");
                Ok(())
            }
            ["done", result] => {
                self.outcome.add("once_begin", "done");
                self.saw(key, result)
            }
            ref other => bail!("{key}: the reply is {other:?}"),
        }
    }

    fn execute(&mut self, key: u32, name: &str) -> Result<()> {
        let token = self.token.clone();
        if self.random.below(FAIL_ONE_IN) == 0 {
            return self.call("once_give_up", "given up", &[name, &token]);
        }
        let counter = format!("once:executed:{key}");
        let times = match self.client.ask(&["GET", &counter])? {
            Reply::Nil => 0,
            times => times.text()?.parse::<u64>()?,
        };
        self.client
            .ask(&["SET", &counter, &(times + 1).to_string()])?;
        let result = format!("{key} by {token}");
        let words = [name, &token, &result, MILLISECONDS];
        self.call("once_finish", "finished", &words)?;
        self.saw(key, &result)
    }

    fn call(&mut self, function: &'static str, end: &'static str, words: &[&str]) -> Result<()> {
        let call = [&["FCALL", function, "1"], words].concat();
        let reply = self.client.ask(&call)?;
        ensure!(reply == Reply::Integer(1), "{function}: {reply:?}");
        self.outcome.add(function, end);
        Ok(())
    }

    fn saw(&mut self, key: u32, result: &str) -> Result<()> {
        let known = self.results.entry(key).or_insert_with(|| result.to_owned());
        ensure!(known == result, "{key}: {known}, and {result}");
        Ok(())
    }
}
