//! COMMAND: what there is to be called.

mod count;
mod docs;
mod getkeys;
mod info;
mod list;

use super::super::help;
use super::super::prelude::*;
use super::super::table::COMMANDS;

pub(crate) static COMMAND: Command = Command {
    name: "command",
    summary: "Describes all commands, in short",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(commands)",
    arity: -1,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    tips: &["nondeterministic_output_order"],
    subcommands: &[
        &count::COMMAND,
        &docs::COMMAND,
        &getkeys::COMMAND,
        &getkeys::WITH_FLAGS,
        &HELP,
        &info::COMMAND,
        &list::COMMAND,
    ],
    run,
    ..Command::BASE
};

/// Names in one request. Each is answered as often as it is there, and the whole reply is made in one
/// step.
const NAMES_MAX: usize = 1024;

fn check(names: usize) -> Outcome {
    if names > NAMES_MAX {
        return Err(format!("ERR at most {NAMES_MAX} commands at a time").into());
    }
    Ok(())
}

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.array(COMMANDS.len());
    for command in COMMANDS.iter() {
        info::describe(context.replies, command);
    }
    Ok(())
}

pub(crate) static HELP: Command = Command {
    name: "command|help",
    summary: "Lists the subcommands",
    since: "5.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "In its own words.",
    run: help,
    ..Command::BASE
};

fn help(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    help::show(context.replies, &COMMAND);
    Ok(())
}
