//! EXISTS.

use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "exists",
    summary: "Counts those of the keys given that have a value",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(keys)",
    arity: -2,
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &["RO"]).last(-1)],
    path: Path::Kernel,
    run,
    ..Command::BASE
};

pub(super) fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let found = atomically(context.session, Kind::Read, |session| {
        let mut found = 0;
        for key in keys {
            found += i64::from(session.get(key)?.is_some());
        }
        Ok(found)
    })?;
    context.replies.integer(found);
    Ok(())
}
