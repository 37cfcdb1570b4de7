//! PEXPIREAT.

use super::super::expiry::Form;
use super::super::prelude::*;
use super::expire::expire;

pub(crate) static COMMAND: Command = Command {
    name: "pexpireat",
    summary: "Lets a value expire at a UNIX time in milliseconds",
    since: "2.6.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: -3,
    arguments: "key:key, unix-time-milliseconds:unix-time, [condition(NX|XX|GT|LT)@7.0.0]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    differences: "With options the daemon answers it.",
    batching: Batching::Reads,
    events: Events::Stored("expire"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    expire(context, arguments, Form::PXAT, COMMAND.name)
}
