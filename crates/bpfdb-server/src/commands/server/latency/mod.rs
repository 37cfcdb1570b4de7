//! LATENCY: what was slow in the daemon, and how long commands take there.

mod doctor;
mod graph;
mod help;
mod histogram;
mod history;
mod latest;
mod reset;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "latency",
    summary: "What was slow",
    since: "2.8.13",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &doctor::COMMAND,
        &graph::COMMAND,
        &help::COMMAND,
        &histogram::COMMAND,
        &history::COMMAND,
        &latest::COMMAND,
        &reset::COMMAND,
    ],
    ..Command::BASE
};
