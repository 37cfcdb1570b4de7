//! ZINCRBY.

use super::super::prelude::*;
use super::adding::add;

pub(crate) static COMMAND: Command = Command {
    name: "zincrby",
    summary: "Adds a number to the score of a member; that of a new one is 0 before",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(log length of the sorted set)",
    arity: 4,
    arguments: "key:key, increment:integer, member",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    batching: Batching::Changes,
    events: Events::Named("zincr"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    add(context, arguments, true)
}
