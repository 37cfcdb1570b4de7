//! HMGET.

use bpfdb::ValueType;
use bpfdb_values::Hash;
use bpfdb_values::run::Run;

use super::super::collection::{check_reply, look};
use super::super::prelude::*;
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "hmget",
    summary: "Reads the values of fields of a hash",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(length of the hash and fields)",
    arity: -3,
    arguments: "key:key, field...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

/// More fields than these are looked for in a hash in memory, which has an index.
const FEW: usize = 4;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, fields) = (&arguments[0], &arguments[1..]);
    let replies = &mut *context.replies;
    let read = look(context.session, key, ValueType::HASH, |run| {
        reply(replies, &run, fields)
    })?;
    if read.is_none() {
        replies.array(fields.len());
        fields.iter().for_each(|_| replies.null());
    }
    Ok(())
}

fn reply(replies: &mut Replies, run: &Run<'_>, fields: &[Vec<u8>]) -> Outcome {
    let start = replies.len();
    replies.array(fields.len());
    if fields.len() <= FEW {
        for field in fields {
            replies.bulk_or_null(run.find(field)?);
            check_reply(replies, start)?;
        }
        return Ok(());
    }
    let mut hash = Hash::of_run(run)?;
    for field in fields {
        replies.bulk_or_null(hash.get(field));
        check_reply(replies, start)?;
    }
    Ok(())
}
