//! UNSUBSCRIBE.

use super::super::prelude::*;
use super::subscriptions::unsubscribe;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "unsubscribe",
    summary: "Stops listening to channels, or to all of them",
    since: "2.0.0",
    group: Group::Pubsub,
    complexity: "O(channels)",
    arity: -1,
    arguments: "[channel]...",
    flags: super::SUBSCRIBES,
    differences: "In MULTI … EXEC it is executed as outside: EXEC that is rolled back leaves it as it is.",
    for_subscribers: true,
    run: |context, names| unsubscribe(context, Kind::Channel, "unsubscribe", names),
    ..Command::BASE
};
