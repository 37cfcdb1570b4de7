//! CLIENT PAUSE: requests wait, in the daemon; the kernel passes them all.

use std::time::Duration;

use super::super::super::arguments::is;
use super::super::super::job::RetriedCommand;
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "client|pause",
    summary: "Lets the requests of all connections wait, or those that write",
    since: "3.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -3,
    arguments: "timeout:integer, [mode(WRITE|ALL)@6.2.0]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "CLIENT UNPAUSE does not wait, nor does a write that is only queued after MULTI. Commands that the kernel has already begun are executed.",
    run,
    ..Command::BASE
};

/// A MULTI … EXEC that has begun is executed to its end before: what writes must not
/// commit in the pause.
fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if context.instance.has_long_block() {
        context.go_on_with(RetriedCommand::new(pause));
        return Ok(());
    }
    pause(context, arguments)
}

fn pause(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (all, milliseconds) = match arguments {
        [time] => (true, parse(time)?),
        [time, mode] if is(mode, "all") => (true, parse(time)?),
        [time, mode] if is(mode, "write") => (false, parse(time)?),
        [_, _] => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(wrong_subcommand_arity(context, "CLIENT")),
    };
    let length = Duration::from_millis(milliseconds);
    let paused = context.instance.pause(length, all);
    paused.map_err(|error| format!("ERR clients cannot be paused: {error}"))?;
    context.replies.ok();
    Ok(())
}

fn parse(text: &[u8]) -> Result<u64, Failure> {
    let number = integer::parse(text).ok_or("ERR timeout is not an integer or out of range")?;
    u64::try_from(number).map_err(|_| "ERR timeout is negative".into())
}
