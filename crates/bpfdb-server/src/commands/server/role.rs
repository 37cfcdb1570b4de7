//! ROLE.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "role",
    summary: "What the server is among copies of the data",
    since: "2.8.12",
    group: Group::Server,
    complexity: "O(1)",
    arity: 1,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast],
    categories: &[Category::Admin, Category::Dangerous],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.array(3);
    context.replies.bulk("master");
    context.replies.integer(0);
    context.replies.array(0);
    Ok(())
}
