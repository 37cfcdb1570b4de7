//! ZMPOP.

use super::super::arguments::is;
use super::super::atomic::{Kind, atomically};
use super::super::pop_arguments::PopArguments;
use super::super::prelude::*;
use super::pops::{End, pop_first};
use super::scores::Form;

pub(crate) static COMMAND: Command = Command {
    name: "zmpop",
    summary: "Takes members from the first of some sorted sets that has any",
    since: "7.0.0",
    group: Group::SortedSet,
    complexity: "O(keys, and members taken)",
    arity: -4,
    arguments: "numkeys:integer, key:key..., where(MIN|MAX), [COUNT count:integer]",
    flags: &[Flag::Write, Flag::MovableKeys],
    categories: &[Category::SortedSet],
    keys: &[Keys::counted_at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete],
    )],
    events: Events::By(|told| tell_popped(told, told.arguments)),
    run,
    ..Command::BASE
};

pub(super) fn end(word: &[u8]) -> Option<End> {
    if is(word, "min") {
        Some(End::Min)
    } else {
        is(word, "max").then_some(End::Max)
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let PopArguments { keys, end, count } = PopArguments::parse(arguments, end)?;
    let popped = atomically(context.session, Kind::Write, |session| {
        pop_first(session, keys, end, count)
    })?;
    let Some((number, popped)) = popped else {
        context.replies.null_array();
        return Ok(());
    };
    context.replies.array(2);
    context.replies.bulk(&keys[number]);
    popped.reply(context.replies, Form::Pairs)
}

/// Of ZMPOP's arguments.
pub(super) fn tell_popped(told: &mut Told<'_>, arguments: &[Vec<u8>]) {
    let name = match PopArguments::parse(arguments, end).map(|given| given.end) {
        Ok(End::Max) => "zpopmax",
        _ => "zpopmin",
    };
    for change in told.changes {
        told.tell_change(change, name);
    }
}
