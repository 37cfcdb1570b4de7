//! Scripts in Lua, each a transaction.

mod call;
mod eval;
mod eval_ro;
mod evalsha;
mod evalsha_ro;
mod reply;
mod script;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &eval::COMMAND,
    &eval_ro::COMMAND,
    &evalsha::COMMAND,
    &evalsha_ro::COMMAND,
    &script::COMMAND,
];
