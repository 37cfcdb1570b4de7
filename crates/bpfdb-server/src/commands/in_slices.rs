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
    /// May it go on where it was, after an Error that has not failed the transaction? Else it begins
    /// anew: it writes at the end, in one step.
    const GOES_ON: bool = false;
    /// Does it write? Then its transaction takes locks.
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
    /// Its transaction has failed for this reason: is it done without one from now on? What a step
    /// has done stays then.
    fn leaves_transaction(&self, _: Status) -> bool {
        false
    }
    /// Is the first slice mostly a matter of microseconds? Then it need not wait for others.
    fn is_short(&self) -> bool {
        false
    }
    /// Bytes that it keeps.
    fn memory(&self) -> usize {
        0
    }
}

/// The transaction in which the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Own,
    Clients,
    /// Each operator by itself.
    Nothing,
}

#[derive(Debug)]
pub(super) struct InSlices<W> {
    work: W,
    within: Within,
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
        Self::within(
            match is_open(session) {
                true => Within::Clients,
                false => Within::Own,
            },
            work,
        )
    }

    /// What a step has done stays, whatever becomes of the next one.
    pub(super) fn without_transaction(work: W) -> Self {
        Self::within(Within::Nothing, work)
    }

    fn within(within: Within, work: W) -> Self {
        Self {
            work,
            within,
            begun: false,
            committing: false,
            spent: Duration::ZERO,
            attempts: Attempts::default(),
        }
    }

    fn is_own(&self) -> bool {
        self.within == Within::Own
    }

    fn advance(
        &mut self,
        context: &mut Context<'_>,
        words: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        let writes = self.work.writes();
        if self.is_own() && self.begun {
            context.session.touch();
            context.session.resume();
        } else if self.is_own() && writes {
            context.session.begin_deferred()?;
        } else if self.is_own() {
            context.session.begin_read_only_deferred()?;
        }
        self.begun = true;
        let before = context.session.writes();
        let slice = TimeSlice::begin();
        let is_done = self.work.advance(context.session, words, slice);
        let is_done = is_done.map_err(|failure| {
            if W::GOES_ON || context.session.writes() == before {
                failure
            } else {
                // A part of it may be in the client's transaction.
                give_up(context.session, failure)
            }
        })?;
        if !is_done {
            if self.is_own() {
                self.attempts.pause(context, writes)?;
            }
            return Ok(Progress::More);
        }
        if self.is_own() {
            self.committing = true;
            context.session.commit()?;
        }
        self.attempts.end();
        self.work.reply(context);
        Ok(Progress::Done)
    }

    fn leave_transaction(&mut self) {
        self.within = Within::Nothing;
        std::mem::take(&mut self.attempts).end();
    }

    /// After an Error: attempts again, from the beginning, if that may help.
    fn begin_anew(
        &mut self,
        context: &mut Context<'_>,
        failure: Failure,
    ) -> Result<Progress, Failure> {
        let goes_on = match self.within {
            Within::Own => false,
            // A session that is busy has done nothing, and its transaction has not failed.
            Within::Clients => {
                W::GOES_ON && matches!(failure, Failure::Engine(Status::SessionBusy))
            }
            Within::Nothing => true,
        };
        if goes_on {
            return Err(failure);
        }
        self.begun = false;
        self.work.restart();
        let spent = std::mem::take(&mut self.spent);
        match failure {
            Failure::Engine(status) if self.is_own() && self.work.leaves_transaction(status) => {
                self.leave_transaction();
                Ok(Progress::More)
            }
            Failure::Engine(status)
                if self.is_own() && self.attempts.again(context, status, spent) =>
            {
                Ok(Progress::More)
            }
            // There has been none for a while.
            Failure::Engine(Status::MemoryPending)
                if self.is_own() && self.work.leaves_transaction(Status::OutOfMemory) =>
            {
                self.leave_transaction();
                Ok(Progress::More)
            }
            failure => Err(failure),
        }
    }
}

impl<W: Work> Job for InSlices<W> {
    fn step(&mut self, context: &mut Context<'_>, words: &[Vec<u8>]) -> Result<Progress, Failure> {
        let writes = self.work.writes();
        if self.is_own() && !self.begun && self.attempts.wait(context, writes) {
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
        if self.is_own() && !std::mem::take(&mut self.committing) {
            context.session.rollback()?;
        }
        self.begin_anew(context, failure)
    }

    fn has_begun(&self) -> bool {
        self.begun
    }

    fn is_short(&self) -> bool {
        self.work.is_short()
    }

    fn keeps_steps(&self) -> bool {
        self.within == Within::Nothing
    }

    fn memory(&self) -> usize {
        self.work.memory()
    }
}
