//! CLIENT UNBLOCK: no command blocks.

use super::super::super::arguments::{is, number};
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;

pub(crate) static COMMAND: Command = Command {
    name: "client|unblock",
    summary: "Would end the waiting of another connection",
    since: "5.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -3,
    arguments: "client-id:integer, [timeout_error(TIMEOUT|ERROR)]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "No command blocks: always 0.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [_] => {}
        [_, how] if is(how, "timeout") || is(how, "error") => {}
        [_, _] => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => return Err(wrong_subcommand_arity(context, "CLIENT")),
    }
    number(&arguments[0])?;
    context.replies.integer(0);
    Ok(())
}
