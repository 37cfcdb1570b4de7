//! MEMORY.

mod doctor;
mod help;
mod malloc_stats;
mod purge;
mod stats;
mod usage;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "memory",
    summary: "Where memory goes",
    since: "4.0.0",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &doctor::COMMAND,
        &help::COMMAND,
        &malloc_stats::COMMAND,
        &purge::COMMAND,
        &stats::COMMAND,
        &usage::COMMAND,
    ],
    ..Command::BASE
};
