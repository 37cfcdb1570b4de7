//! SETEX; and PSETEX, which counts milliseconds.

use super::super::expiry::Form;
use super::super::prelude::*;
use super::set::tell_expiring;

pub(crate) static COMMAND: Command = Command {
    name: "setex",
    summary: "Sets a value that expires after some seconds",
    since: "2.0.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 4,
    arguments: "key:key, seconds:integer, value",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update])],
    batching: Batching::Writes,
    events: Events::By(tell_expiring),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    set(context, arguments, Form::EX, COMMAND.name)
}

pub(super) fn set(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    form: Form,
    name: &str,
) -> Outcome {
    let expires_at = form.deadline(context, name, &arguments[1])?;
    let (key, value) = (&arguments[0], &arguments[2]);
    context.session.set_entry(key, value, Some(expires_at))?;
    context.replies.ok();
    Ok(())
}
