//! XLEN.

use super::super::prelude::*;
use super::store;

pub(crate) static COMMAND: Command = Command {
    name: "xlen",
    summary: "Returns how many entries a stream has",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Stream],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let state = store::state(context.session, &arguments[0])?;
    let length = state.map_or(0, |state| state.length);
    context.replies.integer(length as i64);
    Ok(())
}
