//! The transaction in which a command runs: the client's, if one is open, else
//! a short one of its own.

use bpfdb::{Session, Status, abi};

use super::attempts;
use super::context::Failure;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// It writes, and what it has written when it fails is no hindrance to do it again in the same
    /// transaction, with the same outcome.
    Repeatable,
}

pub(crate) fn has_failed(session: &Session) -> bool {
    session.state() == abi::BPFDB_TXN_FAILED
}

/// Has the client a transaction open, be it a failed one?
pub(crate) fn is_open(session: &Session) -> bool {
    !matches!(
        session.state(),
        abi::BPFDB_TXN_NONE | abi::BPFDB_TXN_FINISHING
    )
}

/// What is too long is refused by the engine too: it counts the Error, and fails
/// the client's transaction as after any other.
///
/// So does a session that is busy for long. By that Error the engine has done nothing; but the statement
/// may have done a part of its work before, which stays in the transaction: so it cannot be tried again.
pub(crate) fn record_refusal(session: &mut Session, failure: Failure) -> Failure {
    match failure {
        Failure::TooLong => session.refuse_value().into(),
        Failure::Engine(Status::SessionBusy) if is_open(session) => {
            let _ = session.refuse_value();
            failure
        }
        failure => failure,
    }
}

/// A statement is not tried again. It may have done a part of its work in the client's transaction,
/// be it in an earlier try: that fails then, as after any other Error.
pub(crate) fn give_up(session: &mut Session, failure: Failure) -> Failure {
    let may_be_half = matches!(failure, Failure::Engine(Status::MemoryPending));
    if may_be_half && is_open(session) && !has_failed(session) {
        let _ = session.refuse_value();
    }
    failure
}

/// Does `work` in the client's transaction, or in one of its own, which is
/// tried again after a conflict.
pub(super) fn atomically<T>(
    session: &mut Session,
    kind: Kind,
    mut work: impl FnMut(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if is_open(session) {
        return as_statement(session, kind, work);
    }
    for _ in 0..attempts::STATEMENT {
        match once(session, kind, &mut work) {
            Err(Failure::Engine(Status::Conflict)) => {}
            outcome => return outcome,
        }
    }
    Err(Status::Conflict.into())
}

/// Does `work` in the client's transaction. A value for which memory is being added fails none, and
/// the statement is tried again from its beginning: so it must not have written before.
fn as_statement<T>(
    session: &mut Session,
    kind: Kind,
    work: impl FnOnce(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let before = session.writes();
    work(session).map_err(|failure| {
        if kind == Kind::Repeatable || session.writes() == before {
            return failure;
        }
        give_up(session, failure)
    })
}

/// Does `work` in a transaction, which stays only if it succeeds.
pub(super) fn once<T>(
    session: &mut Session,
    kind: Kind,
    work: impl FnOnce(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match kind {
        Kind::Read => session.begin_read_only_deferred()?,
        Kind::Write | Kind::Repeatable => session.begin_deferred()?,
    }
    match work(session) {
        Ok(result) => {
            session.commit()?;
            Ok(result)
        }
        Err(failure) => {
            session.rollback()?;
            Err(failure)
        }
    }
}
