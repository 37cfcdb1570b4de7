//! SUBSTR: what GETRANGE was called once.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::getrange;

pub(crate) static COMMAND: Command = Command {
    name: "substr",
    summary: "Reads part of a value; the former name of GETRANGE",
    since: "1.0.0",
    deprecated: Some(Deprecated {
        since: "2.0.0",
        replaced_by: "`GETRANGE`",
    }),
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 4,
    arguments: "key:key, start:integer, end:integer",
    flags: &[Flag::Readonly],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run: getrange::run,
    ..Command::BASE
};
