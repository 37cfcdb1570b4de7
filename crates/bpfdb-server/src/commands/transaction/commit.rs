//! COMMIT.

use bpfdb::{Status, abi};

use super::super::prelude::*;
use crate::protocol::reply;

pub(crate) static COMMAND: Command = Command {
    name: "commit",
    summary: "Makes everything visible at once that was done since BEGIN",
    since: "0.1.0",
    group: Group::Transactions,
    complexity: "O(N) where N is the number of keys that were read or written",
    arity: 1,
    flags: &[Flag::NoScript, Flag::NoMulti],
    categories: &[Category::Transaction],
    differences: "Redis has no such command.",
    writes_now: Some(|context| context.session.state() == abi::BPFDB_TXN_WRITE),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let ended = context.session.commit();
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
