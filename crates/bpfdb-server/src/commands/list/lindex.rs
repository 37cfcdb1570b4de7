//! LINDEX.

use bpfdb::ValueType;
use bpfdb_values::list::List;

use super::super::arguments::number;
use super::super::collection::load;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "lindex",
    summary: "Reads one element of a list by its number",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: 3,
    arguments: "key:key, index:integer",
    flags: &[Flag::Readonly],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let Some(read) = load(context.session, &arguments[0], ValueType::LIST)? else {
        context.replies.null();
        return Ok(());
    };
    let element = List::parse(&read.value)?.get(number(&arguments[1])?)?;
    context.replies.bulk_or_null(element);
    Ok(())
}
