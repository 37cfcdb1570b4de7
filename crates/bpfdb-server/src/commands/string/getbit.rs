//! GETBIT.

use super::super::prelude::*;
use super::bits;

pub(crate) static COMMAND: Command = Command {
    name: "getbit",
    summary: "Reads one bit of a value",
    since: "2.2.0",
    group: Group::Bitmap,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key, offset:integer",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Bitmap],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let offset = bits::offset(&arguments[1])?;
    // The one byte that it is in, if there is one.
    let byte = context
        .session
        .get_range(&arguments[0], |len| {
            (offset / 8).min(len)..(offset / 8 + 1).min(len)
        })?
        .unwrap_or_default();
    context.replies.integer(bits::get(&byte, offset % 8).into());
    Ok(())
}
