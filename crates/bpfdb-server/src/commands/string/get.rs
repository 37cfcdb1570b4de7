//! GET.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "get",
    summary: "Reads a value",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

pub(super) fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let replies = &mut *context.replies;
    (context.session).get_with(&arguments[0], |value| replies.bulk_or_null(value))?;
    Ok(())
}
