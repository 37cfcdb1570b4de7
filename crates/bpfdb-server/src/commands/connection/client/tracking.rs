//! CLIENT TRACKING: the server tells nobody what changes, and says so.

use super::super::super::arguments::{is, syntax_error};
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|tracking",
    summary: "Would tell the client what changes",
    since: "6.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -3,
    arguments: "status(ON|OFF), [REDIRECT client-id:integer], [PREFIX prefix]...+, [BCAST], [OPTIN], [OPTOUT], [NOLOOP]",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "ON is refused.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if is(&arguments[0], "off") {
        context.replies.ok();
        return Ok(());
    }
    if is(&arguments[0], "on") {
        return Err("ERR client side caching is not supported".into());
    }
    Err(syntax_error())
}
