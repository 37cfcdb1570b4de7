//! ZRANGE.

use super::super::prelude::*;
use super::selections::{Named, reply_range};

pub(crate) static COMMAND: Command = Command {
    name: "zrange",
    summary: "Reads the members of a sorted set in a range of ranks, scores or names",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(log length of the sorted set, and members listed)",
    arity: -4,
    arguments: "key:key, start, stop, [sortby(BYSCORE|BYLEX)@6.2.0], [REV@6.2.0], [LIMIT offset_count{offset:integer, count:integer}@6.2.0], [WITHSCORES]",
    flags: &[Flag::Readonly],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let named = Named {
        by: None,
        is_descending: None,
    };
    reply_range(context, arguments, named)
}
