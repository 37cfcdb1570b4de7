//! ZDIFFSTORE.

use super::super::prelude::*;
use super::operations::{Operation, store_result};

pub(crate) static COMMAND: Command = Command {
    name: "zdiffstore",
    summary: "Finds the members of a sorted set that no other one has, and keeps them under a key",
    since: "6.2.0",
    group: Group::SortedSet,
    complexity: "O(lengths of the sets, and sorting the result)",
    arity: -4,
    arguments: "destination:key, numkeys:integer, key:key...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::MovableKeys],
    categories: &[Category::SortedSet],
    keys: &[
        Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::counted_at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]),
    ],
    events: Events::Stored("zdiffstore"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    store_result(context, "zdiffstore", arguments, Operation::Difference)
}
