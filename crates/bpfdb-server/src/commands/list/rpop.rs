//! RPOP.

use bpfdb_values::list::End;

use super::super::prelude::*;
use super::pops::pop;

pub(crate) static COMMAND: Command = Command {
    name: "rpop",
    summary: "Takes the last elements of a list",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(elements taken)",
    arity: -2,
    arguments: "key:key, [count:integer@6.2.0]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::List],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete],
    )],
    batching: Batching::Changes,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    pop(context, "rpop", arguments, End::Tail)
}
