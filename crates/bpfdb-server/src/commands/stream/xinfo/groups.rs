//! XINFO GROUPS.

use super::super::super::collection::check_reply;
use super::super::super::prelude::*;
use super::super::entries::reply_id;
use super::{number_or_null, show};

pub(crate) static COMMAND: Command = Command {
    name: "xinfo|groups",
    summary: "Lists the groups of a stream",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: 3,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Stream],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    show(context, &arguments[0], |replies, stream| {
        let state = stream.state;
        let groups = stream.groups()?;
        replies.array(groups.len());
        for (name, group) in groups {
            replies.map(6);
            replies.bulk("name");
            replies.bulk(name);
            replies.bulk("consumers");
            replies.integer(group.consumers().len() as i64);
            replies.bulk("pending");
            replies.integer(group.pending().len() as i64);
            replies.bulk("last-delivered-id");
            reply_id(replies, group.last);
            replies.bulk("entries-read");
            number_or_null(replies, group.read.map(|read| read as i64));
            replies.bulk("lag");
            number_or_null(replies, state.lag(group));
            check_reply(replies, 0)?;
        }
        Ok(())
    })
}
