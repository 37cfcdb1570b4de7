//! RANDOMKEY.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "randomkey",
    summary: "Picks a key by chance",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(1) unless most of the index is empty",
    arity: 1,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    differences: "Keys after a gap in the index are more probable than others. Refused in a transaction that writes (BEGIN, a MULTI with a command that writes), which could not keep others from adding keys meanwhile; in one that only reads it sees the snapshot.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let key = context.session.random_key()?;
    context.replies.bulk_or_null(key.as_deref());
    Ok(())
}
