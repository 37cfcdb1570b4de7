//! STRLEN.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "strlen",
    summary: "Returns how many bytes a value has",
    since: "2.2.0",
    group: Group::String,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let len = context.session.value_len(&arguments[0])?.unwrap_or(0);
    context.replies.integer(len as i64);
    Ok(())
}
