//! ZREMRANGEBYSCORE.

use super::super::prelude::*;
use super::removals::remove_range;
use super::scores::By;

pub(crate) static COMMAND: Command = Command {
    name: "zremrangebyscore",
    summary: "Removes the members of a sorted set in a range of scores",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(members removed, each the log of the length)",
    arity: 4,
    arguments: "key:key, min:double, max:double",
    flags: &[Flag::Write],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    remove_range(context, arguments, By::Score)
}
