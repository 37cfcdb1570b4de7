//! ZRANGESTORE.

use super::super::prelude::*;
use super::selections::store_range;

pub(crate) static COMMAND: Command = Command {
    name: "zrangestore",
    summary: "Keeps a range of a sorted set under another key",
    since: "6.2.0",
    group: Group::SortedSet,
    complexity: "O(length of the sorted set)",
    arity: -5,
    arguments: "dst:key, src:key, min, max, [sortby(BYSCORE|BYLEX)], [REV], [LIMIT offset_count{offset:integer, count:integer}]",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::SortedSet],
    keys: &[
        Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]),
    ],
    differences: "The score -0 stays in any result that is not kept in the compact encoding.",
    events: Events::Stored("zrangestore"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    store_range(context, arguments)
}
