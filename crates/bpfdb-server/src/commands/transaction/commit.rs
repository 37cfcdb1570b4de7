//! COMMIT.

use bpfdb::{Status, abi};

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
    // If the log has no room the transaction stays open, and this is tried again.
    let ended = context.session.try_commit();
    if sync && ended.is_ok() {
        context.connection.hold_until(context.engine.now());
    }
    end(context, ended)
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
