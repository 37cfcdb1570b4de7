//! The transaction in which a command runs: the client's, if one is open, else
//! a short one of its own.

use bpfdb::{Session, Status, abi};

use super::attempts;
use super::context::Failure;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
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

/// Does `work` in the client's transaction, or in one of its own, which is
/// tried again after a conflict.
pub(super) fn atomically<T>(
    session: &mut Session,
    kind: Kind,
    mut work: impl FnMut(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if is_open(session) {
        return work(session);
    }
    for _ in 0..attempts::STATEMENT {
        match once(session, kind, &mut work) {
            Err(Failure::Engine(Status::Conflict)) => {}
            outcome => return outcome,
        }
    }
    Err(Status::Conflict.into())
}

/// Does `work` in a transaction, which stays only if it succeeds.
pub(super) fn once<T>(
    session: &mut Session,
    kind: Kind,
    work: impl FnOnce(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match kind {
        Kind::Read => session.begin_read_only_deferred()?,
        Kind::Write => session.begin_deferred()?,
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
