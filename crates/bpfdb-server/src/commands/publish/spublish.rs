//! SPUBLISH.

use super::super::prelude::*;
use super::delivery;
use crate::connection::subscribed::Message;

pub(crate) static COMMAND: Command = Command {
    name: "spublish",
    summary: "Sends a message to all that listen to a channel of the shard",
    since: "7.0.0",
    group: Group::Pubsub,
    complexity: "O(N) where N is the number of those that listen to the channel",
    arity: 3,
    arguments: "shardchannel, message",
    flags: super::PUBLISHES,
    keys: &[super::SHARD_CHANNEL],
    differences: super::OF_TRANSACTION,
    announces: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let message = Message {
        channel: arguments[0].clone(),
        text: arguments[1].clone(),
        is_of_shard: true,
    };
    let receivers = delivery::publish(context, message)?;
    context.replies.integer(receivers as i64);
    Ok(())
}
