//! BGREWRITEAOF.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "bgrewriteaof",
    summary: "Begins a checkpoint, after which the log before it is not needed any more",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 1,
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading],
    differences: "The same as BGSAVE: a checkpoint is what a shorter log begins with.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    if context.instance.log.is_checkpointing() {
        return Err("ERR Background append only file rewriting already in progress".into());
    }
    context.instance.log.begin_checkpoint()?;
    context
        .replies
        .simple("Background append only file rewriting started");
    Ok(())
}
