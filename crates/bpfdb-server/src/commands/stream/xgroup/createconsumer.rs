//! XGROUP CREATECONSUMER.

use super::super::super::prelude::*;
use super::super::store::Changed;
use super::super::{NEW_CONSUMER, ids};
use super::change;

pub(crate) static COMMAND: Command = Command {
    name: "xgroup|createconsumer",
    summary: "Makes a consumer of a group",
    since: "6.2.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: 5,
    arguments: "key:key, groupname, consumername",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Stream],
    keys: &[Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    events: Events::Named(NEW_CONSUMER),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let is_new = change(context, arguments, |_, group| {
        let is_new = group.add_consumer(&arguments[2], ids::now());
        let changed = if is_new { Changed::Yes } else { Changed::No };
        Ok((changed, is_new))
    })?;
    context.replies.integer(is_new.into());
    Ok(())
}
