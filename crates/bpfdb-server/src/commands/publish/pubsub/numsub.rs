//! PUBSUB NUMSUB.

use super::super::super::prelude::*;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "pubsub|numsub",
    summary: "How many have subscribed to each of these channels",
    since: "2.8.0",
    group: Group::Pubsub,
    complexity: "O(channels)",
    arity: -2,
    arguments: "[channel]...",
    flags: super::super::TELLS,
    run: |context, names| super::receivers(context, Kind::Channel, names),
    ..Command::BASE
};
