//! DEL.

use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "del",
    summary: "Deletes keys, all at once",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Write],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &[KeyFlag::Remove, KeyFlag::Delete]).last(-1)],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

pub(super) fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let deleted = if let [key] = keys {
        i64::from(context.session.delete(key)?)
    } else {
        atomically(context.session, Kind::Write, |session| {
            let mut deleted = 0;
            for key in keys {
                deleted += i64::from(session.delete(key)?);
            }
            Ok(deleted)
        })?
    };
    context.replies.integer(deleted);
    Ok(())
}
