//! HSCAN.

use bpfdb::ValueType;

use super::super::prelude::*;
use super::super::scanning::scan_collection;

pub(crate) static COMMAND: Command = Command {
    name: "hscan",
    summary: "Lists the fields of a hash and their values in steps; a cursor leads from one to the next",
    since: "2.8.0",
    group: Group::Hash,
    complexity: "O(1) for each step",
    arity: -3,
    arguments: "key:key, cursor:integer, [MATCH pattern:pattern], [COUNT count:integer]",
    flags: &[Flag::Readonly],
    categories: &[Category::Hash],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "Cursors are not those of Redis. A hash of up to 512 fields is listed at once; of one of up to 1,024 each step lists at least 512.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    scan_collection(
        context,
        arguments,
        ValueType::HASH,
        Some(|replies, _, value| replies.bulk(value)),
    )
}
