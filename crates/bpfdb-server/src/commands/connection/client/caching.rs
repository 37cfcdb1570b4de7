//! CLIENT CACHING.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|caching",
    summary: "Would say whether the next read is tracked",
    since: "6.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    arguments: "mode(YES|NO)",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "Nothing is tracked: refused.",
    run,
    ..Command::BASE
};

fn run(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
         OPTIN or OPTOUT mode enabled"
            .into(),
    )
}
