//! SUNIONSTORE.

use super::super::prelude::*;
use super::combined::{Operation, keep};

pub(crate) static COMMAND: Command = Command {
    name: "sunionstore",
    summary: "Keeps the members that any of some sets has as a set under another key",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of all sets)",
    arity: -3,
    arguments: "destination:key, key:key...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Set],
    keys: &[
        Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(-1),
    ],
    differences: "The sets take at most 1 GiB together, and the result 512 MiB.",
    events: Events::Stored("sunionstore"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    keep(context, Operation::Union, &arguments[0], &arguments[1..])
}
