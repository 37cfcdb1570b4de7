//! SETRANGE.

use super::super::arguments::number;
use super::super::prelude::*;
use super::super::update::{change, check_len};

pub(crate) static COMMAND: Command = Command {
    name: "setrange",
    summary: "Overwrite part of a string at key starting at the specified offset",
    since: "2.2.0",
    group: Group::String,
    complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
    arity: 4,
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    keys: &[Keys::at(1, &["RW", "update"])],
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
