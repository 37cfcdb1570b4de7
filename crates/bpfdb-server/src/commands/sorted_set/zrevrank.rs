//! ZREVRANK.

use super::super::prelude::*;
use super::ranks::reply_rank;

pub(crate) static COMMAND: Command = Command {
    name: "zrevrank",
    summary: "Returns how many members of a sorted set are above one",
    since: "2.0.0",
    group: Group::SortedSet,
    complexity: "O(log length of the sorted set)",
    arity: 3,
    arguments: "key:key, member",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    reply_rank(context, arguments, true)
}
