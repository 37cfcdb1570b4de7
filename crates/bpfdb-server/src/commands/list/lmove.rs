//! LMOVE.

use super::super::arguments::syntax_error;
use super::super::prelude::*;
use super::end;
use super::pops::{reply_moved, tell_moved};

pub(crate) static COMMAND: Command = Command {
    name: "lmove",
    summary: "Takes an element from one list and adds it to another one",
    since: "6.2.0",
    group: Group::List,
    complexity: "O(log length of the list)",
    arity: 5,
    arguments: "source:key, destination:key, wherefrom(LEFT|RIGHT), whereto(LEFT|RIGHT)",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::List],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]),
        Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Insert]),
    ],
    events: Events::By(tell_moved),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (from, to) = end(&arguments[2])
        .zip(end(&arguments[3]))
        .ok_or_else(syntax_error)?;
    reply_moved(context, &arguments[..2], [from, to])
}
