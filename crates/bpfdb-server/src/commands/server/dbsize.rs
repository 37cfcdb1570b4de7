//! DBSIZE.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "dbsize",
    summary: "Counts the keys",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 1,
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    differences: "Counts records, including those that are deleted or expired but not removed yet. SET with a time that is over leaves none.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let stats = context.engine.stats()?;
    let keys = stats.records_of(context.session.database());
    context.replies.integer(keys as i64);
    Ok(())
}
