//! The server itself.

mod command;
mod config;
mod dbsize;
mod flushall;
mod flushdb;
mod info;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &command::COMMAND,
    &config::COMMAND,
    &dbsize::COMMAND,
    &flushall::COMMAND,
    &flushdb::COMMAND,
    &info::COMMAND,
];
