//! LRANGE.

use bpfdb::ValueType;
use bpfdb_values::places;

use super::super::arguments::number;
use super::super::collection::load;
use super::super::prelude::*;
use super::{list_of, reply_elements};

pub(crate) static COMMAND: Command = Command {
    name: "lrange",
    summary: "Reads the elements of a list from one number to another",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: 4,
    arguments: "key:key, start:integer, stop:integer",
    flags: &[Flag::Readonly],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (first, last) = (number(&arguments[1])?, number(&arguments[2])?);
    let read = load(context.session, &arguments[0], ValueType::LIST)?;
    let list = list_of(read.as_ref().map(|read| &read.value[..]))?;
    let elements = list.elements(places::range(first, last, list.len()))?;
    reply_elements(context.replies, elements)
}
