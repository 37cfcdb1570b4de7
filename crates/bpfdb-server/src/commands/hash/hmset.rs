//! HMSET.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::hset::set_fields;

pub(crate) static COMMAND: Command = Command {
    name: "hmset",
    summary: "Gives fields of a hash values, and makes the hash",
    since: "2.0.0",
    deprecated: Some(Deprecated {
        since: "4.0.0",
        replaced_by: "`HSET` with multiple field-value pairs",
    }),
    group: Group::Hash,
    complexity: "O(fields that are set)",
    arity: -4,
    arguments: "key:key, field_value{field, value}...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    batching: Batching::Changes,
    differences: "A hash takes at most 512 MiB.",
    events: Events::Named("hset"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    set_fields(context, arguments, COMMAND.name)?;
    context.replies.ok();
    Ok(())
}
