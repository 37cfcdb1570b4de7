//! CLIENT UNBLOCK.

use super::super::super::arguments::{is, number};
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;
use crate::instance::waiting::Unblocked;

pub(crate) static COMMAND: Command = Command {
    name: "client|unblock",
    summary: "Ends the waiting of another connection for a key",
    since: "5.0.0",
    group: Group::Connection,
    complexity: "O(connections)",
    arity: -3,
    arguments: "client-id:integer, [timeout_error(TIMEOUT|ERROR)]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let how = match arguments {
        [_] => Unblocked::TimedOut,
        [_, how] if is(how, "timeout") => Unblocked::TimedOut,
        [_, how] if is(how, "error") => Unblocked::Error,
        [_, _] => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => return Err(wrong_subcommand_arity(context, "CLIENT")),
    };
    let id = number(&arguments[0])?;
    let mut others = context.others.iter();
    let other = others.find(|other| i64::try_from(other.info.id) == Ok(id));
    let index = other.map(|other| other.index);
    let waits = index.is_some_and(|index| context.instance.waiting.unblock(index, how));
    context.replies.integer(waits.into());
    Ok(())
}
