//! HEXISTS.

use bpfdb::ValueType;

use super::super::collection::look;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "hexists",
    summary: "Tells whether a hash has a field",
    since: "2.0.0",
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
    let found = look(context.session, &arguments[0], ValueType::HASH, |hash| {
        Ok(hash.find(&arguments[1])?.is_some())
    })?;
    context.replies.integer(found.unwrap_or(false).into());
    Ok(())
}
