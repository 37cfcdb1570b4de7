//! GEOHASH.

use super::super::prelude::*;
use super::places::of_members;

pub(crate) static COMMAND: Command = Command {
    name: "geohash",
    summary: "Writes places as geohashes of eleven letters",
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
        let letters = place.map(|place| place.letters());
        let letters = letters.as_ref().map(|letters| letters.as_bytes());
        context.replies.bulk_or_null(letters);
    }
    Ok(())
}
