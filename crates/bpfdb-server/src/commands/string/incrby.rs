//! INCRBY.

use super::super::arguments::number;
use super::super::prelude::*;
use super::incr::add;

pub(crate) static COMMAND: Command = Command {
    name: "incrby",
    summary: "Adds an integer to a number; an absent key counts as 0",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key, increment:integer",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    batching: Batching::Reads,
    events: Events::Named("incrby"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    add(context, &arguments[0], number(&arguments[1])?)
}
