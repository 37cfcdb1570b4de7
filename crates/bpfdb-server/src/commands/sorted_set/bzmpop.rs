//! BZMPOP.

use super::super::blocking::DIFFERENCES;
use super::super::pop_arguments::PopArguments;
use super::super::prelude::*;
use super::waits::pop_many;
use super::zmpop::{end, tell_popped};

pub(crate) static COMMAND: Command = Command {
    name: "bzmpop",
    summary: "Takes members from the first of some sorted sets that has any, or waits for one",
    since: "7.0.0",
    group: Group::SortedSet,
    complexity: "O(keys and length of the sorted set)",
    arity: -5,
    arguments: "timeout:double, numkeys:integer, key:key..., where(MIN|MAX), [COUNT count:integer]",
    flags: &[Flag::Write, Flag::Blocking, Flag::MovableKeys],
    categories: &[Category::SortedSet],
    keys: &[Keys::counted_at(
        2,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete],
    )],
    differences: DIFFERENCES,
    events: Events::By(|told| tell_popped(told, &told.arguments[1..])),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let PopArguments { keys, end, count } = PopArguments::parse(&arguments[1..], end)?;
    pop_many(context, arguments, keys.len(), end, count)
}
