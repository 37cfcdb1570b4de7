//! TABLE HELP.

use super::super::super::help;
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "table|help",
    summary: "Explains the subcommands",
    since: "0.1.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Loading, Flag::Stale],
    differences: "Redis has no such command.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    help::show(context.replies, &super::COMMAND);
    Ok(())
}
