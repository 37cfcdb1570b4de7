//! The error of a client that met a lock: why, what to do, and whose lock it is.

use bpfdb::Status;

use super::atomic;
use super::context::Context;
use crate::connection::info::ConnectionInfo;
use crate::protocol::reply::{self, ConflictAction};

/// The reply to CONFLICT of the statement that was just executed.
pub(crate) fn text(context: &Context<'_>) -> Vec<u8> {
    let action = if atomic::has_failed(context.session) {
        ConflictAction::Rollback
    } else {
        ConflictAction::RunAgain
    };
    text_with(context, action)
}

pub(super) fn text_with(context: &Context<'_>, action: ConflictAction) -> Vec<u8> {
    let Some(conflict) = context.session.last_conflict() else {
        // Not of an operator: it stands in the way of another command of this server.
        return reply::conflict_text(Status::Conflict.text(), action, None);
    };
    let statistics = &context.instance.statistics;
    statistics.conflicts(conflict.cause).increment();
    let client = conflict
        .session
        .and_then(|session| client(context, session))
        .map(|info| info.id);
    reply::conflict_text(conflict.cause.text(), action, client)
}

/// The client whose connection has this session; `None`: it is a session of another
/// program, or over by now, or of a client that the daemon has not accepted yet.
pub(super) fn client<'a>(context: &'a Context<'_>, session: u32) -> Option<&'a ConnectionInfo> {
    if session == context.session.index() {
        return Some(context.connection);
    }
    let other = &context.others.get(session)?.info;
    let kernel = &context.instance.kernel;
    (other.is_unix() || kernel.has_cookie(session, other.id)).then_some(other)
}
