//! MODULE LOAD.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "module|load",
    summary: "Would load a module",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -3,
    arguments: "path, [arg]...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading],
    run: super::refuse,
    ..Command::BASE
};
