//! XGROUP DESTROY.

use super::super::super::prelude::*;
use super::super::store::{self, Changed};
use super::no_stream;

pub(crate) static COMMAND: Command = Command {
    name: "xgroup|destroy",
    summary: "Removes a group of consumers",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: 4,
    arguments: "key:key, groupname",
    flags: &[Flag::Write],
    categories: &[Category::Stream],
    keys: &[Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    events: Events::Named("xgroup-destroy"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let is_gone = store::change(context.session, &arguments[0], |stream, is_there| {
        if !is_there {
            return Err(no_stream());
        }
        let group = stream.groups()?.remove(&arguments[1]);
        let changed = if group.is_some() {
            Changed::Yes
        } else {
            Changed::No
        };
        Ok((changed, group.is_some()))
    })?;
    context.replies.integer(is_gone.into());
    Ok(())
}
