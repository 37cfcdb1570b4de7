//! MSET: all or nothing.

use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;
use super::super::table::wrong_arity;

pub(crate) static COMMAND: Command = Command {
    name: "mset",
    summary: "Sets several keys, all at once",
    since: "1.0.1",
    group: Group::String,
    complexity: "O(keys and bytes written)",
    arity: -3,
    arguments: "key_value{key:key, value}...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    tips: &[
        "request_policy:multi_shard",
        "response_policy:all_succeeded",
    ],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update])
        .last(-1)
        .step(2)],
    batching: Batching::Writes,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, pairs: &[Vec<u8>]) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    atomically(context.session, Kind::Write, |session| {
        for pair in pairs.chunks(2) {
            session.set(&pair[0], &pair[1])?;
        }
        Ok(())
    })?;
    context.replies.ok();
    Ok(())
}
