//! Runs a command once, and counts it: for the executor, and for EXEC.

use std::time::{Duration, Instant};

use super::atomic;
use super::context::{Context, Outcome};
use super::definition::{Command, Flag};
use super::job::Progress;
use super::keyspace_events;
use super::monitor::{self, Caller};

/// Runs a command once; with the time that it took. One that goes on in steps is executed
/// to its end `at_once`, or left in `context.job`.
pub(crate) fn timed(
    context: &mut Context<'_>,
    command: &Command,
    arguments: &[Vec<u8>],
    at_once: bool,
) -> (Outcome, Duration) {
    context.connection.tells_of_all |= command.tells_of_all();
    let start = Instant::now();
    let mut outcome = (command.run)(context, arguments);
    if outcome.is_err() {
        context.job = None;
    } else if at_once {
        outcome = all_steps(context, arguments);
    }
    keyspace_events::note(context, command, arguments, &outcome);
    let outcome = outcome.map_err(|failure| atomic::record_refusal(context.session, failure));
    (outcome, start.elapsed())
}

/// What a command has left to be done, while no other client is served.
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

/// Counts a command that has come to its end.
pub(crate) fn count(context: &Context<'_>, command: &Command, time: Duration, failed: bool) {
    if let Some(statistics) = context.instance.statistics.command(command.name) {
        statistics.executed(time, failed);
    }
}

/// Shows a request that was executed to clients that have said MONITOR, and takes note for SLOWLOG and
/// LATENCY if it was slow.
pub(crate) fn observe(
    context: &mut Context<'_>,
    command: &Command,
    time: Duration,
    words: &[Vec<u8>],
) {
    monitor::show_after(context, command, words, Caller::Client);
    if command.has(Flag::SkipSlowlog) || command.secret {
        return;
    }
    let connection = &*context.connection;
    let peer = || connection.peer.to_string();
    context
        .instance
        .observe(time, words, peer, &connection.name);
}
