//! PSUBSCRIBE.

use super::super::prelude::*;
use super::subscriptions::subscribe;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "psubscribe",
    summary: "Listens to the messages of channels whose names match patterns",
    since: "2.0.0",
    group: Group::Pubsub,
    complexity: "O(patterns)",
    arity: -2,
    arguments: "pattern{pattern:pattern}...",
    flags: super::SUBSCRIBES,
    differences: "In MULTI … EXEC it is executed as outside: EXEC that is rolled back leaves it as it is.",
    for_subscribers: true,
    run: |context, names| subscribe(context, Kind::Pattern, "psubscribe", names),
    ..Command::BASE
};
