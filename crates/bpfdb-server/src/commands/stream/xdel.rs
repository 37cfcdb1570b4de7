//! XDEL.

use super::super::prelude::*;
use super::ids;
use super::store::{self, Changed};

pub(crate) static COMMAND: Command = Command {
    name: "xdel",
    summary: "Removes entries by their identifiers",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(log B) with B blocks of entries, for each identifier",
    arity: -3,
    arguments: "key:key, id...",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Stream],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let deleted = store::change(context.session, &arguments[0], |stream, is_there| {
        if !is_there {
            return Ok((Changed::No, 0));
        }
        let ids = arguments[1..].iter().map(|text| ids::id(text, 0));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let mut deleted = 0;
        for id in ids {
            deleted += i64::from(stream.delete(id)?);
        }
        let changed = if deleted > 0 {
            Changed::Yes
        } else {
            Changed::No
        };
        Ok((changed, deleted))
    })?;
    context.replies.integer(deleted);
    Ok(())
}
