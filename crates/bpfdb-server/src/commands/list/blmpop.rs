//! BLMPOP.

use super::super::blocking::DIFFERENCES;
use super::super::pop_arguments::PopArguments;
use super::super::prelude::*;
use super::end;
use super::pops::tell_popped;
use super::waits::pop_many;

pub(crate) static COMMAND: Command = Command {
    name: "blmpop",
    summary: "Takes elements from the first of some lists that has any, or waits for one",
    since: "7.0.0",
    group: Group::List,
    complexity: "O(keys and length of the list)",
    arity: -5,
    arguments: "timeout:double, numkeys:integer, key:key..., where(LEFT|RIGHT), [COUNT count:integer]",
    flags: &[Flag::Write, Flag::Blocking, Flag::MovableKeys],
    categories: &[Category::List],
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
