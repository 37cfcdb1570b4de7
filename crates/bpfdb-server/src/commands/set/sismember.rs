//! SISMEMBER.

use bpfdb::ValueType;

use super::super::look_up::find;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "sismember",
    summary: "Returns whether a set has a member",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key, member",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Set],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let found = find(context, &arguments[0], ValueType::SET, &arguments[1..])?;
    let is_there = found.is_some_and(|found| found[0].is_some());
    context.replies.integer(is_there.into());
    Ok(())
}
