//! MSETNX: all or nothing, and only if none is there.

use bpfdb::{Session, Status};

use super::super::atomic::{Kind, atomically, has_failed};
use super::super::prelude::*;
use super::super::table::wrong_arity;

pub(crate) static COMMAND: Command = Command {
    name: "msetnx",
    summary: "Sets several keys all at once, if none of them has a value",
    since: "1.0.1",
    group: Group::String,
    complexity: "O(keys and bytes written)",
    arity: -3,
    arguments: "key_value{key:key, value}...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Insert])
        .last(-1)
        .step(2)],
    batching: Batching::Reads,
    events: Events::Named("set"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, pairs: &[Vec<u8>]) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity("msetnx"));
    }
    let done = atomically(context.session, Kind::Repeatable, |session| {
        for pair in pairs.chunks(2) {
            if session.head_for_update(&pair[0])?.is_some() {
                return Ok(false);
            }
        }
        set_all(session, pairs)?;
        Ok(true)
    })?;
    context.replies.integer(done.into());
    Ok(())
}

/// They were absent. If one finds no memory as yet, the others are absent again, since the
/// command may be tried again in a transaction of the client's, which stays open.
fn set_all(session: &mut Session, pairs: &[Vec<u8>]) -> Outcome {
    for (done, pair) in pairs.chunks(2).enumerate() {
        if let Err(status) = session.set(&pair[0], &pair[1]) {
            if status == Status::MemoryPending && !has_failed(session) {
                for pair in pairs.chunks(2).take(done) {
                    session.delete(&pair[0])?;
                }
            }
            return Err(status.into());
        }
    }
    Ok(())
}
