//! SORT_RO.

use super::super::prelude::*;
use super::sorting::{BY_OR_GET, sort};

pub(crate) static COMMAND: Command = Command {
    name: "sort_ro",
    summary: "Sorts the elements of a list, a set or a sorted set, and only replies them",
    since: "7.0.0",
    group: Group::Generic,
    complexity: "O(n log n) for n elements, and a look-up for each pattern and element",
    arity: -2,
    arguments: "key:key, [BY pattern:pattern#1], [LIMIT offset_count{offset:integer, count:integer}], [GET pattern:pattern#1]...+, [order(ASC|DESC)], [ALPHA=sorting]",
    flags: &[Flag::Readonly, Flag::MovableKeys],
    categories: &[
        Category::Set,
        Category::SortedSet,
        Category::List,
        Category::Dangerous,
    ],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access]),
        BY_OR_GET,
    ],
    differences: "As of SORT.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    sort(context, arguments, false)
}
