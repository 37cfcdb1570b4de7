//! BITFIELD_RO.

use super::super::prelude::*;
use super::fields::Operation;

pub(crate) static COMMAND: Command = Command {
    name: "bitfield_ro",
    summary: "Reads integers of any number of bits",
    since: "6.0.0",
    group: Group::Bitmap,
    complexity: "O(length of the value)",
    arity: -2,
    arguments: "key:key, [GET encoding_offset{encoding, offset:integer}]...+",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Bitmap],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let operations = Operation::parse_all(&arguments[1..])?;
    if operations.iter().any(Operation::writes) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    read(context, &arguments[0], &operations)
}

pub(super) fn read(context: &mut Context<'_>, key: &[u8], operations: &[Operation]) -> Outcome {
    let value = context.session.get(key)?.unwrap_or_default();
    context.replies.array(operations.len());
    for operation in operations {
        operation.reply(&value, context.replies);
    }
    Ok(())
}
