//! HVALS.

use super::super::prelude::*;
use super::hgetall::{Part, reply_all};

pub(crate) static COMMAND: Command = Command {
    name: "hvals",
    summary: "Lists the values of the fields of a hash",
    since: "2.0.0",
    group: Group::Hash,
    complexity: "O(length of the hash)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Hash],
    tips: &["nondeterministic_output_order"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    reply_all(context, &arguments[0], Part::Value)
}
