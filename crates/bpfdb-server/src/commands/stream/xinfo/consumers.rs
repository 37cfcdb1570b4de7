//! XINFO CONSUMERS.

use super::super::super::collection::check_reply;
use super::super::super::prelude::*;
use super::super::ids;
use super::show;

pub(crate) static COMMAND: Command = Command {
    name: "xinfo|consumers",
    summary: "Lists the consumers of a group",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: 4,
    arguments: "key:key, groupname",
    flags: &[Flag::Readonly],
    categories: &[Category::Stream],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, name) = (&arguments[0], &arguments[1]);
    show(context, key, |replies, stream| {
        let group = stream.groups()?.get(name);
        let group = group.ok_or_else(|| ids::no_group_of_key(key, name))?;
        let now = ids::now();
        replies.array(group.consumers().len());
        for (name, consumer) in group.consumers() {
            replies.map(3);
            replies.bulk("name");
            replies.bulk(name);
            replies.bulk("pending");
            replies.integer(consumer.pending() as i64);
            replies.bulk("idle");
            replies.integer(now.wrapping_sub(consumer.seen).max(0));
            check_reply(replies, 0)?;
        }
        Ok(())
    })
}
