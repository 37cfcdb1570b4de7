//! SETRANGE.

use super::super::arguments::number;
use super::super::prelude::*;
use super::super::update::{change, check_len};

pub(crate) static COMMAND: Command = Command {
    name: "setrange",
    summary: "Writes over part of a value, from an offset on; pads with zero bytes",
    since: "2.2.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 4,
    arguments: "key:key, offset:integer, value",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let offset = u64::try_from(number(&arguments[1])?).map_err(|_| "ERR offset is out of range")?;
    let part = &arguments[2];
    let len = change(context.session, &arguments[0], |old| {
        let mut value = old.unwrap_or_default();
        if part.is_empty() {
            return Ok((None, value.len()));
        }
        check_len(offset.saturating_add(part.len() as u64))?;
        let (start, end) = (offset as usize, offset as usize + part.len());
        value.resize(value.len().max(end), 0);
        value[start..end].copy_from_slice(part);
        let len = value.len();
        Ok((Some(value), len))
    })?;
    context.replies.integer(len as i64);
    Ok(())
}
