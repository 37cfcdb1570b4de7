//! RPUSH.

use bpfdb_values::list::End;

use super::super::prelude::*;
use super::pushes::{Absent, push};

pub(crate) static COMMAND: Command = Command {
    name: "rpush",
    summary: "Adds elements at the tail of a list, one after the other",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(elements that are added)",
    arity: -3,
    arguments: "key:key, element...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    batching: Batching::Changes,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    push(context, arguments, End::Tail, Absent::Made)
}
