//! LTRIM.

use bpfdb::ValueType;
use bpfdb_values::list::List;
use bpfdb_values::places;

use super::super::arguments::number;
use super::super::collection::{Change, Large, change_either};
use super::super::prelude::*;
use super::{large_len, numbers};

pub(crate) static COMMAND: Command = Command {
    name: "ltrim",
    summary: "Removes the elements of a list that are not between two numbers",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(elements removed)",
    arity: 4,
    arguments: "key:key, start:integer, stop:integer",
    flags: &[Flag::Write],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    events: Events::Noted,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (first, last) = (number(&arguments[1])?, number(&arguments[2])?);
    let small = |old: Option<Vec<u8>>| {
        let Some(old) = old else {
            return Ok((Change::Nothing, false));
        };
        let list = List::parse(&old)?;
        let places = places::range(first, last, list.len());
        if places.len() == list.len() {
            return Ok((Change::Nothing, true));
        }
        Ok((list.trimmed(places)?.into(), true))
    };
    let large = |large: &mut Large<'_>| {
        let len = large.len();
        let kept = numbers(&places::range(first, last, large_len(large)));
        if kept.is_empty() {
            large.clear()?;
            return Ok(true);
        }
        large.take(kept.end..len)?;
        large.take(0..kept.start)?;
        Ok(true)
    };
    let key = &arguments[0];
    let is_there = change_either(context.session, key, ValueType::LIST, small, large)?;
    if is_there {
        // Also if no element is removed.
        context.session.note_event(key, COMMAND.name);
    }
    context.replies.ok();
    Ok(())
}
