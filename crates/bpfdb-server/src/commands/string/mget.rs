//! MGET: all values at one moment.

use super::super::REPLY_MAX;
use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "mget",
    summary: "Reads the values of several keys at one moment",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(keys and bytes read)",
    arity: -2,
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::String],
    tips: &["request_policy:multi_shard"],
    keys: &[Keys::at(1, &["RO", "access"]).last(-1)],
    path: Path::Kernel,
    differences: "The reply has at most 64 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let replies = &mut *context.replies;
    let start = replies.len();
    atomically(context.session, Kind::Read, |session| {
        replies.truncate(start);
        replies.array(keys.len());
        for key in keys {
            replies.bulk_or_null(session.get(key)?.as_deref());
            if replies.len() - start > REPLY_MAX {
                return Err("ERR reply is longer than 64 MiB; ask for fewer keys".into());
            }
        }
        Ok(())
    })
}
