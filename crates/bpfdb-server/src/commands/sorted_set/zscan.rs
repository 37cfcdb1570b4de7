//! ZSCAN.

use bpfdb::ValueType;
use bpfdb_values::double;
use bpfdb_values::run::{History, score};

use super::super::prelude::*;
use super::super::scanning::scan_collection;
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "zscan",
    summary: "Lists the members of a sorted set in steps; a cursor leads from one to the next",
    since: "2.8.0",
    group: Group::SortedSet,
    complexity: "O(1) for each step",
    arity: -3,
    arguments: "key:key, cursor:integer, [MATCH pattern:pattern], [COUNT count:integer]",
    flags: &[Flag::Readonly],
    categories: &[Category::SortedSet],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "Cursors are not those of Redis. A sorted set of up to 512 members is listed at once; of one of up to 1,024 each step lists at least 512.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    scan_collection(context, arguments, ValueType::SORTED_SET, Some(reply_score))
}

/// As Redis prints a score of the encoding in which it would keep the set.
fn reply_score(replies: &mut Replies, history: History, value: &[u8]) {
    let Ok(bytes) = value.try_into() else {
        return replies.bulk("");
    };
    let score = score(u64::from_le_bytes(bytes));
    if history.not_compact {
        replies.bulk(double::text(score));
    } else {
        replies.bulk(double::compact_text(score));
    }
}
