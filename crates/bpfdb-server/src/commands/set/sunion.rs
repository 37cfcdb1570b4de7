//! SUNION.

use super::super::prelude::*;
use super::combined::{Operation, reply};

pub(crate) static COMMAND: Command = Command {
    name: "sunion",
    summary: "Lists the members that any of some sets has",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of all sets)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Readonly],
    categories: &[Category::Set],
    tips: &["nondeterministic_output_order"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(-1)],
    differences: "The sets take at most 1 GiB together, and the reply 640 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    reply(context, Operation::Union, keys)
}
