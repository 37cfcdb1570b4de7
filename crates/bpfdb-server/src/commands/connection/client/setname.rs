//! CLIENT SETNAME.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|setname",
    summary: "Gives the connection a name",
    since: "2.6.9",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    arguments: "connection-name",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    super::check_name(&arguments[0])?;
    context.connection.name.clone_from(&arguments[0]);
    context.replies.ok();
    Ok(())
}
