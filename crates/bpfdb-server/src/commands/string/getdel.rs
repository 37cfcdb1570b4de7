//! GETDEL.

use super::super::prelude::*;
use super::super::update::{Write, update};

pub(crate) static COMMAND: Command = Command {
    name: "getdel",
    summary: "Reads a value and deletes its key",
    since: "6.2.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete],
    )],
    events: Events::Stored("del"),
    misses: Misses::All,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    let old = update(context.session, key, |old| match old {
        Some(old) => Ok((Write::Delete, Some(old.value))),
        None => Ok((Write::Nothing, None)),
    })?;
    context.instance.statistics.got(old.is_some());
    context.replies.bulk_or_null(old.as_deref());
    Ok(())
}
