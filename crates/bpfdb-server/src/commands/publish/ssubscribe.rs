//! SSUBSCRIBE.

use super::super::prelude::*;
use super::subscriptions::subscribe;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "ssubscribe",
    summary: "Listens to the messages of channels of the shard",
    since: "7.0.0",
    group: Group::Pubsub,
    complexity: "O(channels)",
    arity: -2,
    arguments: "shardchannel...",
    flags: super::SUBSCRIBES,
    keys: &[super::SHARD_CHANNEL.last(-1)],
    differences: "There is one shard, this server.",
    for_subscribers: true,
    run,
    ..Command::BASE
};

/// As in Redis, which lets the older ones have more than one reply in EXEC's for the sake of what
/// was written before.
fn run(context: &mut Context<'_>, names: &[Vec<u8>]) -> Outcome {
    if context.is_of_block {
        return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
    }
    subscribe(context, Kind::Shard, "ssubscribe", names)
}
