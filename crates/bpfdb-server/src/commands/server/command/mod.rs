//! COMMAND: what there is to be called.

mod count;
mod docs;
mod getkeys;
mod info;
mod list;

use super::super::prelude::*;
use super::super::table::COMMANDS;

pub(crate) static COMMAND: Command = Command {
    name: "command",
    summary: "Get array of Redis command details",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(N) where N is the total number of Redis commands",
    arity: -1,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    tips: &["nondeterministic_output_order"],
    subcommands: &[
        &count::COMMAND,
        &docs::COMMAND,
        &getkeys::COMMAND,
        &getkeys::WITH_FLAGS,
        &info::COMMAND,
        &list::COMMAND,
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.array(COMMANDS.len());
    for command in COMMANDS.iter() {
        info::describe(context.replies, command);
    }
    Ok(())
}
