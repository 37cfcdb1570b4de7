//! LINSERT.

use bpfdb::ValueType;
use bpfdb_values::list::{List, Side};

use super::super::arguments::{is, syntax_error};
use super::super::collection::{Change, change};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "linsert",
    summary: "Adds an element to a list, before or behind another one",
    since: "2.2.0",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: 5,
    arguments: "key:key, where(BEFORE|AFTER), pivot, element",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    run,
    ..Command::BASE
};

fn side(word: &[u8]) -> Result<Side, Failure> {
    if is(word, "after") {
        Ok(Side::Behind)
    } else if is(word, "before") {
        Ok(Side::Before)
    } else {
        Err(syntax_error())
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let side = side(&arguments[1])?;
    let len = change(context.session, &arguments[0], ValueType::LIST, |old| {
        let Some(old) = old else {
            return Ok((Change::Nothing, 0));
        };
        let list = List::parse(&old)?;
        let Some(new) = list.insert(side, &arguments[2], &arguments[3])? else {
            return Ok((Change::Nothing, -1));
        };
        Ok((Change::Set(new), list.len() as i64 + 1))
    })?;
    context.replies.integer(len);
    Ok(())
}
