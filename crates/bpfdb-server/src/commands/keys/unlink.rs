//! UNLINK: memory is given back in the background anyway, so it is DEL.

use super::super::prelude::*;
use super::del;

pub(crate) static COMMAND: Command = Command {
    name: "unlink",
    summary: "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.",
    since: "4.0.0",
    group: Group::Generic,
    complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.",
    arity: -2,
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &["RM", "delete"]).last(-1)],
    run: del::run,
    ..Command::BASE
};
