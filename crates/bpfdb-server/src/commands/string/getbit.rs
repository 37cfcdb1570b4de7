//! GETBIT.

use super::super::prelude::*;
use super::bits;

pub(crate) static COMMAND: Command = Command {
    name: "getbit",
    summary: "Reads one bit of a value",
    since: "2.2.0",
    group: Group::Bitmap,
    complexity: "O(length of the value)",
    arity: 3,
    arguments: "key:key, offset:integer",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Bitmap],
    keys: &[Keys::at(1, &["RO", "access"])],
    path: Path::Kernel,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let offset = bits::offset(&arguments[1])?;
    let value = context.session.get(&arguments[0])?.unwrap_or_default();
    context.replies.integer(bits::get(&value, offset).into());
    Ok(())
}
