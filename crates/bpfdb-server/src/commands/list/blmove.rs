//! BLMOVE.

use super::super::arguments::syntax_error;
use super::super::blocking::DIFFERENCES;
use super::super::prelude::*;
use super::end;
use super::pops::tell_moved;
use super::waits::move_between;

pub(crate) static COMMAND: Command = Command {
    name: "blmove",
    summary: "Takes an element from one list, when there is one, and adds it to another one",
    since: "6.2.0",
    group: Group::List,
    complexity: "O(lengths of the lists)",
    arity: 6,
    arguments: "source:key, destination:key, wherefrom(LEFT|RIGHT), whereto(LEFT|RIGHT), timeout:double",
    flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking],
    categories: &[Category::List],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]),
        Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Insert]),
    ],
    differences: DIFFERENCES,
    events: Events::By(tell_moved),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (from, to) = end(&arguments[2])
        .zip(end(&arguments[3]))
        .ok_or_else(syntax_error)?;
    move_between(context, arguments, [from, to])
}
