//! DUMP.

use super::super::prelude::*;
use crate::values::dump;

pub(crate) static COMMAND: Command = Command {
    name: "dump",
    summary: "Writes a value in the form that RESTORE reads",
    since: "2.6.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "Values are not compressed.",
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let payload = (context.session).get_with(&arguments[0], |value| value.map(dump::encode))?;
    context.replies.bulk_or_null(payload.as_deref());
    Ok(())
}
