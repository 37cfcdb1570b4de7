//! XACK.

use super::super::prelude::*;
use super::ids;
use super::store::{self, Changed};

pub(crate) static COMMAND: Command = Command {
    name: "xack",
    summary: "Acknowledges entries that were delivered to a group",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: -4,
    arguments: "key:key, group, id...",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Stream],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    events: Events::None,
    misses: Misses::All,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let done = store::change(context.session, &arguments[0], |stream, _| {
        let Some(group) = stream.groups()?.get_mut(&arguments[1]) else {
            return Ok((Changed::No, 0));
        };
        let ids = arguments[2..].iter().map(|text| ids::id(text, 0));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let done = ids.into_iter().filter(|&id| group.acknowledge(id)).count();
        let changed = if done > 0 { Changed::Yes } else { Changed::No };
        Ok((changed, done))
    })?;
    context.replies.integer(done as i64);
    Ok(())
}
