//! PING.

use super::super::prelude::*;
use super::super::publish::is_for_messages;
use super::super::table::wrong_arity;

pub(crate) static COMMAND: Command = Command {
    name: "ping",
    summary: "Replies at once, with PONG or with its argument",
    since: "1.0.0",
    group: Group::Connection,
    complexity: "O(length of the message)",
    arity: -1,
    arguments: "[message]",
    flags: &[Flag::Fast],
    categories: &[Category::Connection],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    for_subscribers: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if arguments.len() < 2 && is_for_messages(context) {
        context.replies.array(2);
        context.replies.bulk("pong");
        context
            .replies
            .bulk(arguments.first().map_or(&[][..], Vec::as_slice));
        return Ok(());
    }
    match arguments {
        [] => context.replies.simple("PONG"),
        [message] => context.replies.bulk(message),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(())
}
