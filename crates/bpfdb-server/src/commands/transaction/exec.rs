//! EXEC: all queued commands in one transaction of the engine.

use std::mem;

use bpfdb::{Session, Status, WatchToken};

use super::super::REPLY_MAX;
use super::super::execute::{Patience, count, timed};
use super::super::prelude::*;
use super::queue::Queue;
use crate::reply;

/// Attempts before it waits between them.
const TRIES: u32 = 16;

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
    path: Path::Kernel,
    differences: "All commands are one serializable transaction. A command that fails for a reason of Redis (a wrong type, not an integer) leaves the others alone, as in Redis; if one fails for a reason of the engine (a conflict that persists, no memory, too many locks, a key or value beyond the limits), everything is rolled back and EXEC replies with an error. KEYS, SCAN, RANDOMKEY and FLUSHALL are such a reason if one of the commands writes; a transaction that only reads sees one snapshot.",
    queued: false,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let Some(queue) = context.connection.queue.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let watched = mem::take(&mut context.connection.watched);
    let suits = watched.is_empty() && queue.suits_kernel(context.connection.receipts);
    context.connection.slow = !suits || context.connection.is_refused_often();
    if queue.is_spoiled() {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    let start = context.replies.len();
    let mut patience = Patience::default();
    let mut tries = 0;
    loop {
        let Err(failure) = attempt(context, &queue, &watched) else {
            return Ok(());
        };
        context.replies.truncate(start);
        tries += 1;
        match failure {
            Failure::Engine(Status::Conflict) if tries < TRIES => {}
            Failure::Engine(status) if patience.wait(status) => {}
            Failure::Engine(status) => return Err(rolled_back(status)),
            Failure::TooLong | Failure::Text(_) => return Err(failure),
        }
    }
}

type Watched = [(Vec<u8>, WatchToken)];

/// Executes all, or leaves nothing behind.
fn attempt(context: &mut Context<'_>, queue: &Queue, watched: &Watched) -> Outcome {
    let only_reads = queue.only_reads();
    if only_reads {
        context.session.begin_read_only_later()?;
    } else {
        context.session.begin_later()?;
    }
    let executed = match are_unchanged(context.session, watched, !only_reads) {
        Ok(true) => execute_all(context, queue),
        Ok(false) => {
            context.session.rollback()?;
            context.replies.null_array();
            return Ok(());
        }
        Err(status) => Err(status.into()),
    };
    match executed {
        Ok(()) => Ok(context.session.commit()?),
        Err(failure) => {
            context.session.rollback()?;
            Err(failure)
        }
    }
}

/// Compares what is watched; if `locks`, locks it first, so that it stays as it is. A
/// snapshot stays as it is without.
fn are_unchanged(session: &mut Session, watched: &Watched, locks: bool) -> Result<bool, Status> {
    for (key, token) in watched {
        if locks {
            // A large value is not read for it.
            session.head(key)?;
        }
        if !token.still_holds(&session.watch(key)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn execute_all(context: &mut Context<'_>, queue: &Queue) -> Outcome {
    let start = context.replies.len();
    context.replies.array(queue.commands.len());
    for queued in &queue.commands {
        let at = context.replies.len();
        let (outcome, time) = timed(context, queued.command, queued.arguments(), true);
        count(context, queued.command, time, outcome.is_err());
        match outcome {
            Ok(()) => {}
            Err(Failure::Text(text)) => {
                context.replies.truncate(at);
                context.instance.count_error(&text);
                context.replies.error(text);
            }
            Err(failure) => return Err(failure),
        }
        if context.replies.len() - start > REPLY_MAX {
            return Err(
                "EXECABORT Transaction rolled back: its reply is longer than 640 MiB".into(),
            );
        }
    }
    Ok(())
}

fn rolled_back(status: Status) -> Failure {
    match status {
        Status::Conflict => "CONFLICT another transaction holds a key of this one, which was \
                             rolled back; run it again"
            .into(),
        Status::OutOfMemory => Failure::Text(reply::error_text(status, false)),
        other => format!(
            "EXECABORT Transaction rolled back: {}; {}",
            other.text(),
            other.action()
        )
        .into(),
    }
}
