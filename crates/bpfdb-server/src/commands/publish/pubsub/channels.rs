//! PUBSUB CHANNELS.

use super::super::super::prelude::*;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "pubsub|channels",
    summary: "The channels that have subscribers",
    since: "2.8.0",
    group: Group::Pubsub,
    complexity: "O(channels), with short names and patterns",
    arity: -2,
    arguments: "[pattern:pattern]",
    flags: super::super::TELLS,
    run: |context, arguments| super::channels(context, Kind::Channel, arguments),
    ..Command::BASE
};
