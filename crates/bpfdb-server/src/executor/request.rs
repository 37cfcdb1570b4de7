//! One request: may it run, must it wait for EXEC, is it tried again.

use std::time::Duration;

use bpfdb::Status;

use super::running::Running;
use crate::commands::Queue;
use crate::commands::atomic;
use crate::commands::attempts::{self, Backoff, StepStart};
use crate::commands::cold;
use crate::commands::conflict;
use crate::commands::context::{Context, Failure, Outcome};
use crate::commands::definition::{Command, Flag, Path};
use crate::commands::invoke::{count, observe, timed};
use crate::commands::job::RetriedCommand;
use crate::commands::keyspace_events;
use crate::commands::large;
use crate::commands::monitor;
use crate::commands::publish;
use crate::commands::table::{self, Call};
use crate::connection::info::ReplyMode;
use crate::protocol::reply;
use crate::protocol::request::Request;

/// Executes a request and adds its reply; or returns what is left to be done.
pub(crate) fn execute(context: &mut Context<'_>, request: Request) -> Option<Running> {
    if is_http(&request) {
        close_http(context);
        return None;
    }
    let start = context.replies.len();
    let outcome = match admit(context, &request) {
        Ok(call) if must_wait(context, call.command) => queue(context, call, request),
        Ok(call) => {
            let leaves_cold = cold::may_leave(context, call.command);
            let (outcome, spent, backoff) = run(context, call, &request.words, leaves_cold);
            let rests_until = context.rests_until.take();
            if let Some(job) = context.job.take()
                && outcome.is_ok()
            {
                let short = job.is_short();
                let running = Running::resting(job, call, request, spent, backoff, rests_until)
                    .leaving_cold(leaves_cold);
                return if short && !context.session.has_left_cold() {
                    running.go_on(context, leaves_cold)
                } else {
                    Some(running)
                };
            }
            outcome
        }
        Err(failure) => Err(refused(context, &request, failure)),
    };
    conclude(context, outcome, start);
    None
}

/// Part of a request of HTTP that is no command? A page in a browser can have it
/// send such requests here, with commands in its body; as in Redis, the connection is
/// closed before they are looked at.
fn is_http(request: &Request) -> bool {
    let word = &request.words[0];
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

fn close_http(context: &mut Context<'_>) {
    context.connection.close = true;
    if context.instance.http_limiter.is_due() {
        let peer = context.connection.peer.to_string();
        tracing::warn!(
            peer,
            "closing a connection that speaks HTTP: an attack by way of a browser?"
        );
    }
}

/// The reply to what has come to an end.
pub(super) fn conclude(context: &mut Context<'_>, outcome: Outcome, start: usize) {
    if let Err(failure) = outcome {
        context.replies.truncate(start);
        let text = error_text(context, failure);
        context.instance.count_error(&text);
        context.replies.error(text);
    }
    hold_back(context, start);
    publish::conclude(context, start);
}

/// Must this request wait for the end of CLIENT PAUSE? What is refused is refused at
/// once, and a client must be able to end the pause.
pub(crate) fn is_paused(context: &mut Context<'_>, request: &Request) -> bool {
    if !context.instance.pause.is_on() {
        return false;
    }
    let Ok(call) = admit(context, request) else {
        return false;
    };
    let (command, arguments) = (call.command, &request.words[call.name_words..]);
    !command.never_paused
        && (context.instance.pause.stops_all()
            || (!must_wait(context, command)
                && (command.announces || command.writes(context, arguments))))
}

/// CLIENT REPLY: OFF and SKIP have no reply themselves, ON has. What is said about subscriptions is none.
fn hold_back(context: &mut Context<'_>, start: usize) {
    let mode = &mut context.connection.replies;
    let silent = *mode != ReplyMode::On;
    *mode = match *mode {
        ReplyMode::Skip => ReplyMode::SkipNext,
        ReplyMode::SkipNext => ReplyMode::On,
        other => other,
    };
    if let Some(chosen) = context.connection.replies_from_next.take() {
        context.connection.replies = chosen;
    }
    let is_pushed = std::mem::take(&mut context.connection.is_pushed);
    if silent && !is_pushed {
        context.replies.truncate(start);
    }
}

/// The reply to a failure.
pub(super) fn error_text(context: &Context<'_>, failure: Failure) -> Vec<u8> {
    match failure {
        Failure::Text(text) => text,
        Failure::Engine(Status::Conflict) => conflict::text(context),
        Failure::Engine(status) if status.is_refused_by_log() => log_text(context, status),
        // There was nothing to evict.
        Failure::Engine(status) if context.instance.lacks_memory(status) => {
            reply::error_text(Status::OutOfMemory, false)
        }
        // An Error fails the client's transaction, if there is one.
        Failure::Engine(status) => reply::error_text(status, atomic::has_failed(context.session)),
        Failure::TooLong => reply::error_text(Status::ValueTooLarge, false),
        // Never: there is always another way to read it.
        Failure::NotFetched => reply::error_text(Status::Exhausted, false),
    }
}

/// The reply if the log has no room, or takes nothing more: then it says why.
fn log_text(context: &Context<'_>, status: Status) -> Vec<u8> {
    let refusal = context.refusal(status);
    refusal.unwrap_or_else(|| reply::error_text(status, atomic::has_failed(context.session)))
}

/// Finds the command of a request that may be executed.
fn admit(context: &Context<'_>, request: &Request) -> Result<Call, Failure> {
    let call = table::resolve(&request.words)?;
    if !call.command.has(Flag::NoAuth) && !context.instance.admits(context.connection) {
        return Err("NOAUTH Authentication required.".into());
    }
    if context.is_queuing() && call.command.has(Flag::NoMulti) {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    if needs_room(context, call.command) && context.instance.refuses_writes() {
        return Err(Failure::Text(reply::error_text(Status::OutOfMemory, false)));
    }
    if publish::is_for_messages(context) && !call.command.for_subscribers {
        let name = call.command.name;
        return Err(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context"
        )
        .into());
    }
    if context.connection.is_monitor && uses_data(call.command) {
        return Err("ERR Replica can't interact with the keyspace".into());
    }
    if request.cut {
        return Err(Failure::TooLong);
    }
    Ok(call)
}

fn uses_data(command: &Command) -> bool {
    command.has(Flag::Readonly) || command.may_write() || command.announces
}

/// Is it refused while memory is short? EXEC is, for what is queued.
fn needs_room(context: &Context<'_>, command: &Command) -> bool {
    let queue = context.multi.queue.as_ref();
    let queued = queue.filter(|_| command.executes_queue);
    command.has(Flag::DenyOom) || queued.is_some_and(Queue::needs_room)
}

/// Executes a command that is not queued, and takes note if it was slow; with the
/// time that it took, and its tries.
fn run(
    context: &mut Context<'_>,
    call: Call,
    words: &[Vec<u8>],
    leaves_cold: bool,
) -> (Outcome, Duration, Backoff) {
    context.connection.command = call.command.name;
    context
        .connection
        .note_subcommand(&words[1..call.name_words]);
    note_path(context, call.command);
    monitor::show_before(context, call.command, words);
    keyspace_events::publish_expired(context);
    let mut backoff = Backoff::default();
    let arguments = &words[call.name_words..];
    cold::begin_step(context, leaves_cold);
    let (outcome, time) = attempt(context, call.command, arguments, &mut backoff);
    cold::end_step(context, call.command, words, 0);
    if context.job.is_none() {
        observe(context, call.command, time, words);
    }
    (outcome, time, backoff)
}

/// Takes note which side answers requests with this command, as a rule.
pub(super) fn note_path(context: &mut Context<'_>, command: &Command) {
    context.set_needs_daemon(command.path() == Path::Daemon);
    ask_for_programs(context, command);
}

/// Would the kernel answer requests with this command on this connection, were its program loaded? Then
/// that is loaded now, and that of large collections if there are any.
fn ask_for_programs(context: &Context<'_>, command: &Command) {
    let instance = &*context.instance;
    let needs_large = large::is_used() && !instance.large_loader.is_asked();
    if (needs_large || !instance.loader.is_asked())
        && command.is_apart()
        && context.connection.may_be_handed_back()
        && !instance.keeps_connections()
    {
        instance.loader.ask();
        if needs_large {
            instance.large_loader.ask();
        }
    }
}

/// A request that is not executed. EXEC will not run a queue in which something is missing.
fn refused(context: &mut Context<'_>, request: &Request, failure: Failure) -> Failure {
    let call = table::find(&request.words).ok();
    if let Some(call) = call
        && let Some(statistics) = context.instance.statistics.command(call.command.name)
    {
        statistics.rejected.increment();
    }
    context.multi.poison();
    let failure = atomic::record_refusal(context.session, failure);
    match call.and_then(|call| call.command.on_refusal) {
        Some(on_refusal) => on_refusal(context, failure),
        None => failure,
    }
}

fn must_wait(context: &Context<'_>, command: &Command) -> bool {
    context.is_queuing() && command.queued
}

fn queue(context: &mut Context<'_>, call: Call, request: Request) -> Outcome {
    ask_for_programs(context, call.command);
    if let Some(queue) = &mut context.multi.queue {
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
    backoff: &mut Backoff,
) -> (Outcome, Duration) {
    let (start, step) = (context.replies.len(), StepStart::now());
    let (outcome, time) = timed(context, command, words, false);
    backoff.note_step(step);
    if let Err(failure) = &outcome
        && may_help(context, failure, backoff)
    {
        context.replies.truncate(start);
        context.go_on_with(match cold::waits(context, failure) {
            true => RetriedCommand::after_reads(command.run),
            false => RetriedCommand::new(command.run),
        });
        return (Ok(()), time);
    }
    let outcome = outcome
        .map_err(|failure| atomic::give_up(context.session, told(context, failure, backoff)));
    if context.job.is_none() {
        let failed = outcome.is_err() || context.replies.is_error_at(start);
        count(context, command, time, failed);
    }
    (outcome, time)
}

/// What the client is told of a failure after the last try.
pub(super) fn told(context: &Context<'_>, failure: Failure, backoff: &Backoff) -> Failure {
    match failure {
        Failure::Engine(status) => Failure::Engine(backoff.told(context, status)),
        other => other,
    }
}

/// Another try, at the time that the context says then?
pub(super) fn may_help(
    context: &mut Context<'_>,
    failure: &Failure,
    backoff: &mut Backoff,
) -> bool {
    if cold::waits(context, failure) {
        return true;
    }
    if waits_for_block(context, failure) {
        context.rest(attempts::PAUSED);
        return true;
    }
    match failure {
        // Soon there is room again, or not for long.
        Failure::Engine(status) if context.refusal(*status).is_some() => false,
        Failure::Engine(status) if !atomic::has_failed(context.session) => {
            backoff.wait(context, *status)
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
