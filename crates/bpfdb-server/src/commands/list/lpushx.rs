//! LPUSHX.

use bpfdb_values::list::End;

use super::super::prelude::*;
use super::pushes::{Absent, push};

pub(crate) static COMMAND: Command = Command {
    name: "lpushx",
    summary: "Adds elements at the head of a list, if there is one",
    since: "2.2.0",
    group: Group::List,
    complexity: "O(elements that are added)",
    arity: -3,
    arguments: "key:key, element...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    batching: Batching::Changes,
    events: Events::Named("lpush"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    push(context, arguments, End::Head, Absent::Left)
}
