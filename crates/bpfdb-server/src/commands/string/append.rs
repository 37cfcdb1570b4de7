//! APPEND.

use super::super::prelude::*;
use super::super::update::{change, check_len};

pub(crate) static COMMAND: Command = Command {
    name: "append",
    summary: "Adds bytes at the end of a value, or makes it",
    since: "2.0.0",
    group: Group::String,
    complexity: "O(length of the value that results)",
    arity: 3,
    arguments: "key:key, value",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, more) = (&arguments[0], &arguments[1]);
    let len = change(context.session, key, |old| {
        let mut value = old.unwrap_or_default();
        check_len((value.len() + more.len()) as u64)?;
        value.extend_from_slice(more);
        let len = value.len();
        Ok((Some(value), len))
    })?;
    context.replies.integer(len as i64);
    Ok(())
}
