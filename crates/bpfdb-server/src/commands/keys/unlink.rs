//! UNLINK: memory is given back in the background anyway, so it is DEL.

use super::super::prelude::*;
use super::del;

pub(crate) static COMMAND: Command = Command {
    name: "unlink",
    summary: "Deletes keys, all at once, as DEL",
    since: "4.0.0",
    group: Group::Generic,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &[KeyFlag::Remove, KeyFlag::Delete]).last(-1)],
    differences: "As DEL.",
    batching: Batching::Reads,
    events: Events::Stored("del"),
    run: del::run,
    ..Command::BASE
};
