//! PUBSUB SHARDCHANNELS.

use super::super::super::prelude::*;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "pubsub|shardchannels",
    summary: "The channels of the shard that have subscribers",
    since: "7.0.0",
    group: Group::Pubsub,
    complexity: "O(channels), with short names and patterns",
    arity: -2,
    arguments: "[pattern:pattern]",
    flags: super::super::TELLS,
    run: |context, arguments| super::channels(context, Kind::Shard, arguments),
    ..Command::BASE
};
