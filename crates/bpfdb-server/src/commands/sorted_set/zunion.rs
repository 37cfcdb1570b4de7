//! ZUNION.

use super::super::prelude::*;
use super::operations::{Operation, reply};

pub(crate) static COMMAND: Command = Command {
    name: "zunion",
    summary: "Joins sorted sets",
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
    reply(context, "zunion", arguments, Operation::Union)
}
