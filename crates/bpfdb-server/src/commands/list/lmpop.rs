//! LMPOP.

use super::super::atomic::{Kind, atomically};
use super::super::pop_arguments::PopArguments;
use super::super::prelude::*;
use super::end;
use super::pops::{pop_first, tell_popped};

pub(crate) static COMMAND: Command = Command {
    name: "lmpop",
    summary: "Takes elements from the first of some lists that has any",
    since: "7.0.0",
    group: Group::List,
    complexity: "O(keys and elements taken)",
    arity: -4,
    arguments: "numkeys:integer, key:key..., where(LEFT|RIGHT), [COUNT count:integer]",
    flags: &[Flag::Write, Flag::MovableKeys],
    categories: &[Category::List],
    keys: &[Keys::counted_at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete],
    )],
    events: Events::By(|told| tell_popped(told, told.arguments)),
    run,
    ..Command::BASE
};

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
    popped.reply(context.replies)
}
