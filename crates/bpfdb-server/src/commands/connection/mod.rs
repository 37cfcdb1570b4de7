//! The connection itself.

mod auth;
mod client;
mod echo;
mod hello;
mod ping;
mod quit;
mod reset;
mod select;

use super::definition::Command;

pub(super) use select::database;

pub(super) static COMMANDS: &[&Command] = &[
    &auth::COMMAND,
    &client::COMMAND,
    &echo::COMMAND,
    &hello::COMMAND,
    &ping::COMMAND,
    &quit::COMMAND,
    &reset::COMMAND,
    &select::COMMAND,
];
