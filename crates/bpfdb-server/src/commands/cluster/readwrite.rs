//! READWRITE.

use super::super::prelude::*;
use super::disabled;

pub(crate) static COMMAND: Command = Command {
    name: "readwrite",
    summary: "Would end READONLY",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 1,
    flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
    categories: &[Category::Connection],
    run: disabled,
    ..Command::BASE
};
