//! LLEN.

use bpfdb::ValueType;
use bpfdb_values::list::List;

use super::super::collection::load;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "llen",
    summary: "Tells how many elements a list has",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let read = load(context.session, &arguments[0], ValueType::LIST)?;
    let len = read.map_or(Ok(0), |read| {
        List::parse(&read.value).map(|list| list.len())
    })?;
    context.replies.integer(len as i64);
    Ok(())
}
