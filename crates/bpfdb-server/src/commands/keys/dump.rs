//! DUMP.

use super::super::prelude::*;
use crate::dump;

pub(crate) static COMMAND: Command = Command {
    name: "dump",
    summary: "Return a serialized version of the value stored at the specified key.",
    since: "2.6.0",
    group: Group::Generic,
    complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
    arity: 2,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &["RO", "access"])],
    differences: "Values are not compressed.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let value = context.session.get(&arguments[0])?;
    let payload = value.map(|value| dump::encode(&value));
    context.replies.bulk_or_null(payload.as_deref());
    Ok(())
}
