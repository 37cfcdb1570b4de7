//! BEGIN [READ ONLY], COMMIT, ROLLBACK; and the short transaction that makes a
//! command atomic when the client has none open.

use bpfdb::{Session, Status};

use super::{Context, Failure, Outcome};
use crate::reply;

/// Attempts of a command before its conflict is reported.
const TRIES: u32 = bpfdb::abi::BPFDB_COMMAND_TRIES;

pub(super) fn begin(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let is = |word: &[u8], text: &str| word.eq_ignore_ascii_case(text.as_bytes());
    let begun = match arguments {
        [] => context.session.begin(),
        [first, second] if is(first, "read") && is(second, "only") => {
            context.session.begin_read_only()
        }
        _ => return Err("ERR syntax error".into()),
    };
    match begun {
        Ok(()) => context.replies.ok(),
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

pub(super) fn commit(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let ended = context.session.commit();
    end(context, ended)
}

pub(super) fn rollback(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let ended = context.session.rollback();
    end(context, ended)
}

fn end(context: &mut Context<'_>, ended: Result<(), Status>) -> Outcome {
    match ended {
        Ok(()) => context.replies.ok(),
        Err(Status::WrongState) => context.replies.error(reply::no_transaction()),
        Err(status) => return Err(status.into()),
    }
    Ok(())
}

pub(super) fn has_failed(session: &Session) -> bool {
    session.state() == bpfdb::abi::BPFDB_TXN_FAILED
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// Does `work` in the client's transaction, or in one of its own, which is
/// tried again after a conflict.
pub(super) fn atomically<T>(
    session: &mut Session,
    kind: Kind,
    mut work: impl FnMut(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    for _ in 0..TRIES {
        let begun = match kind {
            Kind::Read => session.begin_read_only(),
            Kind::Write => session.begin(),
        };
        match begun {
            Ok(()) => {}
            Err(Status::WrongState) => return work(session),
            Err(status) => return Err(status.into()),
        }
        match work(session) {
            Ok(result) => {
                session.commit()?;
                return Ok(result);
            }
            Err(failure) => {
                session.rollback()?;
                if !matches!(failure, Failure::Engine(Status::Conflict)) {
                    return Err(failure);
                }
            }
        }
    }
    Err(Status::Conflict.into())
}
