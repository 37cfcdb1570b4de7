//! XREVRANGE.

use super::super::prelude::*;
use super::ranges::range;

pub(crate) static COMMAND: Command = Command {
    name: "xrevrange",
    summary: "Lists the entries between two identifiers, the last ones first",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(log B + M) with B blocks of entries and M entries that are replied",
    arity: -4,
    arguments: "key:key, end, start, [COUNT count:integer]",
    flags: &[Flag::Readonly],
    categories: &[Category::Stream],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    range(context, arguments, true)
}
