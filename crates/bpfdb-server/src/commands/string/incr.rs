//! INCR; and what INCR, DECR, INCRBY and DECRBY have in common.

use super::super::arguments::number;
use super::super::prelude::*;
use super::super::update::change;

pub(crate) static COMMAND: Command = Command {
    name: "incr",
    summary: "Adds one to a number; an absent key counts as 0",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    batching: Batching::Reads,
    events: Events::Named("incrby"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    add(context, &arguments[0], 1)
}

pub(super) fn add(context: &mut Context<'_>, key: &[u8], delta: i64) -> Outcome {
    let value = change(context.session, key, |old| {
        let old = old.map_or(Ok(0), |text| number(&text))?;
        let new = old
            .checked_add(delta)
            .ok_or("ERR increment or decrement would overflow")?;
        Ok((Some(new.to_string().into_bytes()), new))
    })?;
    context.replies.integer(value);
    Ok(())
}
