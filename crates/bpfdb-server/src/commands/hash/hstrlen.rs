//! HSTRLEN.

use bpfdb::ValueType;

use super::super::look_up::find;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "hstrlen",
    summary: "Returns how long the value of a field of a hash is",
    since: "3.2.0",
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
    let value = found.and_then(|mut found| found.pop().flatten());
    let len = value.map_or(0, |value| value.len());
    context.replies.integer(len as i64);
    Ok(())
}
