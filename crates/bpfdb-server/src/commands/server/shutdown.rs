//! SHUTDOWN.

use super::super::arguments::{is, syntax_error};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "shutdown",
    summary: "Stops the server",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -1,
    arguments: "[nosave_save(NOSAVE|SAVE)], [NOW@7.0.0], [FORCE@7.0.0], [ABORT@7.0.0]",
    flags: &[
        Flag::Admin,
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::NoMulti,
        Flag::AllowBusy,
    ],
    differences: "SAVE keeps the data in the kernel for the next start, NOSAVE drops it; without either, the setting keep-data decides, and what the log could not write stays in any case.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let mut keep = None;
    for word in arguments {
        if is(word, "save") && keep.is_none() {
            keep = Some(true);
        } else if is(word, "nosave") && keep.is_none() {
            keep = Some(false);
        } else if is(word, "abort") && arguments.len() == 1 {
            return Err("ERR No shutdown in progress.".into());
        } else if !is(word, "now") && !is(word, "force") {
            return Err(syntax_error());
        }
    }
    tracing::info!(peer = %context.connection.peer, "a client stops the server");
    match keep {
        Some(keep) => context.instance.stopper.stop_and(keep),
        None => context.instance.stopper.stop(),
    }
    // There is no reply: the connection ends.
    context.connection.close = true;
    Ok(())
}
