//! The server itself.

mod acl;
mod bgrewriteaof;
mod bgsave;
mod command;
mod config;
mod dbsize;
mod debug;
mod failover;
mod flushall;
mod flushdb;
mod info;
mod lastsave;
mod latency;
mod lolwut;
mod memory;
mod module;
mod monitor;
mod procedures;
mod psync;
mod replconf;
mod replicaof;
mod role;
mod save;
mod shutdown;
mod slaveof;
mod slowlog;
mod swapdb;
mod sync;
mod tables;
mod time;
mod wait;
mod waitaof;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &acl::COMMAND,
    &bgrewriteaof::COMMAND,
    &bgsave::COMMAND,
    &command::COMMAND,
    &config::COMMAND,
    &dbsize::COMMAND,
    &debug::COMMAND,
    &failover::COMMAND,
    &flushall::COMMAND,
    &flushdb::COMMAND,
    &info::COMMAND,
    &lastsave::COMMAND,
    &latency::COMMAND,
    &lolwut::COMMAND,
    &memory::COMMAND,
    &module::COMMAND,
    &monitor::COMMAND,
    &procedures::COMMAND,
    &psync::COMMAND,
    &replconf::COMMAND,
    &replicaof::COMMAND,
    &role::COMMAND,
    &save::COMMAND,
    &shutdown::COMMAND,
    &slaveof::COMMAND,
    &slowlog::COMMAND,
    &swapdb::COMMAND,
    &sync::COMMAND,
    &tables::COMMAND,
    &time::COMMAND,
    &wait::COMMAND,
    &waitaof::COMMAND,
];
