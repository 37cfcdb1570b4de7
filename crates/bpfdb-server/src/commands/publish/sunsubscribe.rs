//! SUNSUBSCRIBE.

use super::super::prelude::*;
use super::subscriptions::unsubscribe;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "sunsubscribe",
    summary: "Stops listening to channels of the shard, or to all of them",
    since: "7.0.0",
    group: Group::Pubsub,
    complexity: "O(channels)",
    arity: -1,
    arguments: "[shardchannel]...",
    flags: super::SUBSCRIBES,
    keys: &[super::SHARD_CHANNEL.last(-1)],
    differences: "In MULTI … EXEC it is executed as outside: EXEC that is rolled back leaves it as it is.",
    for_subscribers: true,
    run: |context, names| unsubscribe(context, Kind::Shard, "sunsubscribe", names),
    ..Command::BASE
};
