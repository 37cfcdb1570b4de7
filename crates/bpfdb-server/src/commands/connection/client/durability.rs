//! CLIENT DURABILITY: whether replies wait until what they tell of is durable.

use super::super::super::prelude::*;
use crate::instance::log::NO_LOG;
use crate::settings::Durability;

pub(crate) static COMMAND: Command = Command {
    name: "client|durability",
    summary: "Whether replies wait until what they depend on is durable",
    since: "0.1.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -2,
    arguments: "[mode(SYNC|ASYNC|DEFAULT)]",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "Redis has no such command. SYNC: replies on this connection expose nothing that is not durable, be it its own write, another client's value, or that there is none. ASYNC: replies come at once. DEFAULT: as the setting appendfsync says. Without a mode: replies with the one that holds now.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let chosen = match arguments {
        [] => {
            let is_sync = context.instance.is_sync(context.connection.durability);
            context.replies.bulk(if is_sync { "sync" } else { "async" });
            return Ok(());
        }
        [mode] if mode.eq_ignore_ascii_case(b"sync") => Some(Durability::Sync),
        [mode] if mode.eq_ignore_ascii_case(b"async") => Some(Durability::Async),
        [mode] if mode.eq_ignore_ascii_case(b"default") => None,
        _ => return Err("ERR the mode is SYNC, ASYNC or DEFAULT".into()),
    };
    if chosen == Some(Durability::Sync) && !context.instance.log.is_there() {
        return Err(NO_LOG.into());
    }
    context.connection.durability = chosen;
    context.hold_own_replies();
    context.replies.ok();
    Ok(())
}
