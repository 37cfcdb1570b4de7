//! HEXISTS.

use bpfdb::ValueType;

use super::super::look_up::find;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "hexists",
    summary: "Returns whether a hash has a field",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key, field",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let found = find(context, &arguments[0], ValueType::HASH, &arguments[1..])?;
    let is_there = found.is_some_and(|found| found[0].is_some());
    context.replies.integer(is_there.into());
    Ok(())
}
