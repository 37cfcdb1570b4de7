//! XGROUP DELCONSUMER.

use super::super::super::prelude::*;
use super::super::store::Changed;
use super::change;

pub(crate) static COMMAND: Command = Command {
    name: "xgroup|delconsumer",
    summary: "Removes a consumer from a group",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: 5,
    arguments: "key:key, groupname, consumername",
    flags: &[Flag::Write],
    categories: &[Category::Stream],
    keys: &[Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    events: Events::Named("xgroup-delconsumer"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let pending = change(context, arguments, |_, group| {
        if group.consumer(&arguments[2]).is_none() {
            return Ok((Changed::No, 0));
        }
        Ok((Changed::Yes, group.remove_consumer(&arguments[2])))
    })?;
    context.replies.integer(pending as i64);
    Ok(())
}
