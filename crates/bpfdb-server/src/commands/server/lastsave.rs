//! LASTSAVE.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "lastsave",
    summary: "When the data was saved last",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 1,
    flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
    categories: &[Category::Admin, Category::Dangerous],
    tips: &["nondeterministic_output"],
    differences: "The time of the last checkpoint; before the first one, or without a log, that of the start.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.integer(context.instance.last_save() as i64);
    Ok(())
}
