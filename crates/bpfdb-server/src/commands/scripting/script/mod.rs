//! SCRIPT: the scripts that the server knows.

mod debug;
mod exists;
mod flush;
mod help;
mod kill;
mod load;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "script",
    summary: "About the scripts that the server knows",
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &debug::COMMAND,
        &exists::COMMAND,
        &flush::COMMAND,
        &help::COMMAND,
        &kill::COMMAND,
        &load::COMMAND,
    ],
    ..Command::BASE
};
