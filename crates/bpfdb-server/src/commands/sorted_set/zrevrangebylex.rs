//! ZREVRANGEBYLEX.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::scores::By;
use super::selections::{Named, reply_range};

pub(crate) static COMMAND: Command = Command {
    name: "zrevrangebylex",
    summary: "Reads the members of a sorted set in a range of names, from the last to the first",
    since: "2.8.9",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`ZRANGE` with the `REV` and `BYLEX` arguments",
    }),
    group: Group::SortedSet,
    complexity: "O(log length of the sorted set, and members listed)",
    arity: -4,
    arguments: "key:key, max, min, [LIMIT offset_count{offset:integer, count:integer}]",
    flags: &[Flag::Readonly],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let named = Named {
        by: Some(By::Lex),
        is_descending: Some(true),
    };
    reply_range(context, arguments, named)
}
