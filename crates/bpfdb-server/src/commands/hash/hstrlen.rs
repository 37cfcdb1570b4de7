//! HSTRLEN.

use bpfdb::ValueType;

use super::super::collection::look;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "hstrlen",
    summary: "Tells how long the value of a field of a hash is",
    since: "3.2.0",
    group: Group::Hash,
    complexity: "O(length of the hash)",
    arity: 3,
    arguments: "key:key, field",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let len = look(context.session, &arguments[0], ValueType::HASH, |hash| {
        Ok(hash.find(&arguments[1])?.map_or(0, <[u8]>::len))
    })?;
    context.replies.integer(len.unwrap_or(0) as i64);
    Ok(())
}
