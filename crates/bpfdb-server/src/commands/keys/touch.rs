//! TOUCH.

use super::super::many::read_many;
use super::super::prelude::*;
use super::exists::Count;

pub(crate) static COMMAND: Command = Command {
    name: "touch",
    summary: "Counts those of the keys given that have a value, each of which is used now",
    since: "3.2.1",
    group: Group::Generic,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly]).last(-1)],
    differences: "With noeviction accesses are not recorded: as EXISTS.",
    batching: Batching::Reads,
    run: read_many::<Count<true>>,
    ..Command::BASE
};
