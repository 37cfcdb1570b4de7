//! Commands that take long are executed in slices, so that other connections are
//! served in between. Those of the connection itself wait.
//!
//! ```text
//!  run() ── context.later(job) ──► Running ──► step, step, … ──► reply
//!                                     ▲  others are served  │
//!                                     └─────────────────────┘
//! ```
//!
//! Inside EXEC all steps of a command follow each other at once. EXEC itself is such a
//! job: its transaction stays open between its steps.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::definition::{Command, Run};
use super::execute::{self, Patience};
use super::table::Call;
use super::{Context, Failure, atomic};
use crate::request::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

/// What is left of a command. A step takes about a millisecond at most. One that
/// fails has replied nothing, and may be tried again; but once a step has begun the
/// reply, none fails.
pub(crate) trait Job: Debug {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure>;

    /// Is its first step surely a matter of microseconds? Then it need not wait for
    /// others.
    fn is_short(&self) -> bool {
        false
    }

    /// Has it done anything yet? Else its command may as well be executed later.
    fn has_begun(&self) -> bool {
        true
    }

    /// Bytes that it keeps.
    fn memory(&self) -> usize {
        0
    }
}

/// A command that is executed after what else is waiting now: connections that came
/// before it are taken in then.
#[derive(Debug)]
pub(super) struct Later(pub(super) Run);

impl Job for Later {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        (self.0)(context, arguments)?;
        Ok(Progress::Done)
    }
}

/// A command that is executed again after an Error of a moment, or when no MULTI … EXEC holds
/// locks any more while others are served.
#[derive(Debug)]
pub(super) struct Again {
    run: Run,
    job: Option<Box<dyn Job>>,
}

impl Again {
    pub(super) fn new(run: Run) -> Self {
        Self { run, job: None }
    }
}

impl Job for Again {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        if let Some(job) = &mut self.job {
            return job.step(context, arguments);
        }
        // Unless it is a command of that one.
        if context.instance.has_long_block() && !context.at_once {
            return Ok(Progress::More);
        }
        (self.run)(context, arguments)?;
        self.job = context.job.take();
        Ok(if self.job.is_some() {
            Progress::More
        } else {
            Progress::Done
        })
    }

    fn has_begun(&self) -> bool {
        self.job.is_some()
    }
}

/// A job on its way.
#[derive(Debug)]
pub(crate) struct Running {
    job: Box<dyn Job>,
    command: &'static Command,
    request: Request,
    name_words: usize,
    spent: Duration,
    patience: Patience,
    /// Its next step is not to be made before.
    rests_until: Option<Instant>,
}

impl Running {
    /// A job that a command has left, after so much time.
    pub(super) fn new(job: Box<dyn Job>, call: Call, request: Request, spent: Duration) -> Self {
        Self::resting(job, call, request, spent, Patience::default(), None)
    }

    /// The same for one that goes on at a time, perhaps after some tries.
    pub(super) fn resting(
        job: Box<dyn Job>,
        call: Call,
        request: Request,
        spent: Duration,
        patience: Patience,
        rests_until: Option<Instant>,
    ) -> Self {
        Self {
            job,
            command: call.command,
            request,
            name_words: call.name_words,
            spent,
            patience,
            rests_until,
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.request.memory() + self.job.memory()
    }

    /// When its next step is due, if that is not now.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rests_until.filter(|&until| Instant::now() < until)
    }

    /// The request, if CLIENT PAUSE has come before it could be executed: it waits for the
    /// end of that as any other.
    pub(crate) fn held_by_pause(self, context: &Context<'_>) -> Result<Request, Self> {
        if !self.job.has_begun() && execute::is_paused(context, &self.request) {
            return Ok(self.request);
        }
        Err(self)
    }

    /// One step, if it is due; what is left then.
    pub(crate) fn go_on(self, context: &mut Context<'_>) -> Option<Self> {
        if self.rests_until().is_some() {
            return Some(self);
        }
        let left = self.step(context);
        let rests_until = context.rests_until.take();
        left.map(|running| Self {
            rests_until,
            ..running
        })
    }

    fn step(mut self, context: &mut Context<'_>) -> Option<Self> {
        let (start, begun) = (context.replies.len(), Instant::now());
        let arguments = &self.request.words[self.name_words..];
        let progress = self.job.step(context, arguments);
        self.spent += begun.elapsed();
        let outcome = match progress {
            Ok(Progress::More) => {
                execute::silence(context, start);
                return Some(self);
            }
            Ok(Progress::Done) => Ok(()),
            Err(ref failure) if execute::may_help(context, failure, &mut self.patience) => {
                // It may have begun its reply.
                context.replies.truncate(start);
                return Some(self);
            }
            Err(failure) => Err(atomic::settled(context.session, failure)),
        };
        execute::count(context, self.command, self.spent, outcome.is_err());
        execute::observe(context, self.command, self.spent, &self.request.words);
        execute::conclude(context, outcome, context.connection.replies, start);
        None
    }
}
