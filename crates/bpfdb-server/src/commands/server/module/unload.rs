//! MODULE UNLOAD.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "module|unload",
    summary: "Would unload a module",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 3,
    arguments: "name",
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading],
    run: super::refuse,
    ..Command::BASE
};
