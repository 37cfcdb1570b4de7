//! LLEN.

use bpfdb::ValueType;

use super::super::look_up::len;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "llen",
    summary: "Returns how many elements a list has",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let len = len(context, &arguments[0], ValueType::LIST)?;
    context.replies.integer(len as i64);
    Ok(())
}
