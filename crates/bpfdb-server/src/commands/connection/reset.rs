//! RESET: the connection as it was when it began.

use super::super::atomic::is_open;
use super::super::prelude::*;
use super::super::publish;
use super::super::transaction::MultiState;
use crate::protocol::reply::Protocol;

pub(crate) static COMMAND: Command = Command {
    name: "reset",
    summary: "Puts the connection into the state in which it began",
    since: "6.2.0",
    group: Group::Connection,
    complexity: "O(locks, watched keys and subscriptions)",
    arity: 1,
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::NoAuth,
        Flag::AllowBusy,
    ],
    categories: &[Category::Connection],
    differences: "Rolls back a transaction that BEGIN opened.",
    queued: false,
    for_subscribers: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    if is_open(context.session) {
        context.session.rollback()?;
    }
    publish::unsubscribe_all(context);
    context.connection.is_monitor = false;
    context.connection.mail.take_staged();
    context.connection.reset();
    context.session.set_untracked(false);
    context.select(0);
    context.hold_own_replies();
    *context.multi = MultiState::default();
    context.connection.authenticated = !context.instance.users.must_authenticate();
    context.replies.speak(Protocol::Resp2);
    context.replies.simple("RESET");
    Ok(())
}
