//! RPOPLPUSH.

use bpfdb_values::list::End;

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::pops::{reply_moved, tell_moved};

pub(crate) static COMMAND: Command = Command {
    name: "rpoplpush",
    summary: "Takes the last element of one list and adds it at the head of another one",
    since: "1.2.0",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
    }),
    group: Group::List,
    complexity: "O(log length of the list)",
    arity: 3,
    arguments: "source:key, destination:key",
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
    reply_moved(context, arguments, [End::Tail, End::Head])
}
