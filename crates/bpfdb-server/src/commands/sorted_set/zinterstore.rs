//! ZINTERSTORE.

use super::super::prelude::*;
use super::operations::{Operation, store_result};

pub(crate) static COMMAND: Command = Command {
    name: "zinterstore",
    summary: "Finds the members that all of some sorted sets have, and keeps them under a key",
    since: "2.0.0",
    group: Group::SortedSet,
    complexity: "O(lengths of the sets, and sorting the result)",
    arity: -4,
    arguments: "destination:key, numkeys:integer, key:key..., [WEIGHTS weight:integer]..., [AGGREGATE aggregate(SUM|MIN|MAX)]",
    flags: &[Flag::Write, Flag::DenyOom, Flag::MovableKeys],
    categories: &[Category::SortedSet],
    keys: &[
        Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::counted_at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]),
    ],
    events: Events::Stored("zinterstore"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    store_result(context, "zinterstore", arguments, Operation::Intersection)
}
