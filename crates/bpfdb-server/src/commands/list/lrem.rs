//! LREM.

use bpfdb::ValueType;
use bpfdb_values::list::{End, List};

use super::super::arguments::number;
use super::super::collection::{Change, change};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "lrem",
    summary: "Removes elements of a list that are equal to one",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: 4,
    arguments: "key:key, count:integer, element",
    flags: &[Flag::Write],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    run,
    ..Command::BASE
};

/// From which end, and how many at most. 0: all.
fn wanted(count: i64) -> (End, usize) {
    let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    match count {
        ..0 => (End::Tail, most),
        0 => (End::Head, usize::MAX),
        1.. => (End::Head, most),
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (end, most) = wanted(number(&arguments[1])?);
    let removed = change(context.session, &arguments[0], ValueType::LIST, |old| {
        let Some(old) = old else {
            return Ok((Change::Nothing, 0));
        };
        let (removed, left) = List::parse(&old)?.removed(&arguments[2], end, most)?;
        let change = if removed == 0 {
            Change::Nothing
        } else {
            left.into()
        };
        Ok((change, removed))
    })?;
    context.replies.integer(removed as i64);
    Ok(())
}
