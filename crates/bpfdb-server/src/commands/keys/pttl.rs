//! PTTL.

use super::super::prelude::*;
use super::ttl::tell;

pub(crate) static COMMAND: Command = Command {
    name: "pttl",
    summary: "Returns how many milliseconds a value has left",
    since: "2.6.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let now = context.engine.now_ms();
    tell(context, &arguments[0], |at| at.saturating_sub(now))
}
