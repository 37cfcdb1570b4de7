//! FUNCTION: the libraries of functions, which are data of the engine.

mod analysis;
mod change;
mod delete;
mod dump;
mod flush;
mod help;
mod kill;
mod list;
mod load;
mod restore;
mod stats;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "function",
    summary: "About the libraries of functions",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &delete::COMMAND,
        &dump::COMMAND,
        &flush::COMMAND,
        &help::COMMAND,
        &kill::COMMAND,
        &list::COMMAND,
        &load::COMMAND,
        &restore::COMMAND,
        &stats::COMMAND,
    ],
    ..Command::BASE
};

/// For clients of clusters, of those that change libraries.
const CHANGES: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
