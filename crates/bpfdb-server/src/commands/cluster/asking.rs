//! ASKING.

use super::super::prelude::*;
use super::disabled;

pub(crate) static COMMAND: Command = Command {
    name: "asking",
    summary: "Would be sent before a request that another node passed on",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 1,
    flags: &[Flag::Fast],
    categories: &[Category::Connection],
    run: disabled,
    ..Command::BASE
};
