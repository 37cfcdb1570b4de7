//! EXEC: all queued commands in one transaction of the engine, in slices.

use std::mem;
use std::time::{Duration, Instant};

use bpfdb::Status;

use super::super::attempts::StepStart;
use super::super::cold;
use super::super::conflict;
use super::super::invoke::{count, timed};
use super::super::keyspace_events;
use super::super::monitor::{self, Caller};
use super::super::prelude::*;
use super::super::time_slice::TimeSlice;
use super::attempts::Attempts;
use super::flush::Flushes;
use super::multi_state::MultiState;
use super::queue::Queue;
use super::watched::{Comparison, WatchedKeys};
use crate::connection::info::{ConnectionInfo, ReplyMode};
use crate::protocol::reply::{self, ConflictAction, Protocol, Replies};
use crate::settings::limits::MESSAGE_MAX;

pub(crate) static COMMAND: Command = Command {
    name: "exec",
    summary: "Executes the commands queued since MULTI, as one transaction",
    since: "1.2.0",
    group: Group::Transactions,
    complexity: "That of the commands",
    arity: 1,
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::SkipSlowlog,
    ],
    categories: &[Category::Transaction],
    differences: "All commands are one serializable transaction. A command that fails for a reason of Redis (a wrong type, not an integer) leaves the others alone, as in Redis; if one fails for a reason of the engine (a conflict that persists, no memory, too many locks, a key or value beyond the limits), everything is rolled back and EXEC replies with an error. Nothing else than FLUSHALL and FLUSHDB, with no key watched, is executed as without MULTI. A transaction that only reads sees one snapshot. While a long one is executed others are served: what they do in the daemon waits for its keys, what they do in the kernel meets a conflict.",
    queued: false,
    writes_now: Some(|context, _| {
        let queue = context.multi.queue.as_ref();
        queue.is_some_and(|queue| !queue.only_reads())
    }),
    executes_queue: true,
    on_refusal: Some(discard),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let Some(queue) = context.multi.queue.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let watched = mem::take(&mut context.multi.watched);
    let suits = watched.is_empty() && queue.suits_kernel(context.connection.receipts);
    let needs_daemon = !suits || context.connection.is_refused_often();
    context.set_needs_daemon(needs_daemon);
    if queue.is_poisoned() {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    let queue = match flushes_only(queue, &watched, context.replies.protocol()) {
        Ok(flushes) => {
            context.go_on_with(flushes);
            return Ok(());
        }
        Err(queue) => queue,
    };
    let mut block = Block::new(queue, watched, context);
    if block.step(context, &[])? == Progress::More {
        context.go_on_with(block);
    }
    Ok(())
}

/// EXEC itself was refused: the queue is gone.
fn discard(context: &mut Context<'_>, failure: Failure) -> Failure {
    *context.multi = MultiState::default();
    match failure {
        Failure::Text(text) => discarded(&text),
        failure => failure,
    }
}

/// Redis's reply to an EXEC that has executed nothing, because of what this error says.
fn discarded(text: &[u8]) -> Failure {
    let text = text.strip_prefix(b"ERR ").unwrap_or(text);
    Failure::Text([b"EXECABORT Transaction discarded because of: ", text].concat())
}

/// The commands of a block that is none of a transaction: see [`Flushes`].
fn flushes_only(queue: Queue, watched: &WatchedKeys, protocol: Protocol) -> Result<Flushes, Queue> {
    if !watched.is_empty() {
        return Err(queue);
    }
    Flushes::of(queue, Replies::new(protocol))
}

/// A MULTI … EXEC on its way.
///
/// ```text
///          step                    step                   step
///   begin, commands, suspend │ commands, suspend │ … │ commands, commit │ clear
///                            └── others are served ──┘
/// ```
///
/// Between steps the transaction stays open and holds its locks. If the connection
/// ends then, its session does, which rolls back.
#[derive(Debug)]
struct Block {
    queue: Queue,
    watched: WatchedKeys,
    /// The database in which the client was before, and is again for another attempt.
    database: usize,
    phase: Phase,
    replies: Replies,
    /// What the next command has left to be done, and the time that it has taken: a script may
    /// take long.
    job: Option<Box<dyn Job>>,
    spent: Duration,
    /// The time of the attempt so far.
    total: Duration,
    attempts: Attempts,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No attempt has begun.
    Begin,
    /// This key that is watched is the next one to be compared.
    Watched(usize),
    /// This command is the next one.
    Commands(usize),
    /// It is over, and the memory of the commands is not given back yet.
    Clear,
}

impl Job for Block {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        if matches!(self.phase, Phase::Clear) {
            return Ok(self.clear(context));
        }
        if matches!(self.phase, Phase::Begin) && self.attempts.wait(context, !self.only_reads()) {
            return Ok(Progress::More);
        }
        let (begun, start) = (Instant::now(), StepStart::now());
        let advanced = self.advance(context);
        self.total += begun.elapsed();
        self.attempts.note_step(start);
        advanced.or_else(|failure| self.begin_anew(context, failure))
    }

    fn memory(&self) -> usize {
        let job = self.job.as_ref().map_or(0, |job| job.memory());
        self.queue.memory() + self.watched.memory() + self.replies.len() + job
    }
}

impl Block {
    fn new(queue: Queue, watched: WatchedKeys, context: &Context<'_>) -> Self {
        let protocol = context.replies.protocol();
        Self {
            queue,
            watched,
            database: context.connection.database,
            phase: Phase::Begin,
            replies: Replies::new(protocol),
            job: None,
            spent: Duration::ZERO,
            total: Duration::ZERO,
            attempts: Attempts::default(),
        }
    }

    /// Executes commands for as long as a step may take; at the end of them, or where an
    /// Error is, leaves nothing open.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        if matches!(self.phase, Phase::Begin) {
            self.begin(context)?;
            self.phase = Phase::Watched(0);
        } else {
            // A command may compute for long, without an operation.
            context.session.touch();
            context.session.resume();
        }
        match self.go_on(context) {
            Ok(Some(progress)) => Ok(progress),
            Ok(None) => self.commit(context),
            Err(failure) => {
                context.session.rollback()?;
                Err(failure)
            }
        }
    }

    fn begin(&mut self, context: &mut Context<'_>) -> Outcome {
        if self.only_reads() {
            context.session.begin_read_only_deferred()?;
        } else {
            context.session.begin_deferred()?;
        }
        Ok(())
    }

    fn only_reads(&self) -> bool {
        self.queue.only_reads()
    }

    /// `None`: all commands are executed.
    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Option<Progress>, Failure> {
        if let Phase::Watched(next) = self.phase {
            let swaps = context.instance.databases.swaps();
            let locks = !self.only_reads();
            match self.watched.compare(context.session, next, locks, swaps)? {
                Comparison::Changed => return self.give_up(context).map(Some),
                Comparison::Until(next) => {
                    self.phase = Phase::Watched(next);
                    return self.pause(context).map(Some);
                }
                Comparison::Same => {}
            }
            self.replies.array(self.queue.commands.len());
            self.phase = Phase::Commands(0);
        }
        let slice = TimeSlice::begin();
        while let Phase::Commands(next) = self.phase
            && next < self.queue.commands.len()
        {
            if slice.is_over() {
                return self.pause(context).map(Some);
            }
            if self.execute(context, next)? == Progress::Done {
                self.phase = Phase::Commands(next + 1);
            } else if context.rests_until.is_some() || self.waits() {
                return self.pause(context).map(Some);
            }
        }
        Ok(None)
    }

    /// A key that is watched was written: nothing is executed.
    fn give_up(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        context.session.rollback()?;
        // That a key was written.
        context.connection.tells_of_all = true;
        self.replies.null_array();
        Ok(self.clear(context))
    }

    /// Does the command wait for somebody else's end?
    fn waits(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.waits())
    }

    /// Others have their turn.
    fn pause(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        self.attempts.pause(context, !self.only_reads())?;
        Ok(Progress::More)
    }

    /// A command, or as much of it as may be executed at a time.
    fn execute(&mut self, context: &mut Context<'_>, next: usize) -> Result<Progress, Failure> {
        let queued = &self.queue.commands[next];
        let at = self.replies.len();
        let mode = context.connection.replies;
        context.connection.note_subcommand(queued.subcommand());
        if self.job.is_none() {
            monitor::show_before(context, queued.command, queued.words());
        }
        let mut inner = context.with_replies(&mut self.replies);
        inner.is_of_block = true;
        let (outcome, time) = match self.job.take() {
            Some(job) => step_of(&mut inner, queued.command, job, queued.arguments()),
            None => {
                // Those whose steps are within the transaction that is open.
                let at_once = !matches!(
                    queued.command.group,
                    Group::Scripting | Group::String | Group::Generic
                );
                timed(&mut inner, queued.command, queued.arguments(), at_once)
            }
        };
        self.job = inner.job.take();
        let rests_until = inner.rests_until.take();
        defer_reply_mode(context.connection, mode);
        // It is a part of the reply to EXEC.
        context.connection.is_pushed = false;
        context.rests_until = rests_until.filter(|_| self.job.is_some());
        self.spent += time;
        if self.job.is_some() {
            return Ok(Progress::More);
        }
        let spent = mem::take(&mut self.spent);
        if let Err(failure) = &outcome
            && cold::waits(context, failure)
        {
            return Err(failure.clone());
        }
        count(context, queued.command, spent, outcome.is_err());
        monitor::show_after(context, queued.command, queued.words(), Caller::Client);
        match outcome {
            Ok(()) => {}
            Err(Failure::Text(text)) => {
                self.replies.truncate(at);
                context.instance.count_error(&text);
                self.replies.error(text);
            }
            Err(failure) => return Err(failure),
        }
        if self.replies.len() > MESSAGE_MAX {
            return Err(
                "EXECABORT Transaction rolled back: its reply is longer than 640 MiB".into(),
            );
        }
        Ok(Progress::Done)
    }

    fn commit(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        context.session.commit()?;
        keyspace_events::apply_staged(context);
        hold_if_it_became_sync(context);
        self.attempts.end();
        Ok(self.clear(context))
    }

    /// Gives the memory of some commands and keys back, since that of many takes long; then the reply.
    fn clear(&mut self, context: &mut Context<'_>) -> Progress {
        const SOME: usize = 4096;
        self.phase = Phase::Clear;
        let commands = self.queue.commands.len().saturating_sub(SOME);
        self.queue.commands.truncate(commands);
        let keys = self.watched.len().saturating_sub(SOME);
        self.watched.truncate(keys);
        if commands > 0 || keys > 0 {
            return Progress::More;
        }
        context.replies.absorb(&mut self.replies);
        // HELLO may be one of the commands.
        context.replies.speak(self.replies.protocol());
        Progress::Done
    }

    /// After an Error: attempts again, from the beginning, if that may help.
    fn begin_anew(
        &mut self,
        context: &mut Context<'_>,
        failure: Failure,
    ) -> Result<Progress, Failure> {
        self.phase = Phase::Begin;
        self.job = None;
        context.select(self.database);
        context.connection.mail.take_staged();
        self.spent = Duration::ZERO;
        let total = mem::take(&mut self.total);
        self.replies = Replies::new(context.replies.protocol());
        if cold::waits(context, &failure) {
            let queued = self.queue.commands.iter();
            let keys = queued.flat_map(|queued| cold::keys_read(queued.command, queued.words()));
            cold::begin_reads(context, keys);
        }
        match failure {
            Failure::Engine(status) if self.attempts.again(context, status, total) => {
                Ok(Progress::More)
            }
            Failure::Engine(status) => {
                let told = self.attempts.told(context, status);
                Err(rolled_back(context, told))
            }
            Failure::TooLong | Failure::Text(_) | Failure::NotFetched => Err(failure),
        }
    }
}

/// One step of a command that goes on; what it has left is in the context.
fn step_of(
    context: &mut Context<'_>,
    command: &Command,
    mut job: Box<dyn Job>,
    arguments: &[Vec<u8>],
) -> (Outcome, Duration) {
    let begun = Instant::now();
    let progress = job.step(context, arguments);
    keyspace_events::note_step(context, command, arguments, &progress, &*job);
    let outcome = match progress {
        Ok(Progress::More) => {
            context.job = Some(job);
            Ok(())
        }
        Ok(Progress::Done) => Ok(()),
        Err(failure) => Err(failure),
    };
    (outcome, begun.elapsed())
}

/// CLIENT REPLY as one of the commands: EXEC's reply is as it would be without, and the next one is
/// the first that is given or not.
fn defer_reply_mode(connection: &mut ConnectionInfo, before: ReplyMode) {
    let chosen = mem::replace(&mut connection.replies, before);
    if chosen != before {
        connection.replies_from_next = Some(match chosen {
            ReplyMode::Skip => ReplyMode::SkipNext,
            other => other,
        });
    }
}

/// One of the commands may have made the client a synchronous one: what the block has told of
/// was not kept, so it waits for all that is committed.
fn hold_if_it_became_sync(context: &mut Context<'_>) {
    let connection = &mut *context.connection;
    if !connection.was_sync && context.instance.is_sync(connection.durability) {
        connection.was_sync = true;
        connection.tells_of_all = true;
    }
}

fn rolled_back(context: &Context<'_>, status: Status) -> Failure {
    if let Some(refusal) = context.refusal(status) {
        return Failure::Text(refusal);
    }
    match status {
        Status::Conflict => {
            Failure::Text(conflict::text_with(context, ConflictAction::RunBlockAgain))
        }
        status if context.instance.lacks_memory(status) => {
            discarded(&reply::error_text(Status::OutOfMemory, false))
        }
        other => {
            let action = other.action();
            // That is done.
            let action = action.strip_prefix("roll back and ").unwrap_or(action);
            format!(
                "EXECABORT Transaction rolled back: {}; {action}",
                other.text()
            )
            .into()
        }
    }
}
