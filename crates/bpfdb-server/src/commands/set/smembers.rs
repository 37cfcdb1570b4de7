//! SMEMBERS.

use bpfdb::ValueType;

use super::super::collection::{check_reply, look};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "smembers",
    summary: "Lists the members of a set",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of the set)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Set],
    tips: &["nondeterministic_output_order"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let replies = &mut *context.replies;
    let start = replies.len();
    let read = look(context.session, &arguments[0], ValueType::SET, |set| {
        replies.set(set.len());
        for entry in set.iter() {
            replies.bulk(entry?.0);
            check_reply(replies, start)?;
        }
        Ok(())
    })?;
    if read.is_none() {
        replies.set(0);
    }
    Ok(())
}
