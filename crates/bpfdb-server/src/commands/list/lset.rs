//! LSET.

use bpfdb::ValueType;
use bpfdb_values::list::List;
use bpfdb_values::places::place;

use super::super::arguments::number;
use super::super::collection::{Change, Large, change_either};
use super::super::prelude::*;
use super::large_len;

pub(crate) static COMMAND: Command = Command {
    name: "lset",
    summary: "Replaces one element of a list by its number",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(log length of the list)",
    arity: 4,
    arguments: "key:key, index:integer, element",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let small = |old: Option<Vec<u8>>| {
        let old = old.ok_or("ERR no such key")?;
        let index = number(&arguments[1])?;
        let new = List::parse(&old)?.set(index, &arguments[2])?;
        Ok((Change::Set(new.ok_or(OUT_OF_RANGE)?), ()))
    };
    let large = |large: &mut Large<'_>| {
        let index = number(&arguments[1])?;
        let place = place(index, large_len(large)).ok_or(OUT_OF_RANGE)?;
        large.replace(place as u64, &arguments[2])
    };
    change_either(
        context.session,
        &arguments[0],
        ValueType::LIST,
        small,
        large,
    )?;
    context.replies.ok();
    Ok(())
}

const OUT_OF_RANGE: &str = "ERR index out of range";
