//! ACL WHOAMI.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "acl|whoami",
    summary: "Returns which user the client is",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.bulk("default");
    Ok(())
}
