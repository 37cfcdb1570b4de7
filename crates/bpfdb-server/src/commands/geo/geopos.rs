//! GEOPOS.

use super::super::prelude::*;
use super::places::{of_members, reply_place};

pub(crate) static COMMAND: Command = Command {
    name: "geopos",
    summary: "Reads the coordinates of places",
    since: "3.2.0",
    group: Group::Geo,
    complexity: "O(members asked for, each in the length of the sorted set)",
    arity: -2,
    arguments: "key:key, member...",
    flags: &[Flag::Readonly],
    categories: &[Category::Geo],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let places = of_members(context.session, &arguments[0], &arguments[1..])?;
    context.replies.array(places.len());
    for place in places {
        match place {
            Some(place) => reply_place(context.replies, place),
            None => context.replies.null_array(),
        }
    }
    Ok(())
}
