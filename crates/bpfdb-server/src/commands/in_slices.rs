//! Work in one transaction that takes long, in slices: a job for commands that look at very much.
//!
//! ```text
//!         step              step              step
//!   begin, work, suspend │ work, suspend │ … │ work, commit, reply
//!                        └── others are served ──┘
//! ```
//!
//! In a transaction of the client's the work is a part of it, and this neither commits nor rolls back.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use bpfdb::{Session, Status};

use super::atomic::{give_up, is_open};
use super::context::{Context, Failure};
use super::job::{Job, Progress};
use super::time_slice::TimeSlice;
use super::transaction::Attempts;

/// What a command does, from its beginning in each attempt.
pub(super) trait Work: Debug {
    /// Does it write? Then its transaction takes locks. It writes at the end, in one step.
    fn writes(&self) -> bool;
    /// Goes on until the slice is over; true: all is done.
    fn advance(
        &mut self,
        session: &mut Session,
        words: &[Vec<u8>],
        slice: TimeSlice,
    ) -> Result<bool, Failure>;
    /// What it has done is undone: it begins anew.
    fn restart(&mut self);
    /// All is done, and committed.
    fn reply(&mut self, context: &mut Context<'_>);
    /// Bytes that it keeps.
    fn memory(&self) -> usize;
}

#[derive(Debug)]
pub(super) struct InSlices<W> {
    work: W,
    /// Is the transaction its own?
    own: bool,
    /// Has this attempt begun?
    begun: bool,
    /// Is COMMIT what comes next, or what has failed?
    committing: bool,
    /// The time that this attempt has taken.
    spent: Duration,
    attempts: Attempts,
}

impl<W: Work> InSlices<W> {
    pub(super) fn new(session: &Session, work: W) -> Self {
        Self {
            work,
            own: !is_open(session),
            begun: false,
            committing: false,
            spent: Duration::ZERO,
            attempts: Attempts::default(),
        }
    }

    fn advance(
        &mut self,
        context: &mut Context<'_>,
        words: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        let writes = self.work.writes();
        if self.own && self.begun {
            context.session.touch();
            context.session.resume();
        } else if self.own && writes {
            context.session.begin_deferred()?;
        } else if self.own {
            context.session.begin_read_only_deferred()?;
        }
        self.begun = true;
        let before = context.session.writes();
        let slice = TimeSlice::begin();
        let is_done = self.work.advance(context.session, words, slice);
        let is_done = is_done.map_err(|failure| match context.session.writes() == before {
            true => failure,
            // A part of it may be in the client's transaction.
            false => give_up(context.session, failure),
        })?;
        if !is_done {
            if self.own {
                self.attempts.pause(context, writes)?;
            }
            return Ok(Progress::More);
        }
        if self.own {
            self.committing = true;
            context.session.commit()?;
        }
        self.attempts.end();
        self.work.reply(context);
        Ok(Progress::Done)
    }

    /// After an Error: attempts again, from the beginning, if that may help.
    fn begin_anew(
        &mut self,
        context: &mut Context<'_>,
        failure: Failure,
    ) -> Result<Progress, Failure> {
        self.begun = false;
        self.work.restart();
        let spent = std::mem::take(&mut self.spent);
        match failure {
            Failure::Engine(status) if self.own && self.attempts.again(context, status, spent) => {
                Ok(Progress::More)
            }
            failure => Err(failure),
        }
    }
}

impl<W: Work> Job for InSlices<W> {
    fn step(&mut self, context: &mut Context<'_>, words: &[Vec<u8>]) -> Result<Progress, Failure> {
        let writes = self.work.writes();
        if self.own && !self.begun && self.attempts.wait(context, writes) {
            return Ok(Progress::More);
        }
        let begun = Instant::now();
        let outcome = self.advance(context, words);
        self.spent += begun.elapsed();
        let failure = match outcome {
            Ok(progress) => return Ok(progress),
            Err(failure) => failure,
        };
        // A COMMIT that has failed has rolled back.
        if self.own && !std::mem::take(&mut self.committing) {
            context.session.rollback()?;
        }
        if !self.own && matches!(failure, Failure::Engine(Status::SessionBusy)) {
            // Nothing is written before the last step, so the work may begin anew in this transaction.
            self.begun = false;
            self.work.restart();
            return Err(failure);
        }
        self.begin_anew(context, failure)
    }

    fn has_begun(&self) -> bool {
        self.begun
    }

    fn memory(&self) -> usize {
        self.work.memory()
    }
}
