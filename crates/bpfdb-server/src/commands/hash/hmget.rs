//! HMGET.

use bpfdb::ValueType;

use super::super::collection::check_reply;
use super::super::look_up::find;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "hmget",
    summary: "Reads the values of fields of a hash",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(fields asked for)",
    arity: -3,
    arguments: "key:key, field...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, fields) = (&arguments[0], &arguments[1..]);
    let found = find(context, key, ValueType::HASH, fields)?;
    let replies = &mut *context.replies;
    let start = replies.len();
    replies.array(fields.len());
    for value in found.unwrap_or_else(|| vec![None; fields.len()]) {
        replies.bulk_or_null(value.as_deref());
        check_reply(replies, start)?;
    }
    Ok(())
}
