//! LINSERT.

use bpfdb::ValueType;
use bpfdb_values::list::{End, List, Search, Side};

use super::super::arguments::{is, syntax_error};
use super::super::collection::{Change, Large, change_either};
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
    let (pivot, element) = (&arguments[2], &arguments[3]);
    let small = |old: Option<Vec<u8>>| {
        let Some(old) = old else {
            return Ok((Change::Nothing, 0));
        };
        let list = List::parse(&old)?;
        let Some(new) = list.insert(side, pivot, element)? else {
            return Ok((Change::Nothing, -1));
        };
        Ok((Change::Set(new), list.len() as i64 + 1))
    };
    let large = |large: &mut Large<'_>| {
        let whole = large.whole()?;
        let first = Search {
            element: pivot,
            from: End::Head,
            skip: 0,
            compared: None,
        };
        let Some(&place) = List::parse(&whole)?.positions(first)?.first() else {
            return Ok(-1);
        };
        let place = place as u64 + u64::from(side == Side::Behind);
        large.insert_at(place, element)?;
        Ok(large.len() as i64)
    };
    let len = change_either(
        context.session,
        &arguments[0],
        ValueType::LIST,
        small,
        large,
    )?;
    context.replies.integer(len);
    Ok(())
}
