//! SDIFFSTORE.

use super::super::prelude::*;
use super::combined::{Operation, keep};

pub(crate) static COMMAND: Command = Command {
    name: "sdiffstore",
    summary: "Keeps the members of a set that none of others has as a set under another key",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of all sets)",
    arity: -3,
    arguments: "destination:key, key:key...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Set],
    keys: &[
        Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(-1),
    ],
    differences: "The sets take at most 1 GiB together, and the result 512 MiB.",
    events: Events::Stored("sdiffstore"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    keep(
        context,
        Operation::Difference,
        &arguments[0],
        &arguments[1..],
    )
}
