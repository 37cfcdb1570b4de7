//! The server itself.

mod bgrewriteaof;
mod bgsave;
mod command;
mod config;
mod dbsize;
mod debug;
mod flushall;
mod flushdb;
mod info;
mod lastsave;
mod latency;
mod memory;
mod monitor;
mod procedures;
mod replicaof;
mod role;
mod save;
mod shutdown;
mod slaveof;
mod slowlog;
mod swapdb;
mod time;
mod wait;
mod waitaof;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &bgrewriteaof::COMMAND,
    &bgsave::COMMAND,
    &command::COMMAND,
    &config::COMMAND,
    &dbsize::COMMAND,
    &debug::COMMAND,
    &flushall::COMMAND,
    &flushdb::COMMAND,
    &info::COMMAND,
    &lastsave::COMMAND,
    &latency::COMMAND,
    &memory::COMMAND,
    &monitor::COMMAND,
    &procedures::COMMAND,
    &replicaof::COMMAND,
    &role::COMMAND,
    &save::COMMAND,
    &shutdown::COMMAND,
    &slaveof::COMMAND,
    &slowlog::COMMAND,
    &swapdb::COMMAND,
    &time::COMMAND,
    &wait::COMMAND,
    &waitaof::COMMAND,
];
