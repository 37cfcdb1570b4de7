//! A transaction that goes on in steps, as that of EXEC or of a script: its turn among others
//! of its kind, and its attempts.
//!
//! At most one of them holds locks while others are served, so that none waits for another.
//! One that comes to the end of its time while another one holds some rolls back, and begins
//! anew when that has ended.

use std::rc::Rc;
use std::time::Duration;

use bpfdb::Status;

use super::super::attempts::{self, Backoff, StepStart};
use super::super::cold;
use super::super::context::{Context, Failure};
use crate::instance::pause::Pause;

#[derive(Debug, Default)]
pub(in super::super) struct Attempts {
    failed: u32,
    /// The time of those that ended in what passes by itself.
    waited: Duration,
    backoff: Backoff,
    /// Has it been going on for more than a step, and does it hold locks?
    long: Option<Rc<()>>,
}

impl Attempts {
    /// Before an attempt that is not the first: must it wait for the end of another
    /// transaction, or of CLIENT PAUSE?
    pub(in super::super) fn wait(&self, context: &mut Context<'_>, writes: bool) -> bool {
        if self.failed == 0 {
            return false;
        }
        if self.backoff.is_waiting(context.engine) {
            context.rest(attempts::PAUSED);
            return true;
        }
        if context.instance.has_long_block() {
            context.rest(attempts::PAUSED);
            return true;
        }
        let is_stopped = is_stopped(&context.instance.pause, writes);
        if is_stopped {
            context.rest(attempts::PAUSED);
        }
        is_stopped
    }

    /// Others have their turn. `locks`: it may hold some meanwhile.
    ///
    /// # Errors
    /// CONFLICT: another one goes on already; after that, from the beginning.
    pub(in super::super) fn pause(
        &mut self,
        context: &mut Context<'_>,
        locks: bool,
    ) -> Result<(), Failure> {
        if locks && self.long.is_none() {
            self.long = context.instance.long_block();
            if self.long.is_none() {
                return Err(Status::Conflict.into());
            }
        }
        context.session.suspend()?;
        Ok(())
    }

    /// A step has ended that began then.
    pub(in super::super) fn note_step(&mut self, start: StepStart) {
        self.backoff.note_step(start);
    }

    /// What the client is told of an Error after the last attempt.
    pub(in super::super) fn told(&self, context: &Context<'_>, status: Status) -> Status {
        self.backoff.told(context, status)
    }

    /// It has ended.
    pub(in super::super) fn end(&mut self) {
        self.long = None;
    }

    /// After an Error, and after all was rolled back: is another attempt to be made? `spent`: by the one
    /// that has ended.
    pub(in super::super) fn again(
        &mut self,
        context: &mut Context<'_>,
        status: Status,
        spent: Duration,
    ) -> bool {
        self.long = None;
        if cold::is_being_read(context, status) {
            self.failed = self.failed.max(1);
            return true;
        }
        self.backoff.note_attempt();
        if context.refusal(status).is_some() {
            return false;
        }
        if self.backoff.waits_for_garbage(context, status) {
            self.failed += 1;
            return true;
        }
        if attempts::passes(status) {
            if self.waited >= attempts::MOMENT {
                return false;
            }
            self.waited += spent;
        }
        self.failed += 1;
        let met_lock = status == Status::Conflict;
        met_lock && (context.instance.has_long_block() || self.failed < attempts::BLOCK)
            || self.backoff.wait(context, status)
    }
}

/// Has CLIENT PAUSE come before another attempt?
fn is_stopped(pause: &Pause, writes: bool) -> bool {
    pause.is_on() && (writes || pause.stops_all())
}
