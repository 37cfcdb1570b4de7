//! SISMEMBER.

use bpfdb::ValueType;

use super::super::collection::look;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "sismember",
    summary: "Tells whether a set has a member",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of the set)",
    arity: 3,
    arguments: "key:key, member",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Set],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let found = look(context.session, &arguments[0], ValueType::SET, |set| {
        Ok(set.find(&arguments[1])?.is_some())
    })?;
    context.replies.integer(found.unwrap_or(false).into());
    Ok(())
}
