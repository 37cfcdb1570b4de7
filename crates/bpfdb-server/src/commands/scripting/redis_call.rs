//! `redis.call`: commands that a script executes.

use std::time::{Duration, Instant};

use bpfdb::Status;

use super::super::atomic;
use super::super::cold;
use super::super::invoke::{count, timed};
use super::super::keyspace_events;
use super::super::monitor::{self, Caller};
use super::super::prelude::*;
use super::super::table;
use super::call::{ScriptCall, View};
use crate::protocol::reply::{self as replies, Protocol, Replies};

/// Bytes of the longest reply that a script gets: Lua has no more memory.
const REPLY_MAX: usize = bpfdb_lua::Limits::MEMORY;

/// A command of a script that goes on in steps.
#[derive(Debug)]
pub(super) struct LongCommand {
    job: Box<dyn Job>,
    call: table::Call,
    words: Vec<Vec<u8>>,
    replies: Replies,
    time: Duration,
}

impl LongCommand {
    pub(super) fn waits(&self) -> bool {
        self.job.waits()
    }

    pub(super) fn memory(&self) -> usize {
        let words: usize = self.words.iter().map(Vec::len).sum();
        words + self.replies.len() + self.job.memory()
    }
}

impl ScriptCall {
    /// The reply to a command of the script; `None`: it goes on in steps, in `running.command`. An
    /// Error of the engine ends the attempt.
    pub(super) fn execute(
        &mut self,
        context: &mut Context<'_>,
        words: Vec<Vec<u8>>,
        resp3: bool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let protocol = if resp3 {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        };
        let mut replies = Replies::new(protocol);
        let call = match self.admit(context, &words) {
            Ok(call) => call,
            Err(failure) => {
                count_rejection(context, &words, &failure);
                return refused(replies, failure).map(Some);
            }
        };
        if let Some(view) = self.other_view(call.command) {
            // The attempt is over.
            self.next_view = Some(view);
            return Err(Status::ReadOnly.into());
        }
        let at_once = !self.may_leave(context, call.command);
        let running = self.running.as_mut().expect("an attempt");
        running.has_begun = true;
        running.has_written |= call.command.has(Flag::Write);
        running.has_announced |= call.command.announces;
        let mut inner = context.with_replies(&mut replies);
        inner.is_of_script = true;
        let arguments = &words[call.name_words..];
        let (outcome, time) = timed(&mut inner, call.command, arguments, at_once);
        if let Some(job) = inner.job.take() {
            running.command = Some(LongCommand {
                job,
                call,
                words,
                replies,
                time,
            });
            return Ok(None);
        }
        if let Err(failure) = &outcome
            && cold::waits(context, failure)
        {
            return Err(failure.clone());
        }
        count(context, call.command, time, outcome.is_err());
        monitor::show_after(context, call.command, &words, Caller::Script);
        replied(context, replies, outcome).map(Some)
    }

    /// What the script's transaction has to be for this command; `None`: what it is. A script that only reads
    /// lists keys in a snapshot, where it is in the way of none.
    fn other_view(&self, command: &Command) -> Option<View> {
        let has_written = self
            .running
            .as_ref()
            .is_some_and(|running| running.has_written);
        if !self.own || self.reads {
            return None;
        }
        match self.view {
            View::Locks if command.lists_keys && !has_written => Some(View::ListsKeys),
            View::ListsKeys if command.may_write() => Some(View::LocksKeys),
            _ => None,
        }
    }

    /// May others be served between the steps of this command?
    fn may_leave(&self, context: &Context<'_>, command: &Command) -> bool {
        !context.at_once && matches!(command.group, Group::String | Group::Generic)
    }

    /// A step of a command that goes on in steps: its reply, if it was the last one.
    pub(super) fn step_command(
        &mut self,
        context: &mut Context<'_>,
        mut command: LongCommand,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let begun = Instant::now();
        let mut inner = context.with_replies(&mut command.replies);
        inner.is_of_script = true;
        let arguments = &command.words[command.call.name_words..];
        let outcome = command.job.step(&mut inner, arguments);
        let (called, job) = (command.call.command, &*command.job);
        keyspace_events::note_step(&mut inner, called, arguments, &outcome, job);
        command.time += begun.elapsed();
        let outcome = match outcome {
            Ok(Progress::More) if command.replies.len() <= REPLY_MAX => {
                self.running.as_mut().expect("an attempt").command = Some(command);
                return Ok(None);
            }
            Ok(_) => Ok(()),
            Err(failure) if cold::waits(context, &failure) => return Err(failure),
            Err(failure) => Err(atomic::record_refusal(context.session, failure)),
        };
        count(
            context,
            command.call.command,
            command.time,
            outcome.is_err(),
        );
        let of_script = command.call.command;
        monitor::show_after(context, of_script, &command.words, Caller::Script);
        replied(context, command.replies, outcome).map(Some)
    }

    /// The command of these words, if a script may execute it.
    fn admit(&self, context: &Context<'_>, words: &[Vec<u8>]) -> Result<table::Call, Failure> {
        let Ok(call) = table::find(words) else {
            return Err("ERR Unknown Redis command called from script".into());
        };
        let command = call.command;
        if !command.fits(words.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        if command.has(Flag::NoScript) {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        call.check_keys(words)?;
        if (command.may_write() || command.announces) && self.reads {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if let (true, View::WithoutLocks(refusal)) = (command.may_write(), self.view) {
            return Err(refusal.into());
        }
        let is_short = command.has(Flag::DenyOom) && !self.program.flags().allow_oom;
        if is_short && context.instance.refuses_writes() {
            return Err(Failure::Text(replies::error_text(
                Status::OutOfMemory,
                false,
            )));
        }
        Ok(call)
    }
}

/// What the script is told of a command that was executed.
fn replied(
    context: &mut Context<'_>,
    mut replies: Replies,
    outcome: Outcome,
) -> Result<Vec<u8>, Failure> {
    let fits = || match replies.len() {
        0..=REPLY_MAX => Ok(()),
        _ => Err("ERR the reply is longer than a script may take".into()),
    };
    match outcome.and_then(|()| fits()) {
        Ok(()) => Ok(replies.take()),
        Err(failure) => {
            if let Failure::Text(text) = &failure {
                context.instance.count_error(text);
            }
            replies.truncate(0);
            refused(replies, failure)
        }
    }
}

/// A command that is not executed.
fn count_rejection(context: &mut Context<'_>, words: &[Vec<u8>], failure: &Failure) {
    let call = table::find(words).ok();
    let name = call.map(|call| call.command.name);
    let statistics = name.and_then(|name| context.instance.statistics.command(name));
    if let Some(statistics) = statistics {
        statistics.rejected.increment();
    }
    if let Failure::Text(text) = failure {
        context.instance.count_error(text);
    }
}

/// An error in words is the script's, an Error of the engine ends the attempt.
fn refused(mut replies: Replies, failure: Failure) -> Result<Vec<u8>, Failure> {
    let Failure::Text(text) = failure else {
        return Err(failure);
    };
    replies.error(text);
    Ok(replies.take())
}
