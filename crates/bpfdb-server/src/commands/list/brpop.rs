//! BRPOP.

use bpfdb_values::list::End;

use super::super::blocking::DIFFERENCES;
use super::super::prelude::*;
use super::waits::pop;

pub(crate) static COMMAND: Command = Command {
    name: "brpop",
    summary: "Takes the last element of the first list that has any, or waits for one",
    since: "2.0.0",
    group: Group::List,
    complexity: "O(keys and length of the list)",
    arity: -3,
    arguments: "key:key..., timeout:double",
    flags: &[Flag::Write, Flag::NoScript, Flag::Blocking],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]).last(-2)],
    differences: DIFFERENCES,
    events: Events::Named("rpop"),
    run: |context, arguments| pop(context, arguments, End::Tail),
    ..Command::BASE
};
