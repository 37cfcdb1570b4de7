//! SMISMEMBER.

use bpfdb::ValueType;

use super::super::look_up::find;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "smismember",
    summary: "Returns of each of some members whether a set has it",
    since: "6.2.0",
    group: Group::Set,
    complexity: "O(members)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Set],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, members) = (&arguments[0], &arguments[1..]);
    let found = find(context, key, ValueType::SET, members)?;
    context.replies.array(members.len());
    for found in found.unwrap_or_else(|| vec![None; members.len()]) {
        context.replies.integer(found.is_some().into());
    }
    Ok(())
}
