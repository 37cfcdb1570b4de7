//! SLOWLOG: what took long in the daemon.

mod get;
mod help;
mod len;
mod reset;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "slowlog",
    summary: "Commands that took long",
    since: "2.2.12",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &get::COMMAND,
        &help::COMMAND,
        &len::COMMAND,
        &reset::COMMAND,
    ],
    ..Command::BASE
};
