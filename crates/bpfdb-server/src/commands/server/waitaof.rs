//! WAITAOF.

use std::time::{Duration, Instant};

use super::super::arguments::number;
use super::super::atomic;
use super::super::job::{Job, Progress};
use super::super::prelude::*;
use crate::instance::log::NO_LOG;

/// Between two looks at what is durable, at first: a flush takes about as long.
const PAUSE: Duration = Duration::from_micros(100);
/// And at most: on a disk that does not answer, many waiting clients must not keep the loop busy.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// In between, this part of the time that was waited already.
const PAUSE_PART: u32 = 8;

pub(crate) static COMMAND: Command = Command {
    name: "waitaof",
    summary: "Waits until what this connection wrote is durable",
    since: "7.2.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 4,
    arguments: "numlocal:integer, numreplicas:integer, timeout:integer",
    flags: &[Flag::NoScript],
    categories: &[Category::Connection],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    differences: "There are no replicas: the second number is 0, and it is not waited for.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let local = number(&arguments[0])?;
    number(&arguments[1])?;
    let timeout = timeout(&arguments[2])?;
    if !(0..=1).contains(&local) {
        return Err("ERR value is out of range, must be between 0 and 1".into());
    }
    if local == 1 && !context.instance.log.is_there() {
        return Err(NO_LOG.into());
    }
    let job = Waiting {
        local,
        until: context.engine.now(),
        begun: Instant::now(),
        deadline: Instant::now().checked_add(timeout),
    };
    context.instance.log.want(job.until, 1);
    context.go_on_with(job);
    Ok(())
}

/// 0: for ever.
fn timeout(word: &[u8]) -> Result<Duration, Failure> {
    let timeout = crate::values::integer::parse(word)
        .ok_or("ERR timeout is not an integer or out of range")?;
    match u64::try_from(timeout) {
        Ok(0) => Ok(Duration::MAX),
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) => Err("ERR timeout is negative".into()),
    }
}

/// Waits until everything is durable that was committed when it was asked.
#[derive(Debug)]
struct Waiting {
    local: i64,
    until: u64,
    begun: Instant,
    deadline: Option<Instant>,
}

impl Waiting {
    fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Until it looks again.
    fn pause(&self) -> Duration {
        let now = Instant::now();
        let pause = ((now - self.begun) / PAUSE_PART).clamp(PAUSE, PAUSE_MAX);
        let left = |deadline: Instant| deadline.saturating_duration_since(now);
        self.deadline
            .map(left)
            .map_or(pause, |left| pause.min(left))
    }
}

impl Job for Waiting {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let log = &context.instance.log;
        let is_durable = log.is_there() && log.durable() >= self.until;
        // In a transaction it does not wait, as in Redis: it has locks.
        let may_wait = !context.at_once && !atomic::is_open(context.session);
        if !is_durable && self.local > 0 && may_wait && !self.is_over() {
            if let Some(why) = log.has_failed().then(|| log.refusal()).flatten() {
                return Err(why.into());
            }
            context.rest(self.pause());
            return Ok(Progress::More);
        }
        context.replies.array(2);
        context.replies.integer(is_durable.into());
        context.replies.integer(0);
        Ok(Progress::Done)
    }
}
