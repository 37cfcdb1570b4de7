//! BRPOPLPUSH.

use bpfdb_values::list::End;

use super::super::blocking::DIFFERENCES;
use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::pops::tell_moved;
use super::waits::move_between;

pub(crate) static COMMAND: Command = Command {
    name: "brpoplpush",
    summary: "Takes the last element of one list, when there is one, and adds it at the head of another one",
    since: "2.2.0",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`BLMOVE` with the `RIGHT` and `LEFT` arguments",
    }),
    group: Group::List,
    complexity: "O(lengths of the lists)",
    arity: 4,
    arguments: "source:key, destination:key, timeout:double",
    flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking],
    categories: &[Category::List],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]),
        Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Insert]),
    ],
    differences: DIFFERENCES,
    events: Events::By(tell_moved),
    run: |context, arguments| move_between(context, arguments, [End::Tail, End::Head]),
    ..Command::BASE
};
