//! One request: may it run, must it wait for EXEC, is it tried again.

use std::time::{Duration, Instant};

use bpfdb::{Status, abi};

use super::definition::{Command, Flag, Path};
use super::job::{Again, Progress, Running};
use super::table::{self, Call};
use super::{Context, Failure, Outcome, atomic};
use crate::reply;
use crate::request::Request;
use crate::state::ReplyMode;

/// Executes a request and adds its reply; or returns what is left to be done.
pub(crate) fn execute(context: &mut Context<'_>, request: Request) -> Option<Running> {
    if is_http(&request) {
        close_http(context);
        return None;
    }
    let start = context.replies.len();
    let mode = context.connection.replies;
    let outcome = match admit(context, &request) {
        Ok(call) if must_wait(context, call.command) => queue(context, call, request),
        Ok(call) => {
            let (outcome, spent, patience) = run(context, call, &request.words);
            let rests_until = context.rests_until.take();
            if let Some(job) = context.job.take()
                && outcome.is_ok()
            {
                let short = job.is_short();
                let running = Running::resting(job, call, request, spent, patience, rests_until);
                return if short {
                    running.go_on(context)
                } else {
                    Some(running)
                };
            }
            outcome
        }
        Err(failure) => Err(refused(context, &request, failure)),
    };
    conclude(context, outcome, mode, start);
    None
}

/// Part of a request of HTTP that is no command? A page in somebody's browser can have it
/// send such requests here, with commands in its body; as in Redis, the connection is
/// closed before they are looked at.
fn is_http(request: &Request) -> bool {
    let word = &request.words[0];
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

fn close_http(context: &mut Context<'_>) {
    context.connection.close = true;
    if context.instance.tell_http.is_due() {
        let peer = context.connection.peer.to_string();
        tracing::warn!(
            peer,
            "closing a connection that speaks HTTP: an attack by way of a browser?"
        );
    }
}

/// The reply to what has come to an end.
pub(super) fn conclude(context: &mut Context<'_>, outcome: Outcome, mode: ReplyMode, start: usize) {
    if let Err(failure) = outcome {
        context.replies.truncate(start);
        let text = error_text(context, failure);
        context.instance.count_error(&text);
        context.replies.error(text);
    }
    hold_back(context, mode, start);
}

/// The same for a part of the reply.
pub(super) fn silence(context: &mut Context<'_>, start: usize) {
    if context.connection.replies != ReplyMode::On {
        context.replies.truncate(start);
    }
}

/// Must this request wait for the end of CLIENT PAUSE? What is refused is refused at
/// once, and somebody must be able to end the pause.
pub(crate) fn is_paused(context: &Context<'_>, request: &Request) -> bool {
    if !context.instance.pause.is_on() {
        return false;
    }
    let Ok(call) = admit(context, request) else {
        return false;
    };
    let command = call.command;
    command.name != "client|unpause"
        && (context.instance.pause.stops_all()
            || (writes(context, command) && !must_wait(context, command)))
}

/// Do others see a change when it has been executed?
fn writes(context: &Context<'_>, command: &Command) -> bool {
    match command.name {
        "exec" => (context.connection.queue.as_ref()).is_some_and(|queue| !queue.only_reads()),
        "commit" => context.session.state() == abi::BPFDB_TXN_WRITE,
        _ => command.has(Flag::Write),
    }
}

/// CLIENT REPLY: OFF and SKIP have no reply themselves, ON has.
fn hold_back(context: &mut Context<'_>, before: ReplyMode, start: usize) {
    let mode = &mut context.connection.replies;
    let silent = match (before, *mode) {
        (_, ReplyMode::Off) => true,
        (ReplyMode::SkipNext, ReplyMode::SkipNext) => {
            *mode = ReplyMode::On;
            true
        }
        (_, ReplyMode::SkipNext) => true,
        (_, ReplyMode::On) => false,
    };
    if silent {
        context.replies.truncate(start);
    }
}

/// The reply to a failure.
pub(super) fn error_text(context: &Context<'_>, failure: Failure) -> Vec<u8> {
    match failure {
        Failure::Text(text) => text,
        // An Error fails the client's transaction, if there is one.
        Failure::Engine(status) => reply::error_text(status, atomic::has_failed(context.session)),
        Failure::TooLong => reply::error_text(Status::ValueTooLarge, false),
    }
}

/// Finds the command of a request that may be executed.
fn admit(context: &Context<'_>, request: &Request) -> Result<Call, Failure> {
    let call = table::resolve(&request.words)?;
    if !call.command.has(Flag::NoAuth) && !context.instance.admits(context.connection) {
        return Err("NOAUTH Authentication required.".into());
    }
    if context.connection.queue.is_some() && call.command.has(Flag::NoMulti) {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    if call.command.has(Flag::DenyOom) && context.instance.refuses_writes() {
        return Err(Failure::Text(reply::error_text(Status::OutOfMemory, false)));
    }
    if request.cut {
        return Err(Failure::TooLong);
    }
    Ok(call)
}

/// Executes a command that is not queued, and takes note if it was slow; with the
/// time that it took, and its tries.
fn run(context: &mut Context<'_>, call: Call, words: &[Vec<u8>]) -> (Outcome, Duration, Patience) {
    context.connection.command = call.command.name;
    context.connection.slow = call.command.path == Path::UserSpace;
    let mut patience = Patience::default();
    let arguments = &words[call.name_words..];
    let (outcome, time) = attempt(context, call.command, arguments, &mut patience);
    if context.job.is_none() {
        observe(context, call.command, time, words);
    }
    (outcome, time, patience)
}

/// Takes note if a command was slow.
pub(super) fn observe(
    context: &mut Context<'_>,
    command: &Command,
    time: Duration,
    words: &[Vec<u8>],
) {
    if command.has(Flag::SkipSlowlog) || command.secret {
        return;
    }
    let connection = &*context.connection;
    let peer = || connection.peer.to_string();
    context
        .instance
        .observe(time, words, peer, &connection.name);
}

/// Runs a command once; with the time that it took. One that goes on in steps is executed
/// to its end `at_once`, or left in `context.job`.
pub(super) fn timed(
    context: &mut Context<'_>,
    command: &Command,
    arguments: &[Vec<u8>],
    at_once: bool,
) -> (Outcome, Duration) {
    let start = Instant::now();
    let mut outcome = (command.run)(context, arguments);
    if outcome.is_err() {
        context.job = None;
    } else if at_once {
        outcome = all_steps(context, arguments);
    }
    let outcome = outcome.map_err(|failure| atomic::settled(context.session, failure));
    (outcome, start.elapsed())
}

/// What a command has left to be done, while nobody else is served.
fn all_steps(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    context.at_once = true;
    let mut outcome = Ok(());
    while let Some(mut job) = context.job.take() {
        match job.step(context, arguments) {
            Ok(Progress::More) => context.job = Some(job),
            Ok(Progress::Done) => {}
            Err(failure) => outcome = Err(failure),
        }
    }
    context.at_once = false;
    outcome
}

pub(super) fn count(context: &Context<'_>, command: &Command, time: Duration, failed: bool) {
    if let Some(statistics) = context.instance.statistics.command(command.name) {
        statistics.executed(time, failed);
    }
}

/// EXEC will not run a queue in which something is missing; and when EXEC itself
/// is refused, the queue is gone.
fn refused(context: &mut Context<'_>, request: &Request, failure: Failure) -> Failure {
    if let Ok(call) = table::find(&request.words)
        && let Some(statistics) = context.instance.statistics.command(call.command.name)
    {
        statistics.rejected.increment();
    }
    if let Some(queue) = &mut context.connection.queue {
        queue.spoil();
    }
    match atomic::settled(context.session, failure) {
        Failure::Text(text) if request.words[0].eq_ignore_ascii_case(b"exec") => {
            context.connection.queue = None;
            context.connection.watched.clear();
            let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
            Failure::Text([b"EXECABORT Transaction discarded because of: ", text].concat())
        }
        failure => failure,
    }
}

fn must_wait(context: &Context<'_>, command: &Command) -> bool {
    context.connection.queue.is_some() && command.queued
}

fn queue(context: &mut Context<'_>, call: Call, request: Request) -> Outcome {
    if let Some(queue) = &mut context.connection.queue {
        queue.add(call.command, request.words, call.name_words)?;
    }
    context.replies.simple("QUEUED");
    Ok(())
}

/// Runs a command, and leaves it to be run again if that may help: a failed statement has
/// done nothing, unless it has failed a transaction. With the time that it took.
fn attempt(
    context: &mut Context<'_>,
    command: &Command,
    words: &[Vec<u8>],
    patience: &mut Patience,
) -> (Outcome, Duration) {
    let start = context.replies.len();
    let (outcome, time) = timed(context, command, words, false);
    if let Err(failure) = &outcome
        && may_help(context, failure, patience)
    {
        context.replies.truncate(start);
        context.later(Again::new(command.run));
        return (Ok(()), time);
    }
    if context.job.is_none() {
        count(context, command, time, outcome.is_err());
    }
    (outcome, time)
}

/// Another try, at the time that the context says then?
pub(super) fn may_help(
    context: &mut Context<'_>,
    failure: &Failure,
    patience: &mut Patience,
) -> bool {
    if waits_for_block(context, failure) {
        return true;
    }
    match failure {
        Failure::Engine(status) if !atomic::has_failed(context.session) => {
            patience.wait(context, *status)
        }
        _ => false,
    }
}

/// Has a command met the locks of a MULTI … EXEC that goes on in steps? Another try makes
/// no sense before the end of that.
fn waits_for_block(context: &Context<'_>, failure: &Failure) -> bool {
    matches!(failure, Failure::Engine(Status::Conflict))
        && context.instance.has_long_block()
        && !atomic::is_open(context.session)
}

/// How often something is tried again.
#[derive(Debug, Default)]
pub(super) struct Patience {
    tries: u32,
}

impl Patience {
    /// Has the command rest a moment after an Error, while others are served; false if
    /// another try would not help.
    pub(super) fn wait(&mut self, context: &mut Context<'_>, status: Status) -> bool {
        // Memory is being added; or another processor holds a lock, or reads a
        // snapshot, for a moment (if a client does, it may do so for long).
        let (most, pause) = match status {
            Status::MemoryPending => (500, Duration::from_millis(1)),
            Status::Conflict | Status::VersionsFull => (5, Duration::from_micros(200)),
            _ => return false,
        };
        self.tries += 1;
        if self.tries > most {
            return false;
        }
        if status == Status::MemoryPending {
            context.engine.ask_for_memory();
        }
        context.rest(pause);
        true
    }
}
