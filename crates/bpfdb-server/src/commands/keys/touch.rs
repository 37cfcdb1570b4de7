//! TOUCH.

use super::super::prelude::*;
use super::exists;

pub(crate) static COMMAND: Command = Command {
    name: "touch",
    summary: "Alters the last access time of a key(s). Returns the number of existing keys specified.",
    since: "3.2.1",
    group: Group::Generic,
    complexity: "O(N) where N is the number of keys that will be touched.",
    arity: -2,
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &["RO"]).last(-1)],
    differences: "Counts the keys; accesses are not recorded.",
    run: exists::run,
    ..Command::BASE
};
