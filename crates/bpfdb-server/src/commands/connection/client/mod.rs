//! CLIENT: what a connection says of itself, and what there are.

mod caching;
mod durability;
mod getname;
mod getredir;
mod help;
mod id;
mod info;
mod kill;
pub(super) mod list;
mod no_evict;
mod no_touch;
mod pause;
mod reply;
mod setinfo;
mod setname;
mod tracking;
mod trackinginfo;
mod unblock;
mod unpause;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client",
    summary: "About connections",
    since: "2.4.0",
    group: Group::Connection,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &caching::COMMAND,
        &durability::COMMAND,
        &getname::COMMAND,
        &getredir::COMMAND,
        &help::COMMAND,
        &id::COMMAND,
        &info::COMMAND,
        &kill::COMMAND,
        &list::COMMAND,
        &no_evict::COMMAND,
        &no_touch::COMMAND,
        &pause::COMMAND,
        &reply::COMMAND,
        &setinfo::COMMAND,
        &setname::COMMAND,
        &tracking::COMMAND,
        &trackinginfo::COMMAND,
        &unblock::COMMAND,
        &unpause::COMMAND,
    ],
    ..Command::BASE
};

/// What Redis takes as the name of a connection.
pub(super) fn check_name(name: &[u8]) -> Outcome {
    check_word(name, "Client names")
}

fn check_word(word: &[u8], what: &str) -> Outcome {
    if word.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(format!("ERR {what} cannot contain spaces, newlines or special characters.").into())
}
