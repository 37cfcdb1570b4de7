//! A command that goes on in steps, between its steps.

use std::time::{Duration, Instant};

use super::request;
use crate::commands::atomic;
use crate::commands::attempts::{Backoff, PAUSED, StepStart};
use crate::commands::cold;
use crate::commands::context::Context;
use crate::commands::definition::Command;
use crate::commands::invoke;
use crate::commands::job::{Job, Progress};
use crate::commands::keyspace_events;
use crate::commands::table::Call;
use crate::protocol::request::Request;

/// A job on its way.
#[derive(Debug)]
pub(crate) struct Running {
    job: Box<dyn Job>,
    command: &'static Command,
    request: Request,
    name_words: u32,
    /// See [`cold::may_leave`].
    leaves_cold: bool,
    spent: Duration,
    backoff: Backoff,
    /// Its next step is not to be made before.
    rests_until: Option<Instant>,
}

impl Running {
    /// A job that a command has left, after so much time.
    pub(super) fn new(job: Box<dyn Job>, call: Call, request: Request, spent: Duration) -> Self {
        Self::resting(job, call, request, spent, Backoff::default(), None)
    }

    /// The same for one that goes on at a time, perhaps after some tries.
    pub(super) fn resting(
        job: Box<dyn Job>,
        call: Call,
        request: Request,
        spent: Duration,
        backoff: Backoff,
        rests_until: Option<Instant>,
    ) -> Self {
        Self {
            job,
            command: call.command,
            request,
            name_words: call.name_words as u32,
            leaves_cold: false,
            spent,
            backoff,
            rests_until,
        }
    }

    /// It may be executed again for values in files, or not.
    pub(super) fn leaving_cold(self, leaves_cold: bool) -> Self {
        Self {
            leaves_cold,
            ..self
        }
    }

    /// Of how many of its keys does it need no value any more?
    pub(super) fn keys_done(&self) -> usize {
        self.job.keys_done()
    }

    pub(crate) fn memory(&self) -> usize {
        self.request.memory() + self.job.memory()
    }

    /// When its next step is due, if that is not now.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rests_until.filter(|&until| Instant::now() < until)
    }

    /// Does it wait for keys?
    pub(crate) fn is_blocked(&self) -> bool {
        self.job.is_blocked()
    }

    /// Has it something to do, now or at a time? Not if it waits for keys without end.
    pub(crate) fn is_busy(&self) -> bool {
        !self.is_blocked()
            || self
                .rests_until
                .is_some_and(|until| until <= Instant::now())
    }

    /// Its next step is due.
    pub(crate) fn wake(&mut self) {
        self.rests_until = None;
    }

    /// The request, if CLIENT PAUSE has come before it could be executed: it waits for the
    /// end of that as any other.
    pub(crate) fn held_by_pause(self, context: &mut Context<'_>) -> Result<Request, Self> {
        if !self.job.has_begun() && request::is_paused(context, &self.request) {
            return Ok(self.request);
        }
        Err(self)
    }

    /// One step, if it is due; what is left then. `leaves_cold`: it need not wait for values in files, unless it is one that
    /// always does.
    pub(crate) fn go_on(self, context: &mut Context<'_>, leaves_cold: bool) -> Option<Self> {
        if self.rests_until().is_some() {
            return Some(self);
        }
        if self.backoff.is_waiting(context.engine) {
            let rests_until = Some(Instant::now() + PAUSED);
            return Some(Self {
                rests_until,
                ..self
            });
        }
        let left = self.step(context, leaves_cold);
        let rests_until = context.rests_until.take();
        left.map(|running| Self {
            rests_until,
            ..running
        })
    }

    fn step(mut self, context: &mut Context<'_>, leaves_cold: bool) -> Option<Self> {
        let (start, begun, step) = (context.replies.len(), Instant::now(), StepStart::now());
        let arguments = &self.request.words[self.name_words as usize..];
        keyspace_events::publish_expired(context);
        cold::begin_step(context, self.leaves_cold && leaves_cold);
        let progress = self.job.step(context, arguments);
        cold::end_step(
            context,
            self.command,
            &self.request.words,
            self.job.keys_done(),
        );
        keyspace_events::note_step(context, self.command, arguments, &progress, &*self.job);
        self.spent += begun.elapsed();
        self.backoff.note_step(step);
        let outcome = match progress {
            Ok(Progress::More) => {
                if self.job.keeps_steps() {
                    self.backoff = Backoff::default();
                }
                debug_assert_eq!(context.replies.len(), start, "a part of a reply");
                return Some(self);
            }
            Ok(Progress::Done) => Ok(()),
            Err(ref failure) if request::may_help(context, failure, &mut self.backoff) => {
                context.replies.truncate(start);
                return Some(self);
            }
            Err(failure) => {
                let failure = request::told(context, failure, &self.backoff);
                let failure = atomic::record_refusal(context.session, failure);
                Err(atomic::give_up(context.session, failure))
            }
        };
        let failed = outcome.is_err() || context.replies.is_error_at(start);
        invoke::count(context, self.command, self.spent, failed);
        invoke::observe(context, self.command, self.spent, &self.request.words);
        request::conclude(context, outcome, start);
        None
    }
}
