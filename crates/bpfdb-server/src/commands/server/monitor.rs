//! MONITOR: every request that is executed, as it is executed. The kernel passes them all.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "monitor",
    summary: "Shows every request that is executed, until RESET or the end of the connection",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1); every request of any client takes time for each that listens",
    arity: 1,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "Of an argument, and of a request, a mebibyte is shown, and how much is left out. While any client listens the daemon executes all requests. Requests that the kernel has already begun are not shown. What is tried again after a conflict within EXEC or a script is shown again.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    if context.is_of_block {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    // As in Redis, a second one has no reply.
    if context.connection.is_monitor {
        return Ok(());
    }
    let added = context.instance.add_monitor(context.session.index());
    added.map_err(|error| format!("ERR not everything would be shown: {error}"))?;
    context.connection.is_monitor = true;
    context.replies.ok();
    Ok(())
}
