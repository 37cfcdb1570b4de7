//! PING.

use super::super::prelude::*;
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
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => context.replies.simple("PONG"),
        [message] => context.replies.bulk(message),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(())
}
