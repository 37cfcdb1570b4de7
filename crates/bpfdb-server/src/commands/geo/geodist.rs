//! GEODIST.

use super::super::arguments::syntax_error;
use super::super::prelude::*;
use super::places::{of_members, reply_distance, unit};

pub(crate) static COMMAND: Command = Command {
    name: "geodist",
    summary: "Returns how far two places are from each other",
    since: "3.2.0",
    group: Group::Geo,
    complexity: "O(length of the sorted set)",
    arity: -4,
    arguments: "key:key, member1, member2, [unit(M|KM|FT|MI)]",
    flags: &[Flag::Readonly],
    categories: &[Category::Geo],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let unit = match &arguments[3..] {
        [] => 1.0,
        [word] => unit(word)?,
        _ => return Err(syntax_error()),
    };
    let places = of_members(context.session, &arguments[0], &arguments[1..3])?;
    match places[..] {
        [Some(one), Some(other)] => reply_distance(context.replies, one.distance(other) / unit),
        _ => context.replies.null(),
    }
    Ok(())
}
