//! HGETALL; and what it has in common with HKEYS and HVALS.

use bpfdb::ValueType;

use super::super::collection::{check_reply, look};
use super::super::prelude::*;
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "hgetall",
    summary: "Reads all fields of a hash and their values",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(length of the hash)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Hash],
    tips: &["nondeterministic_output_order"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

/// What is replied of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Field,
    Value,
    Both,
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    reply_all(context, &arguments[0], Part::Both)
}

/// Replies this of all fields.
pub(super) fn reply_all(context: &mut Context<'_>, key: &[u8], part: Part) -> Outcome {
    let replies = &mut *context.replies;
    let start = replies.len();
    let read = look(context.session, key, ValueType::HASH, |hash| {
        begin(replies, part, hash.len());
        for entry in hash.iter() {
            let (field, value) = entry?;
            if part != Part::Value {
                replies.bulk(field);
            }
            if part != Part::Field {
                replies.bulk(value);
            }
            check_reply(replies, start)?;
        }
        Ok(())
    })?;
    if read.is_none() {
        begin(replies, part, 0);
    }
    Ok(())
}

fn begin(replies: &mut Replies, part: Part, fields: usize) {
    match part {
        Part::Both => replies.map(fields),
        Part::Field | Part::Value => replies.array(fields),
    }
}
