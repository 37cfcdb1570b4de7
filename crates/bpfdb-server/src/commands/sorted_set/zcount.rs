//! ZCOUNT.

use super::super::prelude::*;
use super::counts::reply_count;
use super::scores::By;

pub(crate) static COMMAND: Command = Command {
    name: "zcount",
    summary: "Counts the members of a sorted set that have scores between two",
    since: "2.0.0",
    group: Group::SortedSet,
    complexity: "O(log length of the sorted set)",
    arity: 4,
    arguments: "key:key, min:double, max:double",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    reply_count(context, arguments, By::Score)
}
