//! DECRBY.

use super::super::arguments::number;
use super::super::prelude::*;
use super::incr::add;

pub(crate) static COMMAND: Command = Command {
    name: "decrby",
    summary: "Subtracts an integer from a number; an absent key counts as 0",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key, decrement:integer",
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
    let delta = number(&arguments[1])?
        .checked_neg()
        .ok_or("ERR decrement would overflow")?;
    add(context, &arguments[0], delta)
}
