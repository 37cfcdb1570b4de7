//! CLIENT TRACKINGINFO.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|trackinginfo",
    summary: "Whether the client is notified of changes to what it has read",
    since: "6.2.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "Nothing is tracked: always off.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let replies = &mut *context.replies;
    replies.map(3);
    replies.bulk("flags");
    replies.set(1);
    replies.bulk("off");
    replies.bulk("redirect");
    replies.integer(-1);
    replies.bulk("prefixes");
    replies.array(0);
    Ok(())
}
