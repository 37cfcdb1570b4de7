//! CONFIG RESETSTAT.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "config|resetstat",
    summary: "Counts from zero again",
    since: "2.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "Does not reset the section bpfdb of INFO (but bpfdb_conflict_replies_*), PROCEDURES and the metrics that come from the kernel.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let stats = context.engine.stats()?;
    context.instance.reset_statistics(&stats);
    context.replies.ok();
    Ok(())
}
