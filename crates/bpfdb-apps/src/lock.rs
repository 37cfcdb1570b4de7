//! redis-py's lock: `examples/procedures/lock.lua`.
//!
//! The purpose of a lock: a client reads a counter, and writes it back with one more. If ever two
//! clients are between that, one of the increments is lost.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::application::{Outcome, Usage, in_parallel};
use crate::client::{Address, Client, Reply};
use crate::random::Random;

pub const LIBRARY: &str = include_str!("../../../examples/procedures/lock.lua");

/// Longer than a run takes: no lock expires.
const MILLISECONDS: &str = "100000";
/// Before a lock is tried again.
const PAUSE: Duration = Duration::from_micros(50);

/// Runs it with so many locks. A call of [`Usage`] is the time from acquire to release.
pub fn run(address: &Address, usage: &Usage, locks: u64) -> Result<Outcome> {
    let mut client = Client::connect(address)?;
    for lock in 0..locks {
        client.ask(&["SET", &counter(lock), "0"])?;
    }
    let mut all = Outcome::default();
    let done = in_parallel(usage, |seed| {
        let mut owner = Owner::new(address, seed)?;
        let mut random = Random::new(seed);
        for _ in 0..usage.calls_each() {
            owner.hold(random.below(locks), &mut random)?;
        }
        Ok(owner.outcome)
    })?;
    done.into_iter().for_each(|outcome| all += outcome);

    let mut sum = 0;
    for lock in 0..locks {
        sum += client
            .ask(&["GET", &counter(lock)])?
            .text()?
            .parse::<u64>()?;
        let left = client.ask(&["EXISTS", &name(lock)])?;
        ensure!(left == Reply::Integer(0), "lock {lock} was not released");
    }
    let held = all.end("held");
    ensure!(
        sum == held,
        "locks were held {held} times, and counted {sum}"
    );
    Ok(all)
}

fn name(lock: u64) -> String {
    format!("lock:{lock}")
}

fn counter(lock: u64) -> String {
    format!("lock:counter:{lock}")
}

struct Owner {
    client: Client,
    token: String,
    outcome: Outcome,
}

impl Owner {
    fn new(address: &Address, seed: u64) -> Result<Self> {
        Ok(Self {
            client: Client::connect(address)?,
            token: format!("token-{seed}"),
            outcome: Outcome::default(),
        })
    }

    /// From acquire to release.
    fn hold(&mut self, lock: u64, random: &mut Random) -> Result<()> {
        let lock_name = name(lock);
        while !self.acquire(&lock_name)? {
            // It is another client's.
            let token = self.token.clone();
            if random.below(10) == 0 && self.call("lock_release", &[&lock_name, &token])? {
                anyhow::bail!("another client's lock was released");
            }
            thread::sleep(PAUSE);
        }
        let counter = counter(lock);
        let count: u64 = self.client.ask(&["GET", &counter])?.text()?.parse()?;
        let token = self.token.clone();
        let is_owner = match random.below(3) {
            0 => self.call("lock_extend", &[&lock_name, &token, MILLISECONDS, "0"])?,
            1 => self.call("lock_extend", &[&lock_name, &token, MILLISECONDS, "1"])?,
            _ => self.call("lock_reacquire", &[&lock_name, &token, MILLISECONDS])?,
        };
        ensure!(is_owner, "the lock is not its owner's");
        let more = (count + 1).to_string();
        self.client.ask(&["SET", &counter, &more])?;
        let is_owner = self.call("lock_release", &[&lock_name, &token])?;
        ensure!(is_owner, "the lock is not its owner's");
        *self.outcome.ends.entry("held").or_default() += 1;
        Ok(())
    }

    fn acquire(&mut self, lock: &str) -> Result<bool> {
        let set = ["SET", lock, &self.token, "NX", "PX", MILLISECONDS];
        let reply = self.client.ask(&set)?;
        Ok(!reply.is_nil())
    }

    fn call(&mut self, function: &'static str, words: &[&str]) -> Result<bool> {
        let call = [&["FCALL", function, "1"], words].concat();
        let is_done = self.client.ask(&call)?.integer()? == 1;
        let end = if is_done { "done" } else { "not the owner" };
        self.outcome.add(function, end);
        Ok(is_done)
    }
}
