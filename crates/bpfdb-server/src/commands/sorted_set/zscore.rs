//! ZSCORE.

use bpfdb::ValueType;
use bpfdb_values::run::Run;
use bpfdb_values::sorted_set::score;

use super::super::collection::load;
use super::super::prelude::*;
use super::scores::reply_score;

pub(crate) static COMMAND: Command = Command {
    name: "zscore",
    summary: "Reads the score of a member",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(length of the sorted set)",
    arity: 3,
    arguments: "key:key, member",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let read = load(context.session, &arguments[0], ValueType::SORTED_SET)?;
    let score = read.map_or(Ok(None), |read| {
        score(&Run::parse(&read.value)?, &arguments[1])
    })?;
    match score {
        Some(score) => reply_score(context.replies, score),
        None => context.replies.null(),
    }
    Ok(())
}
