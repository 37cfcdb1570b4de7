//! Commands that take long are executed in steps, so that other connections are
//! served in between. Those of the connection itself wait.
//!
//! ```text
//!  run() ── context.go_on_with(job) ──► Running ──► step, step, … ──► reply
//!                                     ▲  others are served  │
//!                                     └─────────────────────┘
//! ```
//!
//! Inside EXEC all steps of a command follow each other at once. EXEC itself is such a
//! job: its transaction stays open between its steps.

use std::fmt::Debug;

use super::attempts;
use super::context::{Context, Failure};
use super::definition::Run;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

/// What is left of a command. A step takes about a millisecond at most. One that
/// fails has replied nothing, and may be tried again. The reply comes whole, with the last step: what
/// waits for the disk may be given up between two steps, and half a reply would be left.
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

    /// Does what its steps have done stay, whatever becomes of the next one? Then each step has tries
    /// of its own.
    fn keeps_steps(&self) -> bool {
        false
    }

    /// Can it do nothing before another client has ended?
    fn waits(&self) -> bool {
        false
    }

    /// Does it wait for keys? Then it has nothing to do before it is woken, or before the time at
    /// which it is to go on.
    fn is_blocked(&self) -> bool {
        false
    }

    /// Of how many of its keys, from the first on, does it need no value any more?
    fn keys_done(&self) -> usize {
        0
    }

    /// Bytes that it keeps.
    fn memory(&self) -> usize {
        0
    }
}

/// A command that is executed after what else is waiting now: connections that came
/// before it are taken in then.
#[derive(Debug)]
pub(super) struct DeferredCommand(pub(super) Run);

impl Job for DeferredCommand {
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
/// locks any more while others are served; or when values were read from files.
#[derive(Debug)]
pub(crate) struct RetriedCommand {
    run: Run,
    job: Option<Box<dyn Job>>,
    /// It has met no lock.
    is_free: bool,
}

impl RetriedCommand {
    pub(crate) fn new(run: Run) -> Self {
        Self {
            run,
            job: None,
            is_free: false,
        }
    }

    /// One that has met values in files, and nothing else.
    pub(crate) fn after_reads(run: Run) -> Self {
        Self {
            is_free: true,
            ..Self::new(run)
        }
    }
}

impl Job for RetriedCommand {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        if let Some(job) = &mut self.job {
            return job.step(context, arguments);
        }
        // Unless it is a command of that one.
        if context.instance.has_long_block() && !context.at_once && !self.is_free {
            context.rest(attempts::PAUSED);
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

    fn keeps_steps(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.keeps_steps())
    }

    fn is_blocked(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.is_blocked())
    }

    fn keys_done(&self) -> usize {
        self.job.as_ref().map_or(0, |job| job.keys_done())
    }

    fn memory(&self) -> usize {
        self.job.as_ref().map_or(0, |job| job.memory())
    }
}
