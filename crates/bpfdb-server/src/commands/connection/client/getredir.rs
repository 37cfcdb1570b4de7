//! CLIENT GETREDIR.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|getredir",
    summary: "To which connection invalidations would go",
    since: "6.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "Nothing is tracked: always -1.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.integer(-1);
    Ok(())
}
