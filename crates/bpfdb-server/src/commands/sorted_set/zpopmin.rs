//! ZPOPMIN.

use super::super::prelude::*;
use super::pops::{End, pop};

pub(crate) static COMMAND: Command = Command {
    name: "zpopmin",
    summary: "Takes the members of a sorted set that have the lowest scores",
    since: "5.0.0",
    group: Group::SortedSet,
    complexity: "O(members removed, each the log of the length)",
    arity: -2,
    arguments: "key:key, [count:integer]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete],
    )],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    pop(context, arguments, End::Min)
}
