//! BZPOPMAX.

use super::super::blocking::DIFFERENCES;
use super::super::prelude::*;
use super::pops::End;
use super::waits::pop;

pub(crate) static COMMAND: Command = Command {
    name: "bzpopmax",
    summary: "Takes the member with the highest score of the first sorted set that has any, or waits for one",
    since: "5.0.0",
    group: Group::SortedSet,
    complexity: "O(keys and length of the sorted set)",
    arity: -3,
    arguments: "key:key..., timeout:double",
    flags: &[Flag::Write, Flag::NoScript, Flag::Blocking, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]).last(-2)],
    differences: DIFFERENCES,
    events: Events::Named("zpopmax"),
    run: |context, arguments| pop(context, arguments, End::Max),
    ..Command::BASE
};
