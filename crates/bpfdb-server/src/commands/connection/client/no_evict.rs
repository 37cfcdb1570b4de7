//! CLIENT NO-EVICT: not to be closed when all connections together use too much memory.

use super::super::super::arguments::on_or_off;
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|no-evict",
    summary: "Keeps this connection from being closed when memory for clients is short",
    since: "7.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    arguments: "enabled(ON|OFF)",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    context.connection.no_evict = on_or_off(&arguments[0])?;
    context.replies.ok();
    Ok(())
}
