//! CONFIG: the settings of `settings/`, and what else Redis calls so.

mod get;
mod help;
mod resetstat;
mod rewrite;
mod set;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "config",
    summary: "Settings",
    since: "2.0.0",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &get::COMMAND,
        &help::COMMAND,
        &resetstat::COMMAND,
        &rewrite::COMMAND,
        &set::COMMAND,
    ],
    ..Command::BASE
};
