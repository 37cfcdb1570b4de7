//! ZINTERCARD.

use super::super::prelude::*;
use super::operations::reply_len;

pub(crate) static COMMAND: Command = Command {
    name: "zintercard",
    summary: "Counts the members that all of some sorted sets have",
    since: "7.0.0",
    group: Group::SortedSet,
    complexity: "O(lengths of the sets)",
    arity: -3,
    arguments: "numkeys:integer, key:key..., [LIMIT limit:integer]",
    flags: &[Flag::Readonly, Flag::MovableKeys],
    categories: &[Category::SortedSet],
    keys: &[Keys::counted_at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    reply_len(context, arguments)
}
