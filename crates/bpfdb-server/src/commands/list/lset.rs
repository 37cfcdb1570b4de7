//! LSET.

use bpfdb::ValueType;
use bpfdb_values::list::List;

use super::super::arguments::number;
use super::super::collection::{Change, change};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "lset",
    summary: "Replaces one element of a list by its number",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: 4,
    arguments: "key:key, index:integer, element",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    change(context.session, &arguments[0], ValueType::LIST, |old| {
        let old = old.ok_or("ERR no such key")?;
        let index = number(&arguments[1])?;
        let new = List::parse(&old)?.set(index, &arguments[2])?;
        Ok((Change::Set(new.ok_or("ERR index out of range")?), ()))
    })?;
    context.replies.ok();
    Ok(())
}
