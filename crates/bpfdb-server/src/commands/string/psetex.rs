//! PSETEX.

use super::super::expiry::Form;
use super::super::prelude::*;
use super::set::tell_expiring;
use super::setex::set;

pub(crate) static COMMAND: Command = Command {
    name: "psetex",
    summary: "Sets a value that expires after some milliseconds",
    since: "2.6.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 4,
    arguments: "key:key, milliseconds:integer, value",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update])],
    batching: Batching::Writes,
    events: Events::By(tell_expiring),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    set(context, arguments, Form::PX, COMMAND.name)
}
