//! LTRIM.

use bpfdb::ValueType;
use bpfdb_values::list::List;
use bpfdb_values::places;

use super::super::arguments::number;
use super::super::collection::{Change, change};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "ltrim",
    summary: "Removes the elements of a list that are not between two numbers",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: 4,
    arguments: "key:key, start:integer, stop:integer",
    flags: &[Flag::Write],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (first, last) = (number(&arguments[1])?, number(&arguments[2])?);
    change(context.session, &arguments[0], ValueType::LIST, |old| {
        let Some(old) = old else {
            return Ok((Change::Nothing, ()));
        };
        let list = List::parse(&old)?;
        let places = places::range(first, last, list.len());
        if places.len() == list.len() {
            return Ok((Change::Nothing, ()));
        }
        Ok((list.trimmed(places)?.into(), ()))
    })?;
    context.replies.ok();
    Ok(())
}
