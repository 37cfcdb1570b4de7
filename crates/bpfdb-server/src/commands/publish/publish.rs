//! PUBLISH.

use super::super::prelude::*;
use super::delivery;
use crate::connection::subscribed::Message;

pub(crate) static COMMAND: Command = Command {
    name: "publish",
    summary: "Sends a message to all that listen to a channel",
    since: "2.0.0",
    group: Group::Pubsub,
    complexity: "O(N+M) where N is the number of those that listen to the channel and M that of all patterns",
    arity: 3,
    arguments: "channel, message",
    flags: super::PUBLISHES,
    differences: super::OF_TRANSACTION,
    announces: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let message = Message {
        channel: arguments[0].clone(),
        text: arguments[1].clone(),
        is_of_shard: false,
    };
    // While the kernel hands over each of them, a publisher stays here.
    if !context.is_of_block && context.instance.subscriptions.connections() > 0 {
        context.set_needs_daemon(true);
    }
    let receivers = delivery::publish(context, message)?;
    context.replies.integer(receivers as i64);
    Ok(())
}
