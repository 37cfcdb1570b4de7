//! ZINTER.

use super::super::prelude::*;
use super::operations::{Operation, reply};

pub(crate) static COMMAND: Command = Command {
    name: "zinter",
    summary: "Finds the members that all of some sorted sets have",
    since: "6.2.0",
    group: Group::SortedSet,
    complexity: "O(lengths of the sets, and sorting the result)",
    arity: -3,
    arguments: "numkeys:integer, key:key..., [WEIGHTS weight:integer]..., [AGGREGATE aggregate(SUM|MIN|MAX)], [WITHSCORES]",
    flags: &[Flag::Readonly, Flag::MovableKeys],
    categories: &[Category::SortedSet],
    keys: &[Keys::counted_at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    reply(context, "zinter", arguments, Operation::Intersection)
}
