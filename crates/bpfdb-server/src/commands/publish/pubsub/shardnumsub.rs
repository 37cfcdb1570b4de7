//! PUBSUB SHARDNUMSUB.

use super::super::super::prelude::*;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "pubsub|shardnumsub",
    summary: "How many have subscribed to each of these channels of the shard",
    since: "7.0.0",
    group: Group::Pubsub,
    complexity: "O(channels)",
    arity: -2,
    arguments: "[shardchannel]...",
    flags: super::super::TELLS,
    run: |context, names| super::receivers(context, Kind::Shard, names),
    ..Command::BASE
};
