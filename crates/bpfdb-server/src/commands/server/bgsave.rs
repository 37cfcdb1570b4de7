//! BGSAVE.

use super::super::arguments::{is, syntax_error};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "bgsave",
    summary: "Begins a checkpoint",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -1,
    arguments: "[SCHEDULE@3.2.2]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading],
    differences: "Makes a checkpoint in the data directory, not an RDB file (for that there is bpfdb dump). While one is being made, SCHEDULE has another one follow.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let is_scheduled = match arguments {
        [] => false,
        [word] if is(word, "schedule") => true,
        _ => return Err(syntax_error()),
    };
    let log = &context.instance.log;
    let is_running = log.is_checkpointing();
    if is_running && !is_scheduled {
        return Err("ERR Background save already in progress".into());
    }
    if is_scheduled {
        log.schedule_checkpoint()?;
    } else {
        log.begin_checkpoint()?;
    }
    context.replies.simple(if is_running {
        "Background saving scheduled"
    } else {
        "Background saving started"
    });
    Ok(())
}
