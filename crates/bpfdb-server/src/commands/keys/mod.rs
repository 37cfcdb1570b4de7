//! Keys, whatever their values are.

mod copy;
mod del;
mod dump;
mod exists;
mod expire;
mod expireat;
mod expiretime;
mod list;
mod r#move;
mod object;
mod persist;
mod pexpire;
mod pexpireat;
mod pexpiretime;
mod pttl;
mod randomkey;
mod rename;
mod renamenx;
mod restore;
mod restore_asking;
mod scan;
mod sort;
mod sort_ro;
mod sorting;
mod touch;
mod ttl;
mod r#type;
mod unlink;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &copy::COMMAND,
    &del::COMMAND,
    &dump::COMMAND,
    &exists::COMMAND,
    &expire::COMMAND,
    &expireat::COMMAND,
    &expiretime::COMMAND,
    &list::COMMAND,
    &r#move::COMMAND,
    &object::COMMAND,
    &persist::COMMAND,
    &pexpire::COMMAND,
    &pexpireat::COMMAND,
    &pexpiretime::COMMAND,
    &pttl::COMMAND,
    &randomkey::COMMAND,
    &rename::COMMAND,
    &renamenx::COMMAND,
    &restore::COMMAND,
    &restore_asking::COMMAND,
    &scan::COMMAND,
    &sort::COMMAND,
    &sort_ro::COMMAND,
    &touch::COMMAND,
    &ttl::COMMAND,
    &r#type::COMMAND,
    &unlink::COMMAND,
];
