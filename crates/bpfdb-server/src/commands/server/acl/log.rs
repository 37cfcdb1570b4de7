//! ACL LOG.

use super::super::super::arguments::{is, number};
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;

pub(crate) static COMMAND: Command = Command {
    name: "acl|log",
    summary: "Would list what users were not allowed to do",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -2,
    arguments: "[operation(count:integer|RESET)]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "Wrong passwords are counted and logged by the daemon, and not listed here: it is always empty.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => {}
        [word] if is(word, "reset") => {
            context.replies.ok();
            return Ok(());
        }
        [count] => drop(number(count)?),
        _ => return Err(wrong_subcommand_arity(context, "ACL")),
    }
    context.replies.array(0);
    Ok(())
}
