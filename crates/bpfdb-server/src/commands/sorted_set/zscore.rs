//! ZSCORE.

use super::super::prelude::*;
use super::find_scores;
use super::scores::reply_score;

pub(crate) static COMMAND: Command = Command {
    name: "zscore",
    summary: "Reads the score of a member",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key, member",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let scores = find_scores(context, &arguments[0], &arguments[1..])?;
    match scores[0] {
        Some(score) => reply_score(context.replies, score),
        None => context.replies.null(),
    }
    Ok(())
}
