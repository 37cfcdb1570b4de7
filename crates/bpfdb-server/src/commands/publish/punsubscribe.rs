//! PUNSUBSCRIBE.

use super::super::prelude::*;
use super::subscriptions::unsubscribe;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "punsubscribe",
    summary: "Stops listening by patterns, or by all of them",
    since: "2.0.0",
    group: Group::Pubsub,
    complexity: "O(patterns)",
    arity: -1,
    arguments: "[pattern:pattern]...",
    flags: super::SUBSCRIBES,
    differences: "In MULTI … EXEC it is executed as outside: EXEC that is rolled back leaves it as it is.",
    for_subscribers: true,
    run: |context, names| unsubscribe(context, Kind::Pattern, "punsubscribe", names),
    ..Command::BASE
};
