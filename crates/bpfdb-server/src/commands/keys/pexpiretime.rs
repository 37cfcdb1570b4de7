//! PEXPIRETIME.

use super::super::prelude::*;
use super::ttl::tell;

pub(crate) static COMMAND: Command = Command {
    name: "pexpiretime",
    summary: "Returns at what UNIX time a value expires, in milliseconds",
    since: "7.0.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    tell(context, &arguments[0], |at| at)
}
