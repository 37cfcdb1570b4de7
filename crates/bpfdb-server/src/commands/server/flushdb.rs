//! FLUSHDB.

use super::super::prelude::*;
use super::flushall;

pub(crate) static COMMAND: Command = Command {
    name: "flushdb",
    summary: "Deletes every key of the database",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(keys in the database)",
    arity: -1,
    arguments: "[async(ASYNC@4.0.0|SYNC@6.2.0)]",
    flags: &[Flag::Write],
    categories: &[Category::Keyspace, Category::Dangerous],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    differences: "As FLUSHALL.",
    events: Events::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let database = context.session.database();
    flushall::flush(context, arguments, Some(database))
}
