//! MODULE LOADEX.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "module|loadex",
    summary: "Would load a module with its settings",
    since: "7.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -3,
    arguments: "path, [CONFIG configs{name, value}]...+, [ARGS args{arg}]...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading],
    run: super::refuse,
    ..Command::BASE
};
