//! ZREVRANGE.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::scores::By;
use super::selections::{Named, reply_range};

pub(crate) static COMMAND: Command = Command {
    name: "zrevrange",
    summary: "Reads the members of a sorted set in a range of ranks, from the highest score down",
    since: "1.2.0",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`ZRANGE` with the `REV` argument",
    }),
    group: Group::SortedSet,
    complexity: "O(log length of the sorted set, and members listed)",
    arity: -4,
    arguments: "key:key, start:integer, stop:integer, [WITHSCORES]",
    flags: &[Flag::Readonly],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let named = Named {
        by: Some(By::Rank),
        is_descending: Some(true),
    };
    reply_range(context, arguments, named)
}
