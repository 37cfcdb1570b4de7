//! COMMIT.

use bpfdb::{Status, abi};

use super::super::attempts::Backoff;
use super::super::keyspace_events;
use super::super::prelude::*;
use crate::instance::log::NO_LOG;
use crate::protocol::reply;

pub(crate) static COMMAND: Command = Command {
    name: "commit",
    summary: "Makes everything visible at once that was done since BEGIN",
    since: "0.1.0",
    group: Group::Transactions,
    complexity: "O(N) where N is the number of keys that were read or written",
    arity: -1,
    arguments: "[SYNC]",
    flags: &[Flag::NoScript, Flag::NoMulti],
    categories: &[Category::Transaction],
    differences: "Redis has no such command. With SYNC the reply comes when the transaction is durable, whatever the connection's durability is, and everything that it has read.",
    writes_now: Some(|context, _| context.session.state() == abi::BPFDB_TXN_WRITE),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let sync = match arguments {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"sync") => true,
        _ => return Err("ERR syntax error".into()),
    };
    if sync && !context.instance.log.is_there() {
        return Err(NO_LOG.into());
    }
    let mut commit = Committing {
        sync,
        backoff: Backoff::default(),
    };
    if commit.step(context, &[])? == Progress::More {
        context.go_on_with(commit);
    }
    Ok(())
}

/// A COMMIT that is tried again while the log has no room. At the end of the attempts the
/// transaction is rolled back: left open, it would take in what the client sends next, which knows
/// it as ended.
#[derive(Debug)]
struct Committing {
    sync: bool,
    backoff: Backoff,
}

impl Job for Committing {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let ended = context.session.try_commit();
        if let Err(status) = ended
            && status.is_refused_by_log()
        {
            if context.refusal(status).is_none() && self.backoff.wait(context, status) {
                return Ok(Progress::More);
            }
            context.session.rollback()?;
            return Err(Failure::Text(refused(context, status)));
        }
        if self.sync && ended.is_ok() {
            context.connection.hold_until(context.engine.now());
        }
        if ended.is_ok() {
            keyspace_events::apply_staged(context);
        }
        end(context, ended)?;
        Ok(Progress::Done)
    }
}

/// The log has not taken the transaction, which was rolled back.
fn refused(context: &Context<'_>, status: Status) -> Vec<u8> {
    let mut text = context
        .refusal(status)
        .unwrap_or_else(|| format!("ERR {}", status.text()).into_bytes());
    text.extend_from_slice(b"; the transaction was rolled back, run it again");
    text
}

/// The reply to the end of a transaction.
pub(super) fn end(context: &mut Context<'_>, ended: Result<(), Status>) -> Outcome {
    match ended {
        Ok(()) => context.replies.ok(),
        Err(Status::WrongState) => context.replies.error(reply::no_transaction()),
        Err(status) => return Err(status.into()),
    }
    Ok(())
}
