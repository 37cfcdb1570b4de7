//! SSCAN.

use bpfdb::ValueType;

use super::super::prelude::*;
use super::super::scanning::scan_collection;

pub(crate) static COMMAND: Command = Command {
    name: "sscan",
    summary: "Lists the members of a set in steps; a cursor leads from one to the next",
    since: "2.8.0",
    group: Group::Set,
    complexity: "O(1) for each step",
    arity: -3,
    arguments: "key:key, cursor:integer, [MATCH pattern:pattern], [COUNT count:integer]",
    flags: &[Flag::Readonly],
    categories: &[Category::Set],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "Cursors are not those of Redis. A set of up to 512 members is listed at once; of one of up to 1,024 each step lists at least 512.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    scan_collection(context, arguments, ValueType::SET, None)
}
