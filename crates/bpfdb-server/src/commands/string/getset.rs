//! GETSET.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::super::update::{Write, update};

pub(crate) static COMMAND: Command = Command {
    name: "getset",
    summary: "Sets a value and gives back the one before it",
    since: "1.0.0",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`SET` with `GET`",
    }),
    group: Group::String,
    complexity: "O(length of both values)",
    arity: 3,
    arguments: "key:key, value",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    events: Events::Named("set"),
    misses: Misses::All,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, value) = (&arguments[0], &arguments[1]);
    let old = update(context.session, key, |old| {
        Ok((Write::Set(value.into(), None), old))
    })?;
    context.instance.statistics.got(old.is_some());
    context
        .replies
        .bulk_or_null(old.as_ref().map(|old| &*old.value));
    Ok(())
}
