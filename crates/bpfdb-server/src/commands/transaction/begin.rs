//! BEGIN [READ ONLY].

use bpfdb::{Session, Status};

use super::super::arguments::{is, syntax_error};
use super::super::atomic::has_failed;
use super::super::prelude::*;
use crate::protocol::reply;

pub(crate) static COMMAND: Command = Command {
    name: "begin",
    summary: "Opens a transaction that the commands of this connection belong to, up to COMMIT or ROLLBACK",
    since: "0.1.0",
    group: Group::Transactions,
    complexity: "O(1)",
    arity: -1,
    arguments: "[mode{READ, ONLY}]",
    flags: &[Flag::NoScript, Flag::Fast, Flag::NoMulti],
    categories: &[Category::Transaction],
    differences: "Redis has no such command. From here on a read locks its key against writers and a write against all other clients, until COMMIT or ROLLBACK; a client that meets a lock gets CONFLICT ([conflicts.md](conflicts.md)). BEGIN READ ONLY reads one snapshot and locks nothing. After a transaction that was idle for longer than transaction-timeout, BEGIN begins another one.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let begin = match arguments {
        [] => Session::begin,
        [first, second] if is(first, "read") && is(second, "only") => Session::begin_read_only,
        _ => return Err(syntax_error()),
    };
    let mut begun = begin(context.session);
    if begun == Err(Status::TimedOut) {
        context.session.rollback()?;
        begun = begin(context.session);
    }
    match begun {
        Ok(()) => {
            // The executor tries a statement again that lacks memory.
            context.session.be_patient();
            // Messages of a transaction that was rolled back.
            drop(context.connection.mail.take_staged());
            context.replies.ok();
        }
        Err(Status::WrongState) => {
            let text = if has_failed(context.session) {
                reply::failed()
            } else {
                reply::nested()
            };
            context.replies.error(text);
        }
        Err(status) => return Err(status.into()),
    }
    Ok(())
}
