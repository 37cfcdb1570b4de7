//! ZCARD.

use bpfdb::ValueType;
use bpfdb_values::run::Run;

use super::super::collection::load;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "zcard",
    summary: "Tells how many members a sorted set has",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(length of the sorted set)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let read = load(context.session, &arguments[0], ValueType::SORTED_SET)?;
    let len = read.map_or(Ok(0), |read| Run::parse(&read.value).map(|run| run.len()))?;
    context.replies.integer(len as i64);
    Ok(())
}
