//! Rate limiters: `examples/procedures/rate_limiter.lua`.
//!
//! Times are those of the clock, as callers would give them; so nothing expires before its time.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};

use crate::application::Application;
use crate::client::{Client, Reply};
use crate::pattern::Pattern;
use crate::random::Random;

const LIBRARY: &str = include_str!("../../../examples/procedures/rate_limiter.lua");

/// A call for a limiter, by number, at a time.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    limiter: i64,
    now: i64,
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as i64)
}

/// `limit_window`
#[derive(Debug)]
pub struct Window {
    limiters: u64,
    limit: i64,
    /// Milliseconds.
    window: i64,
    pattern: Pattern,
}

impl Window {
    pub fn new(limiters: u64, limit: i64, window: i64) -> Self {
        let pattern = format!("FCALL limit_window 1 limit:window:## {limit} {window} @");
        Self {
            limiters,
            limit,
            window,
            pattern: Pattern::new(&pattern),
        }
    }
}

impl Application for Window {
    type Call = Call;
    /// Calls let through, by limiter and number of the window.
    type Tally = BTreeMap<(i64, i64), i64>;

    fn library(&self) -> &'static str {
        LIBRARY
    }

    fn fill(&self, _: &mut Client) -> Result<()> {
        Ok(())
    }

    fn next(&self, random: &mut Random) -> Call {
        Call {
            limiter: random.below(self.limiters) as i64,
            now: now(),
        }
    }

    fn function(&self, _: &Call) -> &'static str {
        "limit_window"
    }

    fn write(&self, call: &Call, to: &mut Vec<u8>) {
        self.pattern.write(to, &[call.limiter, call.now]);
    }

    fn count(&self, call: &Call, reply: &Reply, tally: &mut Self::Tally) -> Result<&'static str> {
        match reply.integer()? {
            0 => Ok("limited"),
            1 => {
                let window = call.now / self.window;
                *tally.entry((call.limiter, window)).or_default() += 1;
                Ok("let through")
            }
            other => bail!("the reply is {other}"),
        }
    }

    fn check(&self, client: &mut Client, tallies: Vec<Self::Tally>) -> Result<()> {
        let mut all = Self::Tally::default();
        for (key, count) in tallies.into_iter().flatten() {
            *all.entry(key).or_default() += count;
        }
        for (key, &count) in &all {
            ensure!(count <= self.limit, "{key:?} has let {count} through");
        }
        // Those that have not expired yet.
        for (key, count) in client.all_numbers("limit:window:")? {
            let Some((limiter, window)) = key.split_once(':') else {
                bail!("the key {key}");
            };
            let through = all.get(&(limiter.parse()?, window.parse()?));
            ensure!(through == Some(&count), "{key}: {count}, not {through:?}");
        }
        Ok(())
    }
}

/// `limit_bucket`
#[derive(Debug)]
pub struct Bucket {
    limiters: u64,
    capacity: i64,
    /// Milliseconds from token to token.
    interval: i64,
    pattern: Pattern,
}

impl Bucket {
    pub fn new(limiters: u64, capacity: i64, interval: i64) -> Self {
        let pattern = format!("FCALL limit_bucket 1 limit:bucket:## {capacity} {interval} @ 1");
        Self {
            limiters,
            capacity,
            interval,
            pattern: Pattern::new(&pattern),
        }
    }
}

/// Of one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    first: i64,
    last: i64,
    tokens: i64,
}

impl Use {
    fn add(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.tokens += other.tokens;
    }
}

impl Application for Bucket {
    type Call = Call;
    /// By limiter.
    type Tally = BTreeMap<i64, Use>;

    fn library(&self) -> &'static str {
        LIBRARY
    }

    fn fill(&self, _: &mut Client) -> Result<()> {
        Ok(())
    }

    fn next(&self, random: &mut Random) -> Call {
        Call {
            limiter: random.below(self.limiters) as i64,
            now: now(),
        }
    }

    fn function(&self, _: &Call) -> &'static str {
        "limit_bucket"
    }

    fn write(&self, call: &Call, to: &mut Vec<u8>) {
        self.pattern.write(to, &[call.limiter, call.now]);
    }

    fn count(&self, call: &Call, reply: &Reply, tally: &mut Self::Tally) -> Result<&'static str> {
        let (end, tokens) = match reply.array()? {
            [Reply::Integer(1), Reply::Integer(left)] if (0..self.capacity).contains(left) => {
                ("let through", 1)
            }
            [Reply::Integer(0), Reply::Integer(1..)] => ("limited", 0),
            other => bail!("the reply is {other:?}"),
        };
        let used = Use {
            first: call.now,
            last: call.now,
            tokens,
        };
        tally
            .entry(call.limiter)
            .and_modify(|all| all.add(&used))
            .or_insert(used);
        Ok(end)
    }

    fn check(&self, _: &mut Client, tallies: Vec<Self::Tally>) -> Result<()> {
        let mut all = Self::Tally::default();
        for (limiter, used) in tallies.into_iter().flatten() {
            all.entry(limiter)
                .and_modify(|all| all.add(&used))
                .or_insert(used);
        }
        for (limiter, used) in &all {
            let limit = self.capacity + (used.last - used.first) / self.interval;
            ensure!(
                used.tokens <= limit,
                "{limiter}: {used:?}, more than {limit}"
            );
        }
        Ok(())
    }
}
