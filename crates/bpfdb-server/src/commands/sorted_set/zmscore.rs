//! ZMSCORE.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::Changes;

use super::super::collection::load;
use super::super::prelude::*;
use super::scores::reply_score;

pub(crate) static COMMAND: Command = Command {
    name: "zmscore",
    summary: "Reads the scores of members",
    since: "6.2.0",
    group: Group::SortedSet,
    complexity: "O(members asked for, each in the length of the sorted set)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let members = &arguments[1..];
    let read = load(context.session, &arguments[0], ValueType::SORTED_SET)?;
    let changes = Changes::new(read.as_ref().map(|read| &read.value[..]), members.len())?;
    context.replies.array(members.len());
    for member in members {
        match changes.score(member)? {
            Some(score) => reply_score(context.replies, score),
            None => context.replies.null(),
        }
    }
    Ok(())
}
