//! APPEND.

use super::super::prelude::*;
use super::super::update::{change, check_len};

pub(crate) static COMMAND: Command = Command {
    name: "append",
    summary: "Append a value to a key",
    since: "2.0.0",
    group: Group::String,
    complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by Redis will double the free space available on every reallocation.",
    arity: 3,
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(1, &["RW", "insert"])],
    path: Path::Kernel,
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
